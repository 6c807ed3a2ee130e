package blob

import (
	"bufio"
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// The format of an encrypted blob, version 1:
//
//	magic   4 bytes, "skb1"
//	salt    32 random bytes
//	chunks  each 64 KiB of the blob, the last one less or as much, sealed with
//	        AES-256-GCM and so 16 bytes longer; an empty blob has one empty chunk
//
// The key of the chunks is HKDF-SHA256 of the store's key with the salt, and
// with "sandkasten blob 1 " and the blob's key as its info. So a blob that is
// moved to another key does not open. A chunk's nonce is its number, 11 bytes,
// big endian, and one byte that is 1 in the last chunk and 0 in the others: a
// chunk opens in its place only, and a blob that was cut ends with one that
// does not open. Salt and nonces never meet twice under one key.
//
// Who holds the store still sees the names, sizes and times of blobs, and can
// delete one or put an older one of the same key in its place.
const (
	magic     = "skb1"
	saltSize  = 32
	headSize  = len(magic) + saltSize
	chunkSize = 64 << 10
	tagSize   = 16
	keyInfo   = "sandkasten blob 1 "
)

// KeySize is the length of a store's key, in bytes.
const KeySize = 32

// ParseKey reads a key as operators write it: 64 hexadecimal digits, as
// `openssl rand -hex 32` makes them, with or without space around them.
func ParseKey(text string) ([]byte, error) {
	key, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("a key of %d hexadecimal digits is wanted, as `openssl rand -hex %d` makes it", 2*KeySize, KeySize)
	}
	return key, nil
}

// Encrypted is a store that another one keeps without being able to read it
// or to change it unseen.
type Encrypted struct {
	store Store
	key   []byte
}

// NewEncrypted returns store behind key, which is KeySize random bytes. What
// was put without it, or with another key, does not open.
func NewEncrypted(store Store, key []byte) (*Encrypted, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("encrypt blobs: the key has %d bytes instead of %d", len(key), KeySize)
	}
	return &Encrypted{store, key}, nil
}

// aead is the cipher of one blob.
func (e *Encrypted) aead(key string, salt []byte) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, e.key, salt, keyInfo+key, KeySize)
	if err != nil {
		return nil, fmt.Errorf("derive the key of %s: %w", key, err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("derive the key of %s: %w", key, err)
	}
	return cipher.NewGCM(block)
}

// nonce of the chunk with number n.
func nonce(n uint64, last bool) []byte {
	b := make([]byte, 12)
	binary.BigEndian.PutUint64(b[3:11], n)
	if last {
		b[11] = 1
	}
	return b
}

// Put implements Store.
func (e *Encrypted) Put(ctx context.Context, key string, r io.Reader) (size int64, err error) {
	salt := make([]byte, saltSize)
	rand.Read(salt) // never fails
	aead, err := e.aead(key, salt)
	if err != nil {
		return 0, err
	}
	s := &sealer{src: bufio.NewReader(r), aead: aead}
	_, err = e.store.Put(ctx, key, io.MultiReader(strings.NewReader(magic+string(salt)), s))
	return s.size, err
}

// sealer yields the chunks of src, sealed.
type sealer struct {
	src   *bufio.Reader // looks one byte ahead for the end
	aead  cipher.AEAD
	size  int64  // read from src
	n     uint64 // of the next chunk
	chunk [chunkSize + tagSize]byte
	ready []byte // of chunk, not yet read
	err   error  // once ready is empty
}

func (s *sealer) Read(p []byte) (int, error) {
	if len(s.ready) == 0 && s.err == nil {
		s.seal()
	}
	if len(s.ready) == 0 {
		return 0, s.err
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

func (s *sealer) seal() {
	plain, last, err := next(s.src, s.chunk[:chunkSize])
	s.size += int64(len(plain))
	if err != nil {
		s.err = err
		return
	}
	s.ready = s.aead.Seal(s.chunk[:0], nonce(s.n, last), plain, nil)
	s.n++
	if last {
		s.err = io.EOF
	}
}

// next fills chunk from r and says whether r ends there. An error of r is
// never taken for its end, whatever it is.
func next(r *bufio.Reader, chunk []byte) (filled []byte, last bool, err error) {
	n := 0
	for n < len(chunk) {
		m, err := r.Read(chunk[n:])
		n += m
		if errors.Is(err, io.EOF) {
			return chunk[:n], true, nil
		}
		if err != nil {
			return chunk[:n], false, err
		}
	}
	_, err = r.Peek(1)
	if errors.Is(err, io.EOF) {
		return chunk, true, nil
	}
	return chunk, false, err
}

// Open implements Store. A byte is handed out only after the chunk that it is
// in has opened; a chunk that does not open is an Unprocessable error of Read.
func (e *Encrypted) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	info, err := e.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := CheckOffset(key, offset, info.Size); err != nil {
		return nil, err
	}
	salt, err := e.salt(ctx, key)
	if err != nil {
		return nil, err
	}
	aead, err := e.aead(key, salt)
	if err != nil {
		return nil, err
	}
	// The end of a blob is the end of its last chunk: no chunk begins there.
	first := max(offset-1, 0) / chunkSize
	src, err := e.store.Open(ctx, key, int64(headSize)+first*(chunkSize+tagSize))
	if err != nil {
		return nil, err
	}
	o := &opener{key: key, src: bufio.NewReader(src), Closer: src, aead: aead, n: uint64(first), isRight: func() bool { return e.opensAnother(ctx, key) }}
	if _, err := io.CopyN(io.Discard, o, offset-first*chunkSize); err != nil {
		return nil, errors.Join(err, src.Close())
	}
	return o, nil
}

func (e *Encrypted) salt(ctx context.Context, key string) (salt []byte, err error) {
	r, err := e.store.Open(ctx, key, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	head, err := io.ReadAll(io.LimitReader(r, int64(headSize)))
	if err != nil {
		return nil, fmt.Errorf("read the head of %s: %w", key, err)
	}
	salt, ok := bytes.CutPrefix(head, []byte(magic))
	switch {
	case bytes.HasPrefix(head, zstdMagic):
		return nil, errdefs.New(errdefs.Unavailable, "blob %s was put without a key: open the store without one to read it", key)
	case !ok || len(salt) != saltSize:
		return nil, errdefs.New(errdefs.Unprocessable, "blob %s is not encrypted: it was damaged", key)
	}
	return salt, nil
}

// zstdMagic begins archives, which blobs are that were put without a key.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// mostTried bounds the blobs that are looked at to tell a wrong key from damage.
const mostTried = 20

// opensAnother reports whether the store's key opens any other blob: then one that it does
// not open is damaged.
func (e *Encrypted) opensAnother(ctx context.Context, than string) bool {
	tried := 0
	for info, err := range e.store.List(ctx, "") {
		if err != nil || tried == mostTried {
			return false
		}
		if info.Key == than {
			continue
		}
		tried++
		if e.opensFirst(ctx, info.Key) {
			return true
		}
	}
	return false
}

// opensFirst reports whether the first chunk of a blob opens.
func (e *Encrypted) opensFirst(ctx context.Context, key string) bool {
	salt, err := e.salt(ctx, key)
	if err != nil {
		return false
	}
	aead, err := e.aead(key, salt)
	if err != nil {
		return false
	}
	src, err := e.store.Open(ctx, key, int64(headSize))
	if err != nil {
		return false
	}
	defer src.Close()
	o := &opener{key: key, src: bufio.NewReader(src), aead: aead, isRight: func() bool { return false }}
	o.open()
	return o.err == nil || errors.Is(o.err, io.EOF)
}

// Plain is a store without a key. Of blobs that were put with one it says so.
type Plain struct{ Store }

// Open implements Store.
func (p Plain) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	r, err := p.Store.Open(ctx, key, offset)
	if err != nil || offset > 0 {
		return r, err
	}
	from := bufio.NewReader(r)
	if head, _ := from.Peek(len(magic)); string(head) == magic {
		return nil, errors.Join(errdefs.New(errdefs.Unavailable, "blob %s was put with a key, and the daemon has none: set snapshots.encryption_key", key), r.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{from, r}, nil
}

// opener yields what the chunks of src hold.
type opener struct {
	key   string // of the blob
	src   *bufio.Reader
	aead  cipher.AEAD
	n     uint64 // of the next chunk
	chunk [chunkSize + tagSize]byte
	ready []byte // of chunk, not yet read
	err   error  // once ready is empty
	io.Closer

	opened  bool        // a chunk has opened, so that the key is right
	isRight func() bool // asks whether the key is
}

func (o *opener) Read(p []byte) (int, error) {
	if len(o.ready) == 0 && o.err == nil {
		o.open()
	}
	if len(o.ready) == 0 {
		return 0, o.err
	}
	n := copy(p, o.ready)
	o.ready = o.ready[n:]
	return n, nil
}

func (o *opener) open() {
	sealed, last, err := next(o.src, o.chunk[:])
	if err != nil {
		o.err = fmt.Errorf("read %s: %w", o.key, err)
		return
	}
	o.ready, err = o.aead.Open(sealed[:0], nonce(o.n, last), sealed, nil)
	o.n++
	switch {
	case err != nil && !o.opened && !o.isRight():
		o.err = errdefs.Wrap(err, errdefs.Unavailable, "blob %s does not open, nor does any other: snapshots.encryption_key is not the key that it was put with", o.key)
	case err != nil:
		o.err = errdefs.Wrap(err, errdefs.Unprocessable, "blob %s was damaged or changed", o.key)
	case last:
		o.err = io.EOF
	}
	o.opened = true
}

// Stat implements Store. The size is what the store says, until reading proves
// it.
func (e *Encrypted) Stat(ctx context.Context, key string) (Info, error) {
	info, err := e.store.Stat(ctx, key)
	info.Size = plainSize(info.Size)
	return info, err
}

// List implements Store.
func (e *Encrypted) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for info, err := range e.store.List(ctx, prefix) {
			info.Size = plainSize(info.Size)
			if !yield(info, err) {
				return
			}
		}
	}
}

// plainSize is the size of the blob whose encrypted form has size bytes.
func plainSize(size int64) int64 {
	sealed := max(size-int64(headSize), 0)
	chunks := (sealed + chunkSize + tagSize - 1) / (chunkSize + tagSize)
	return max(sealed-chunks*tagSize, 0)
}

// Delete implements Store.
func (e *Encrypted) Delete(ctx context.Context, key string) error { return e.store.Delete(ctx, key) }

// Sweep implements Store.
func (e *Encrypted) Sweep(ctx context.Context) error { return e.store.Sweep(ctx) }
