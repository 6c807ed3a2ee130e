package files

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
)

// unknownSize is of a stream that does not say how long it is.
const unknownSize = -1

// stream copies with a large buffer.
func stream(w io.Writer, r io.Reader) error {
	_, err := io.CopyBuffer(onlyWriter{w}, r, make([]byte, 256<<10))
	return err
}

// output writes a file of a sandbox to standard output. A terminal shows its control
// characters and does not obey them, unless it is to get them raw.
func output(a *cli.App, content io.Reader, raw bool) error {
	if raw || !show.IsTerminal(a.Out) {
		return stream(a.Out, content)
	}
	screen := show.NewScreen(a.Out)
	return errors.Join(stream(screen, content), screen.Flush())
}

// onlyWriter keeps io.CopyBuffer from finding a way of its own.
type onlyWriter struct{ io.Writer }

// spoolInput returns a file with the content of in and a known length: itself, or a
// copy that goes away when it is closed.
func spoolInput(in *os.File) (*os.File, error) {
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() {
		return in, nil
	}
	spool, err := os.CreateTemp("", "sandkasten-*")
	if err != nil {
		return nil, err
	}
	err = os.Remove(spool.Name())
	if err == nil {
		err = stream(spool, in)
	}
	if err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep standard input until its length is known: %w", err), spool.Close())
	}
	return spool, nil
}

// countRemaining returns the number of bytes that are left to read in a file.
func countRemaining(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file; pipe it in with -", f.Name())
	}
	at, err := f.Seek(0, io.SeekCurrent)
	return max(0, info.Size()-at), err
}
