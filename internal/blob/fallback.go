package blob

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Fallback is a store with another one behind it, which has older blobs: it is read
// where the first has none or fails, and nothing is put there.
type Fallback struct {
	Store
	behind Store
}

// NewFallback returns store with another one behind it.
func NewFallback(store, behind Store) *Fallback { return &Fallback{store, behind} }

// Open implements Store.
func (f *Fallback) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	r, err := f.Store.Open(ctx, key, offset)
	if err == nil {
		return r, nil
	}
	older, behindErr := f.behind.Open(ctx, key, offset)
	return older, f.choose(err, behindErr)
}

// Stat implements Store.
func (f *Fallback) Stat(ctx context.Context, key string) (Info, error) {
	info, err := f.Store.Stat(ctx, key)
	if err == nil {
		return info, nil
	}
	older, behindErr := f.behind.Stat(ctx, key)
	return older, f.choose(err, behindErr)
}

// choose is the error of what the first store has not, or fails to read. That there is no
// such blob is known when both say so.
func (f *Fallback) choose(err, behind error) error {
	if behind == nil || errdefs.Is(err, errdefs.NotFound) {
		return behind
	}
	return err
}

// List implements Store. A blob that both have is the first one's.
func (f *Fallback) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		seen := map[string]bool{}
		for _, store := range []Store{f.Store, f.behind} {
			for info, err := range store.List(ctx, prefix) {
				if err == nil && seen[info.Key] {
					continue
				}
				seen[info.Key] = true
				if !yield(info, err) || err != nil {
					return
				}
			}
		}
	}
}

// Delete implements Store.
func (f *Fallback) Delete(ctx context.Context, key string) error {
	return errors.Join(f.Store.Delete(ctx, key), f.behind.Delete(ctx, key))
}
