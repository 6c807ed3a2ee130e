package headers

import (
	"slices"
	"strings"
	"testing"
)

// However a header is cut into reads, its lines, its bytes and its end are the same.
func TestCountOfPieces(t *testing.T) {
	const header = "GET / HTTP/1.1\r\nHost: x\r\nA: b\nC:\r\n\r\n"
	for size := 1; size <= len(header); size++ {
		var c count
		for piece := range slices.Chunk([]byte(header+strings.Repeat("\n", 50)), size) {
			if !c.ended {
				c.add(piece)
			}
		}
		if !c.ended || c.fields != 5 || c.bytes != len(header) {
			t.Errorf("in pieces of %d bytes: %+v", size, c)
		}
	}
}
