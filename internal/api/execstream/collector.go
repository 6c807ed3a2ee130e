package execstream

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// Collector takes a command's output, or one stream of it, for one answer.
type Collector struct {
	kept  *api.Output
	plain *api.Plain // nil for raw output
	taken int64
}

// NewCollector returns a Collector that keeps limit bytes: the first half and
// the last. Unless raw is set, control sequences are taken out before.
func NewCollector(limit int64, raw bool) *Collector {
	c := &Collector{kept: api.NewOutput(limit)}
	if !raw {
		c.plain = api.NewPlain(c.kept)
	}
	return c
}

// Write takes the next bytes of the output.
func (c *Collector) Write(p []byte) (int, error) {
	c.taken += int64(len(p))
	if c.plain != nil {
		return c.plain.Write(p)
	}
	return c.kept.Write(p)
}

// Taken is how many bytes were written to it.
func (c *Collector) Taken() int64 { return c.taken }

// Bytes ends the output. It returns what is kept of it, with a line where
// something is missing, and how much that is. What a control string without an
// end has hidden is missing, too, and there is no line for it.
func (c *Collector) Bytes() (kept []byte, missing int64, err error) {
	hidden := int64(0)
	if c.plain != nil {
		if err := c.plain.Flush(); err != nil {
			return nil, 0, err
		}
		hidden = c.plain.Hidden()
	}
	kept, missing = c.kept.Text()
	return kept, missing + hidden, nil
}

// Encoded is b as text and, where text cannot say it, also in base64.
func Encoded(b []byte) (text, inBase64 string) {
	if utf8.Valid(b) || protection.Off(protection.RawOutput) {
		return string(b), ""
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), base64.StdEncoding.EncodeToString(b)
}
