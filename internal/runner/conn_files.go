package runner

import (
	"github.com/sandkasten/sandkasten/internal/runner/fileops"
	"github.com/sandkasten/sandkasten/protocol"
)

// files answers a request about files.
func (c *conn) files(h protocol.Header) error {
	ops := &fileops.Conn{Files: c.r.files, File: c.file, In: c.in, Out: c.out}
	return ops.Answer(h)
}
