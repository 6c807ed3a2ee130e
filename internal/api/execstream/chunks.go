package execstream

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/protocol"
)

// MaxChunk bounds the bytes of one chunk of output.
const MaxChunk = 64 << 10

// Chunk is a piece of output as it was written: nothing is taken out.
type Chunk struct {
	Seq    int64  `json:"seq" doc:"The offset behind its last byte in all that was written. It only grows." example:"3"`
	Stream string `json:"stream" enum:"stdout,stderr,output" doc:"output is that of a shell's command or of a terminal, which is one for everything."`
	Text   string `json:"text,omitempty" example:"hi\n"`
	Base64 string `json:"base64,omitempty" doc:"Instead of text, where that is not valid UTF-8."`
}

// Chunker makes chunks of an output. It is a runnerclient.Sink.
//
// A chunk ends where the stream changes, where bytes are missing, and before a
// character that the next bytes complete.
type Chunker struct {
	Chunks  []Chunk
	NextSeq int64 // where to go on behind Chunks
	Dropped int64 // bytes up to there that are in no chunk

	max int // chunks

	open   []byte // of the chunk to come
	stream protocol.Stream
	start  int64 // the offset of open
}

// NewChunker returns a Chunker that makes at most so many chunks of an output
// that begins at offset since.
func NewChunker(most int, since int64) *Chunker {
	return &Chunker{max: most, start: since, Chunks: []Chunk{}, NextSeq: since}
}

func (c *Chunker) full() bool { return len(c.Chunks) == c.max }

// At is told where the next bytes come from.
func (c *Chunker) At(stream protocol.Stream, offset int64) {
	if stream == c.stream && offset == c.start+int64(len(c.open)) {
		return
	}
	c.cut(len(c.open) - api.Unfinished(c.open))
	c.cut(len(c.open))
	c.stream, c.start, c.open = stream, offset, c.open[:0]
}

// Write takes them, and forgets them when there are enough chunks.
func (c *Chunker) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && !c.full() {
		part := p[:min(len(p), MaxChunk-len(c.open))]
		c.open = append(c.open, part...)
		p = p[len(part):]
		if len(c.open) == MaxChunk {
			c.cut(MaxChunk - api.Unfinished(c.open))
		}
	}
	return n, nil
}

// cut makes a chunk of the first n bytes of open.
func (c *Chunker) cut(n int) {
	if n == 0 || c.full() {
		return
	}
	chunk := Chunk{Seq: c.start + int64(n), Stream: "output"}
	if c.stream != protocol.StreamOutput {
		chunk.Stream = string(c.stream)
	}
	if part := c.open[:n]; utf8.Valid(part) {
		chunk.Text = string(part)
	} else {
		chunk.Base64 = base64.StdEncoding.EncodeToString(part)
	}
	c.Chunks = append(c.Chunks, chunk)
	c.Dropped += c.start - c.NextSeq
	c.NextSeq = chunk.Seq
	c.open = append(c.open[:0], c.open[n:]...)
	c.start = chunk.Seq
}

// End makes the last chunk. A character that is cut there is left for the next
// answer, unless it is all that there is or, as ended says, all that comes.
func (c *Chunker) End(ended bool) {
	unfinished := api.Unfinished(c.open)
	c.cut(len(c.open) - unfinished)
	if ended || len(c.Chunks) == 0 {
		c.cut(len(c.open))
	}
}
