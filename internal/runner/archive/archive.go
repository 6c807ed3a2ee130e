// Package archive packs directory trees and unpacks what strangers have
// packed, in constant memory. It belongs here if it handles the formats, or
// the files of one archive; which directory that is about, and who asks, does
// not.
//
// Nothing in an archive is trusted. Names are refused, not mended, when they
// try to lead out of it; no link is followed, whether it came with the archive
// or was there before; and every quantity has a limit that stops the work
// early. Archives are decoded in this process.
package archive

import (
	"errors"
	"fmt"
	"io"

	"github.com/sandkasten/sandkasten/protocol"
)

// Limits of one archive. Bytes count files with their holes.
const (
	maxBytes         = 32 << 30
	maxEntries       = 1_000_000
	maxDepth         = 128
	maxPath          = 1024
	maxName          = 255 // NAME_MAX
	maxLink          = 1024
	maxRatio         = 200      // of what comes out to what went in ...
	freeBytes        = 10 << 20 // ... once this much has come out
	maxZipDirectory  = 16 << 20
	maxDecoderMemory = 64 << 20
	maxWindow        = 32 << 20
	copyBuffer       = 256 << 10
)

// Format is how an archive is written.
type Format string

// The formats.
const (
	Tar     Format = "tar"
	TarGzip Format = "tar.gz"
	TarZstd Format = "tar.zst"
	Zip     Format = "zip"
)

// Valid refuses what is none of the formats.
func (f Format) Valid() error {
	switch f {
	case Tar, TarGzip, TarZstd, Zip:
		return nil
	}
	return protocol.Refuse(protocol.CodeInvalid, "format must be one of tar, tar.gz, tar.zst and zip")
}

func malformed(format string, args ...any) error {
	return protocol.Refuse(protocol.CodeUnprocessable, "the archive is refused: %s", fmt.Sprintf(format, args...))
}

func tooLarge(format string, args ...any) error {
	return protocol.Refuse(protocol.CodeTooLarge, "the archive is refused: %s", fmt.Sprintf(format, args...))
}

// sourceError is a failure to receive the archive, which is the connection's
// and says nothing about the archive.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// source marks the errors of what an archive is read from, and counts its
// bytes.
type source struct {
	r io.Reader
	n int64
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = sourceError{err}
	}
	return n, err
}

// readError explains an error of a decoder, unless it is somebody else's.
func readError(err error, f Format) error {
	if e, ok := errors.AsType[sourceError](err); ok {
		return e.error
	}
	if _, ok := errors.AsType[*protocol.Error](err); ok {
		return err
	}
	return malformed("it is damaged, cut off or not a %s file", f)
}
