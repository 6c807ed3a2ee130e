package audit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
)

// followEvery is how often the end of the log is looked at.
const followEvery = 200 * time.Millisecond

// Follow passes on the lines of the log in dir that come after number seq, as they
// are written, until ctx is done or on fails. It checks their hashes, not the chain.
func Follow(ctx context.Context, dir string, seq int64, on func(Line) error) error {
	for {
		f, err := os.Open(filepath.Join(dir, current))
		if err == nil {
			seq, err = followOne(ctx, f, seq, on)
			err = errors.Join(err, f.Close())
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, os.ErrNotExist): // it rotates just now, or nobody has begun it
		case err != nil:
			return err
		}
		if !wait(ctx) {
			return nil
		}
	}
}

// followOne reads f until it is no longer the current file and has no more lines.
func followOne(ctx context.Context, f *os.File, seq int64, on func(Line) error) (int64, error) {
	in := bufio.NewReaderSize(f, maxLine)
	var part []byte // of a line that is being written
	for {
		text, err := in.ReadBytes('\n')
		part = append(part, text...)
		if err == nil {
			of, _, err := unseal(part)
			if err == nil && of.Seq > seq {
				seq = of.Seq
				if err := on(Line{Seq: of.Seq, Time: of.Time, Entry: of.Entry, Text: part}); err != nil {
					return seq, err
				}
			}
			part = nil
			continue
		}
		if !errors.Is(err, io.EOF) {
			return seq, err
		}
		if !isCurrent(f) || !wait(ctx) {
			return seq, nil
		}
	}
}

func isCurrent(f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(filepath.Join(filepath.Dir(f.Name()), current))
	return err == nil && os.SameFile(mine, now)
}

// wait is false when ctx is done.
func wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(followEvery):
		return true
	}
}
