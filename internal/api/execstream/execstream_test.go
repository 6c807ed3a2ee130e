package execstream_test

import (
	"encoding/base64"
	"math/rand/v2"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api/execstream"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// run is a piece of output that a runner still has.
type run struct {
	offset int64
	stream protocol.Stream
	data   []byte
}

// randomOutput is what is kept of an output: two streams or one, characters of
// all lengths and bytes that are none, with gaps.
func randomOutput(r *rand.Rand) []run {
	var runs []run
	var total int64
	alphabet := []string{"a", "\n", "ä", "€", "😀", "\xff", "\xc3"}
	names := []protocol.Stream{protocol.StreamStdout, protocol.StreamStderr}
	if r.IntN(2) == 0 {
		names = []protocol.Stream{protocol.StreamOutput}
	}
	for range r.IntN(8) {
		if r.IntN(3) == 0 {
			total += r.Int64N(9)
		}
		one := run{offset: total, stream: names[r.IntN(len(names))]}
		most := 20
		if r.IntN(8) == 0 {
			most = execstream.MaxChunk
		}
		for range r.IntN(most) {
			one.data = append(one.data, alphabet[r.IntN(len(alphabet))]...)
		}
		total += int64(len(one.data))
		runs = append(runs, one)
	}
	return runs
}

// poll gives a chunker what there is from an offset on, in frames of any size.
func poll(r *rand.Rand, c *execstream.Chunker, runs []run, since int64) {
	for _, one := range runs {
		data := one.data[min(max(since-one.offset, 0), int64(len(one.data))):]
		offset := max(one.offset, since)
		for len(data) > 0 {
			n := 1 + r.IntN(len(data))
			c.At(one.stream, offset)
			for _, part := range [][]byte{data[:n/2], data[n/2 : n]} {
				if _, err := c.Write(part); err != nil {
					panic(err)
				}
			}
			data, offset = data[n:], offset+int64(n)
		}
	}
}

// TestChunksAreTheOutput reads outputs with answers of any size: the chunks of
// a stream are its bytes, in order and once, and what is missing is counted.
func TestChunksAreTheOutput(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		runs := randomOutput(r)
		want := map[string]string{}
		var kept int64
		for _, one := range runs {
			name := string(one.stream)
			if name == "" {
				name = "output"
			}
			want[name] += string(one.data)
			kept += int64(len(one.data))
		}
		got := map[string]string{}
		var since, dropped int64
		for {
			most := 1 + r.IntN(5)
			c := execstream.NewChunker(most, since)
			poll(r, c, runs, since)
			ended := r.IntN(2) == 0
			c.End(ended)
			if len(c.Chunks) > most || c.NextSeq < since {
				t.Fatalf("seed %d: %d chunks of %d, next %d after %d", seed, len(c.Chunks), most, c.NextSeq, since)
			}
			if len(c.Chunks) == 0 {
				break
			}
			for _, chunk := range c.Chunks {
				data := chunk.Text
				if chunk.Base64 != "" {
					b, err := base64.StdEncoding.DecodeString(chunk.Base64)
					if err != nil {
						t.Fatal(err)
					}
					data = string(b)
				}
				if len(data) == 0 || len(data) > execstream.MaxChunk || chunk.Seq <= since {
					t.Fatalf("seed %d: a chunk of %d bytes up to %d behind %d", seed, len(data), chunk.Seq, since)
				}
				since = chunk.Seq
				got[chunk.Stream] += data
			}
			if since != c.NextSeq {
				t.Fatalf("seed %d: next_seq %d behind a chunk that ends at %d", seed, c.NextSeq, since)
			}
			dropped += c.Dropped
		}
		for name, text := range want {
			if got[name] != text {
				t.Fatalf("seed %d: %s is %q, want %q", seed, name, got[name], text)
			}
		}
		if end := trailing(runs); dropped != end-kept {
			t.Fatalf("seed %d: %d dropped of %d with %d kept", seed, dropped, end, kept)
		}
	}
}

// trailing is the offset behind the last byte that is kept.
func trailing(runs []run) int64 {
	for i := len(runs) - 1; i >= 0; i-- {
		if n := int64(len(runs[i].data)); n > 0 {
			return runs[i].offset + n
		}
	}
	return 0
}

func TestPlaces(t *testing.T) {
	for id, want := range map[string]execstream.Place{
		"":         {},
		"12":       {Offset: 12},
		"abc:0":    {Exec: "abc"},
		"abc:4000": {Exec: "abc", Offset: 4000},
		"abc:end":  {Exec: "abc", Ended: true},
	} {
		got, err := execstream.ParsePlace(id)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v", id, got, err)
		}
		if want.Exec != "" && got.String() != id {
			t.Errorf("%q is written %q", id, got)
		}
	}
	for _, id := range []string{"x", "-1", "abc:", "abc:-1", "abc:1:2", ":1", ":", "99999999999999999999", "abc:1e3", "end", ":end"} {
		if got, err := execstream.ParsePlace(id); !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%q is %+v, %v", id, got, err)
		}
	}
}
