package extract

import (
	"bytes"
	"context"
	"io"
	"os"
)

// leastHole is how many zeros are worth a hole: a block of most file systems.
const leastHole = 4096

var zeros [copyBuffer]byte

// holes writes a file from its beginning and leaves holes for zeros, until ctx is
// done. A sparse entry of an archive names gigabytes in a few bytes: its copy must
// neither take them of the disk nor go on when nobody waits for it.
type holes struct {
	ctx context.Context
	f   *os.File
	at  int64
}

func (h *holes) Write(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	if len(p) >= leastHole && bytes.Equal(p, zeros[:len(p)]) {
		h.at += int64(len(p))
		return len(p), nil
	}
	n, err := h.f.WriteAt(p, h.at)
	h.at += int64(n)
	return n, err
}

// fill copies all of body into the file.
func (h *holes) fill(body io.Reader, buf []byte) error {
	if _, err := io.CopyBuffer(h, body, buf); err != nil {
		return err
	}
	return h.f.Truncate(h.at) // the last bytes may be a hole
}
