package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
)

func TestEventsGiveTheOutput(t *testing.T) {
	for name, tc := range map[string]struct{ stream, want, err string }{
		"whole": {
			"event: start\ndata: {\"exec_id\":\"x\"}\n\nevent: chunk\nid: 3\ndata: {\"chunk\":\"a\\nb\"}\n\n: heartbeat\n\n" +
				"event: chunk\ndata: {\"chunk\":\"c\"}\n\nevent: done\ndata: {\"exit_code\":0}\n\n", "a\nbc", "",
		},
		"cut short": {"event: chunk\ndata: {\"chunk\":\"a\"}\n\n", "a", "broke"},
		"failed":    {"event: done\ndata: {\"exit_code\":2}\n\n", "", "exit code 2"},
		"refused":   {"event: error\ndata: {\"error\":\"no\"}\n\n", "", "no"},
	} {
		e := &events{body: io.NopCloser(strings.NewReader("")), lines: bufio.NewReader(strings.NewReader(tc.stream))}
		got, err := io.ReadAll(e)
		if string(got) != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestChunkIsWhatJSONSays reads chunks with and without unusual escapes.
func TestChunkIsWhatJSONSays(t *testing.T) {
	for _, text := range []string{"", "y\ny\n", "a\"b\\c\td\r\b\f/", "\x1b[1m", "größer <&>", "😀\u2028"} {
		data, err := json.Marshal(object{"chunk": text, "timestamp": "2026-11-21T09:00:00.001Z"})
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range []string{string(data), " " + string(data)} {
			if got, err := chunkOf([]byte(data), nil); err != nil || string(got) != text {
				t.Errorf("%s is %q, %v", data, got, err)
			}
		}
	}
	for _, broken := range []string{"", `{"chunk":"a`, `{"chunk":"a\`, `{"chunk":"\q"}`, `{"chunk":1}`} {
		if got, err := chunkOf([]byte(broken), nil); err == nil {
			t.Errorf("%s is %q", broken, got)
		}
	}
}

func BenchmarkChunk(b *testing.B) {
	data, err := json.Marshal(object{"chunk": strings.Repeat("y\n", 16<<10), "timestamp": "2026-11-21T09:00:00.001Z"})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(32 << 10)
	var buf []byte
	for b.Loop() {
		if buf, err = chunkOf(data, buf[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

func TestStamps(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_500_000)
	var took []time.Duration
	var r stampReader
	for _, piece := range []string{"1700000000.4", "99000\n1700000000.498", "000\n"} {
		r.read([]byte(piece), at, func(d time.Duration) { took = append(took, d) })
	}
	if r.err != nil || len(took) != 2 || took[0] != time.Millisecond || took[1] != 2*time.Millisecond {
		t.Errorf("%v, %v", took, r.err)
	}
	r.read([]byte("nonsense\n"), at, func(time.Duration) { t.Error("nonsense is a time") })
	if r.err == nil {
		t.Error("nonsense passes")
	}
}
