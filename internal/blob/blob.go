// Package blob keeps large immutable things, snapshots above all, under names:
// in a directory of the host or, with package s3, in a bucket. Encrypted makes
// any store unreadable for whoever holds it. What the bytes mean is their
// writer's business.
package blob

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Store keeps blobs. Its methods may be called concurrently, except that a key
// has one Put at a time and Sweep runs before the first.
//
// Keys are what CheckKey accepts; every method refuses another one with
// InvalidArgument. No key may be the directory of another: where there is "a"
// there cannot be "a/b", since some servers keep keys as paths.
//
// Where a method says so an error carries an errdefs code; any other error
// means that the store itself is in trouble.
type Store interface {
	// Put keeps what r yields, to its end, under key and replaces what was
	// there. The blob is to be seen whole or not at all: when r or the store
	// fails, or ctx ends, nothing is listed that was not before, and nothing is
	// left that Sweep would not remove. It returns the bytes read from r.
	Put(ctx context.Context, key string, r io.Reader) (size int64, err error)

	// Open reads key from offset, a position from 0 to its size. The caller
	// closes the reader; where a network is between, it ends with ctx. It returns NotFound when
	// there is no such blob, and InvalidArgument for an offset behind its end.
	Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error)

	// Stat describes key. It returns NotFound when there is no such blob.
	Stat(ctx context.Context, key string) (Info, error)

	// List yields the blobs whose keys begin with prefix, in no order, until the
	// first error. All keys begin with an empty one; no prefix needs to end at a
	// slash.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]

	// Delete removes key. That it is absent is not an error.
	Delete(ctx context.Context, key string) error

	// Sweep removes what an interrupted Put has left. Call it once, before the
	// first Put: it cannot tell a running one from a dead one.
	Sweep(ctx context.Context) error
}

// Info describes a blob.
type Info struct {
	Key     string
	Size    int64 // bytes that Open yields
	ModTime time.Time
}

// maxKey is the longest key, in bytes: one name of a file has room for it.
const maxKey = 200

// CheckKey returns InvalidArgument unless key can name a blob: parts of lower
// case letters, digits, '-' and '.', of which none is empty or begins with a
// dot, joined by slashes. So no key leads out of a store or to a name that is
// the store's own.
func CheckKey(key string) error {
	if len(key) > maxKey {
		return errdefs.OverLimit("key", maxKey)
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part[0] == '.' || !ofKeyBytes(part) {
			return errdefs.Invalid("key", "must be parts of a-z, 0-9, '-' and '.', joined by '/' and not beginning with '.'; got %q", key)
		}
	}
	return nil
}

// CheckPrefix is CheckKey for what List takes: the beginning of a key.
func CheckPrefix(prefix string) error {
	if len(prefix) > maxKey || !ofKeyBytes(strings.ReplaceAll(prefix, "/", "")) {
		return errdefs.Invalid("prefix", "must be the beginning of a key; got %q", prefix)
	}
	return nil
}

func ofKeyBytes(text string) bool {
	return strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

// CheckOffset returns InvalidArgument unless offset is a position of key, a
// blob of size bytes.
func CheckOffset(key string, offset, size int64) error {
	if offset < 0 || offset > size {
		return errdefs.Invalid("offset", "must be from 0 to %d, the size of %s; got %d", size, key, offset)
	}
	return nil
}

// NotFound is the error for a key without a blob. The cause may be nil.
func NotFound(key string, cause error) error {
	return errdefs.Wrap(cause, errdefs.NotFound, "there is no blob %s in the store", key)
}
