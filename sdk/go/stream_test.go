package sandkasten

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	begin  = "event: start\nid: e1:0\ndata: {\"exec_id\": \"e1\"}\n\n"
	chunkA = "event: chunk\nid: e1:1\ndata: {\"chunk\": \"a\"}\n\n"
	chunkB = "event: chunk\nid: e1:2\ndata: {\"chunk\": \"b\", \"stream\": \"stderr\"}\n\n"
	chunkC = "event: chunk\nid: e1:3\r\ndata: {\"chunk\": \"?\", \"chunk_base64\": \"/w==\"}\r\n\n"
	done   = "event: done\nid: e1:end\ndata: {\"exec_id\": \"e1\", \"exit_code\": 3, \"duration_ms\": 1500}\n\n"
)

func TestStreamsResume(t *testing.T) {
	tests := []struct {
		name    string
		answers []answer
		resumed []string // Last-Event-ID of all but the first request
	}{
		{"whole", []answer{{status: 200, body: begin + ": beat\n\n" + chunkA + chunkB + chunkC + done}}, nil},
		{"broken", []answer{{body: begin + chunkA + chunkB}, {status: 200, body: chunkC + done}}, []string{"e1:2"}},
		{"broken inside an event", []answer{{body: begin + chunkA + chunkB[:40]}, {status: 200, body: chunkB + chunkC + done}}, []string{"e1:1"}},
		{"ended without its end", []answer{{status: 200, body: begin}, {status: 200, body: chunkA + chunkB + chunkC + done}}, []string{"e1:0"}},
		{
			"broken often, with progress",
			[]answer{{body: begin}, {body: chunkA}, {body: chunkB}, {body: chunkC}, {status: 200, body: done}},
			[]string{"e1:0", "e1:1", "e1:2", "e1:3"},
		},
		{
			"the daemon restarts",
			[]answer{{body: begin + chunkA}, {status: 503, body: unavailable}, lost, {status: 200, body: chunkB + chunkC + done}},
			[]string{"e1:1", "e1:1", "e1:1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, d := start(t, tt.answers...)
			var stdout, stderr bytes.Buffer
			end, err := c.Session("s1").ExecStream("run", nil).Copy(t.Context(), &stdout, &stderr)
			if err != nil {
				t.Fatal(err)
			}
			if stdout.String() != "a\xff" || stderr.String() != "b" {
				t.Errorf("the output is %q and %q", &stdout, &stderr)
			}
			if end.ExitCode != 3 || end.Duration() != 1500*time.Millisecond {
				t.Errorf("the end is %+v", end)
			}
			var resumed []string
			for i, r := range d.seen() {
				if i == 0 && r.target != "/v1/sessions/s1/exec/stream" || i > 0 && r.target != "/v1/sessions/s1/execs/e1/stream" {
					t.Errorf("request %d is %s", i, r.target)
				}
				if i > 0 {
					resumed = append(resumed, r.header.Get("Last-Event-ID"))
				}
			}
			if !slices.Equal(resumed, tt.resumed) {
				t.Errorf("resumed behind %q", resumed)
			}
		})
	}
}

func TestStreamsFail(t *testing.T) {
	refused := answer{status: 404, body: `{"code": "not_found", "error": "gone"}`}
	inside := "event: error\ndata: {\"code\": \"unavailable\", \"error\": \"the sandbox is gone\"}\n\n"
	var connection *ConnectionError
	var api *APIError
	tests := []struct {
		name    string
		answers []answer
		as      any
		text    string
		sent    int
	}{
		{"refused", []answer{refused}, &api, "gone", 1},
		{"an error inside", []answer{{status: 200, body: begin + inside}}, &api, "the sandbox is gone", 1},
		{"refused when resumed", []answer{{body: begin}, refused}, &api, "gone", 2},
		{"lost before it began", []answer{lost}, &connection, "", 1},
		{"silent answers", []answer{{body: begin}, {status: 204}, {status: 204}, {status: 204}}, &connection, "ended early", 4},
		{"nonsense", []answer{{status: 200, body: "event: chunk\nid: e1:1\ndata: x\n\n"}}, nil, "not Sandkasten's", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, d := start(t, tt.answers...)
			stream := c.Session("s1").ExecStream("run", nil)
			_, err := stream.Copy(t.Context(), io.Discard, io.Discard)
			if err == nil || tt.as != nil && !errors.As(err, tt.as) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("the error is %v", err)
			}
			if n := len(d.seen()); n != tt.sent {
				t.Errorf("%d requests were sent", n)
			}
			if _, ended := stream.End(); ended {
				t.Error("it says that the command has ended")
			}
		})
	}
}

func TestACommandIsNeverBegunTwice(t *testing.T) {
	c, d := start(t, lost)
	stream := c.Session("s1").ExecStream("run", nil)
	for range 2 {
		if _, err := stream.Copy(t.Context(), io.Discard, io.Discard); err == nil {
			t.Error("no error")
		}
	}
	if n := len(d.seen()); n != 1 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestAStreamThatWasLeftGoesOn(t *testing.T) {
	c, d := start(t, answer{status: 200, body: begin + chunkA + chunkB + done}, answer{status: 200, body: chunkB + done})
	stream := c.Session("s1").ExecStream("run", &ExecOptions{RawOutput: true})
	for chunk, err := range stream.Chunks(t.Context()) {
		if err != nil || string(chunk.Data) != "a" || chunk.Stream != "output" || stream.ExecID() != "e1" {
			t.Errorf("the chunk is %v, %v", chunk, err)
		}
		break
	}
	for chunk, err := range stream.Chunks(t.Context()) {
		if err != nil || string(chunk.Data) != "b" {
			t.Errorf("the next chunk is %v, %v", chunk, err)
		}
	}
	for range stream.Chunks(t.Context()) {
		t.Error("something comes behind the end")
	}
	seen := d.seen()
	if len(seen) != 2 || seen[1].header.Get("Last-Event-ID") != "e1:1" || !strings.HasSuffix(seen[1].target, "?raw_output=true") {
		t.Errorf("the requests are %v", seen)
	}
}

// hanging is a server whose first answer begins with body and does not end.
func hanging(t *testing.T, body string, next http.Handler) *Client {
	t.Helper()
	first := make(chan struct{}, 1)
	first <- struct{}{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-first:
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, body)
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			next.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	c, err := New(Options{URL: server.URL, APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAStreamThatFallsSilentResumes(t *testing.T) {
	// A slow machine may be silent for as long too: it needs more than one attempt.
	const attempts = 1000
	d := &daemon{answers: slices.Repeat([]answer{{status: 200, body: chunkB + done}}, attempts)}
	c := hanging(t, begin+chunkA, d)
	c.maxRetries, c.firstPause = attempts, time.Microsecond
	var output []byte
	for chunk, err := range c.Session("s1").ExecStream("run", nil).Chunks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		output = append(output, chunk.Data...)
		c.silence = 20 * time.Millisecond // the first chunk is there
	}
	if string(output) != "ab" {
		t.Errorf("the output is %q", output)
	}
}

func TestCancellationOfAStream(t *testing.T) {
	c := hanging(t, begin+chunkA, http.NotFoundHandler())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range c.Session("s1").ExecStream("run", nil).Chunks(ctx) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("the error is %v", last)
	}
}

func TestReadsResume(t *testing.T) {
	header := map[string]string{"ETag": `"v1"`, "X-File-Size": "6", "X-File-Mode": "0640", "Content-Length": "6"}
	part := map[string]string{"ETag": `"v1"`, "X-File-Size": "6", "X-File-Mode": "0640"}
	bare := map[string]string{"Content-Length": "6"}
	var connection *ConnectionError
	tests := []struct {
		name    string
		options *ReadOptions
		answers []answer
		want    string
		err     func(error) bool
		ranges  []string
	}{
		{"whole", nil, []answer{{200, header, "abcdef"}}, "abcdef", nil, []string{""}},
		{"broken", nil, []answer{{0, header, "abc"}, {206, part, "def"}}, "abcdef", nil, []string{"", "bytes=3-"}},
		{
			"broken part", &ReadOptions{Offset: 1, MaxBytes: 4},
			[]answer{{0, map[string]string{"ETag": `"v1"`, "Content-Length": "4"}, "bc"}, {206, part, "de"}},
			"bcde", nil,
			[]string{"bytes=1-4", "bytes=3-4"},
		},
		{"behind the end", &ReadOptions{Offset: 9}, []answer{{416, nil, `{"code": "range_not_satisfiable", "error": "short"}`}}, "", nil, []string{"bytes=9-"}},
		{
			"changed meanwhile", nil,
			[]answer{{0, header, "abc"}, {200, map[string]string{"ETag": `"v2"`}, "other"}},
			"abc", func(err error) bool { return errors.Is(err, ErrConflict) },
			[]string{"", "bytes=3-"},
		},
		{
			"broken, of no version", nil,
			[]answer{{0, bare, "abc"}},
			"abc", func(err error) bool { return errors.As(err, &connection) },
			[]string{""},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, d := start(t, tt.answers...)
			got, err := c.Session("s1").ReadAll(t.Context(), "a", tt.options)
			if string(got) != tt.want || tt.err == nil && err != nil || tt.err != nil && !tt.err(err) {
				t.Errorf("gave %q, %v", got, err)
			}
			var ranges []string
			for i, r := range d.seen() {
				ranges = append(ranges, r.header.Get("Range"))
				if i > 0 && r.header.Get("If-Range") != `"v1"` {
					t.Errorf("If-Range is %q", r.header.Get("If-Range"))
				}
			}
			if !slices.Equal(ranges, tt.ranges) {
				t.Errorf("asked for %q", ranges)
			}
		})
	}
}

func TestReadTellsSizeAndMode(t *testing.T) {
	c, _ := start(t, answer{200, map[string]string{"X-File-Size": "6", "X-File-Mode": "0640"}, "abcdef"})
	reader, err := c.Workspace("w").Read(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if reader.Size != 6 || reader.Mode != fs.FileMode(0o640) {
		t.Errorf("size %d, mode %v", reader.Size, reader.Mode)
	}
}

func TestListGoesThroughAllPages(t *testing.T) {
	c, d := start(t,
		answer{status: 200, body: `{"entries": [{"name": "a", "type": "dir"}, {"name": "b"}], "truncated": true, "next_cursor": "n"}`},
		answer{status: 200, body: `{"entries": [{"name": "c"}]}`})
	var names []string
	for entry, err := range c.Session("s1").List(t.Context(), ".", &ListOptions{Depth: -1}) {
		if err != nil || entry.IsDir() != (entry.Name == "a") {
			t.Fatal(entry, err)
		}
		names = append(names, entry.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) || !strings.HasSuffix(d.seen()[1].target, "?cursor=n&depth=-1&path=.") {
		t.Errorf("listed %q by %v", names, d.seen())
	}
}

func TestStdinIsGivenUntilItIsTaken(t *testing.T) {
	c, d := start(t, answer{status: 200, body: `{"accepted_bytes": 2}`}, answer{status: 200, body: `{"accepted_bytes": 1}`}, answer{status: 200, body: `{"accepted_bytes": 9}`})
	p := c.Session("s1").Process("e1")
	if err := p.WriteStdin(t.Context(), strings.NewReader("abc")); err != nil {
		t.Fatal(err)
	}
	seen := d.seen()
	if len(seen) != 2 || seen[0].body != `{"data_base64":"YWJj"}` || seen[1].body != `{"data_base64":"Yw=="}` {
		t.Errorf("gave %v", seen)
	}
	if err := p.WriteStdin(t.Context(), strings.NewReader("abc")); err == nil {
		t.Error("more bytes than there were are taken")
	}
}
