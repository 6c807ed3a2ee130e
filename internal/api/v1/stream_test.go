package v1_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/protocol"
)

// stream reads server-sent events.
type stream struct{ lines *bufio.Scanner }

func newStream(r io.Reader) *stream {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<22)
	return &stream{lines}
}

type event struct {
	name string
	id   string
	data []byte
}

// offset is that in an event's id.
func (e event) offset(tb testing.TB) int64 {
	tb.Helper()
	exec, offset, _ := strings.Cut(e.id, ":")
	n, err := strconv.ParseInt(offset, 10, 64)
	if err != nil || len(exec) != 26 {
		tb.Fatalf("id %q of event %s", e.id, e.name)
	}
	return n
}

// next returns the next event, and false at the end.
func (s *stream) next(tb testing.TB) (event, bool) {
	tb.Helper()
	var e event
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "event":
			e.name = value
		case "data":
			e.data = []byte(value)
		case "id":
			e.id = value
		case "":
			if e.name != "" {
				return e, true
			}
		default:
			tb.Fatalf("line %q", s.lines.Text())
		}
	}
	return event{}, false
}

func (s *stream) want(tb testing.TB, name string, v any) event {
	tb.Helper()
	e, ok := s.next(tb)
	if !ok || e.name != name {
		tb.Fatalf("event %q %s, want %s; %v", e.name, e.data, name, s.lines.Err())
	}
	if err := json.Unmarshal(e.data, v); err != nil {
		tb.Fatal(err)
	}
	return e
}

type chunk struct {
	Chunk  string `json:"chunk"`
	Base64 string `json:"chunk_base64"`
}

// bytes is what the chunk stands for.
func (c chunk) bytes(tb testing.TB) string {
	tb.Helper()
	if c.Base64 == "" {
		return c.Chunk
	}
	b, err := base64.StdEncoding.DecodeString(c.Base64)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

// collected is a whole stream.
type collected struct {
	output string
	ids    []int64 // of the chunks
	at     []int   // length of output behind each chunk
	last   event
}

// collect reads a stream to its end and checks its form.
func collect(tb testing.TB, response *http.Response) collected {
	tb.Helper()
	defer func() {
		if err := response.Body.Close(); err != nil {
			tb.Error(err)
		}
	}()
	if ct := response.Header.Get("Content-Type"); response.StatusCode != 200 || ct != "text/event-stream" {
		tb.Fatalf("status %d, Content-Type %q", response.StatusCode, ct)
	}
	st := newStream(response.Body)
	st.want(tb, "start", &struct{}{})
	var c collected
	for {
		e, ok := st.next(tb)
		if !ok {
			return c
		}
		if c.last.name != "" {
			tb.Fatalf("event %s after %s", e.name, c.last.name)
		}
		if e.name != "chunk" {
			c.last = e
			continue
		}
		var k chunk
		if err := json.Unmarshal(e.data, &k); err != nil {
			tb.Fatal(err)
		}
		c.output += k.bytes(tb)
		c.ids, c.at = append(c.ids, e.offset(tb)), append(c.at, len(c.output))
	}
}

func (s *server) stream(tb testing.TB, path, cmd string, more ...string) collected {
	tb.Helper()
	body := fmt.Sprintf(`{"cmd":%q%s}`, cmd, strings.Join(more, ""))
	return collect(tb, s.open(tb, "POST", path+"/exec/stream", strings.NewReader(body)))
}

func TestStream(t *testing.T) {
	s := start(t)
	path := s.create(t)
	c := s.stream(t, path, `echo one; sleep 0.05; echo two; (exit 5)`)
	var end struct {
		v1.End
		Dropped *int64 `json:"dropped_bytes"`
	}
	if err := json.Unmarshal(c.last.data, &end); err != nil {
		t.Fatal(err)
	}
	if c.output != "one\ntwo\n" || c.last.name != "done" || end.ExitCode != 5 || end.Cause != protocol.CauseExited || end.Dropped == nil {
		t.Errorf("%+v, %+v", c, end)
	}
	if len(c.ids) < 2 || c.ids[len(c.ids)-1] != 8 {
		t.Errorf("chunks end at %v, want at least two that end at 8", c.ids)
	}
}

func TestStreamRefused(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.do(t, "DELETE", path, "").into(t, 200, &v1.OK{})
	s.do(t, "POST", path+"/exec/stream", `{"cmd":"true"}`).wantError(t, 409, "conflict", "")
}

// TestStreamNeverCutsCharacters prints a character and a sequence byte by byte.
func TestStreamNeverCutsCharacters(t *testing.T) {
	s := start(t)
	path := s.create(t)
	c := s.stream(t, path, `for b in a '\303' '\244' '\033' '[3' '1m' b '\r' '\n' '\377' c; do printf "$b"; sleep 0.02; done`)
	if c.output != "a\u00e4b\n\xffc" {
		t.Errorf("%q", c.output)
	}
	raw := s.stream(t, path, `printf '\033[1mx\r\n'`, `,"raw_output":true`)
	if raw.output != "\x1b[1mx\r\n" {
		t.Errorf("raw: %q", raw.output)
	}
}

// TestStreamResumes goes on behind every chunk of a broken stream: no byte is
// lost or doubled.
func TestStreamResumes(t *testing.T) {
	s := start(t)
	path := s.create(t)
	response := s.open(t, "POST", path+"/exec/stream", strings.NewReader(js(t, map[string]any{
		"cmd": `for i in 1 2 3 4 5; do printf "\033[3${i}m\303"; sleep 0.02; printf "\244$i\r"; sleep 0.02; printf '\n'; done`,
	})))
	st := newStream(response.Body)
	var begun struct {
		ExecID string `json:"exec_id"`
	}
	st.want(t, "start", &begun)
	type cut struct {
		id     int64
		output string
	}
	cuts := []cut{{0, ""}}
	output := ""
	for {
		e, ok := st.next(t)
		if !ok {
			t.Fatal("no end")
		}
		if e.name == "done" {
			break
		}
		var k chunk
		if err := json.Unmarshal(e.data, &k); err != nil {
			t.Fatal(err)
		}
		output += k.bytes(t)
		cuts = append(cuts, cut{e.offset(t), output})
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if output != "\u00e41\n\u00e42\n\u00e43\n\u00e44\n\u00e45\n" || len(cuts) < 6 {
		t.Fatalf("%q in %d chunks", output, len(cuts)-1)
	}
	for _, c := range cuts {
		resumed := collect(t, s.open(t, "GET", path+"/execs/"+begun.ExecID+"/stream", nil, header("Last-Event-ID", strconv.FormatInt(c.id, 10))))
		if got := c.output + resumed.output; got != output || resumed.last.name != "done" {
			t.Errorf("resumed at %d behind %q: %q", c.id, c.output, resumed.output)
		}
	}
	for _, id := range []string{"-1", "x", "99999999999999999999"} {
		s.do(t, "GET", path+"/execs/"+begun.ExecID+"/stream", "", header("Last-Event-ID", id)).wantError(t, 400, "invalid_argument", "Last-Event-ID")
	}
}

// TestStreamGap resumes at the start of output that was not kept whole: ids
// stay offsets in all that was printed.
func TestStreamGap(t *testing.T) {
	s := start(t, func(o *setup) { o.session.Defaults.OutputBytes = 64 << 10 })
	path := s.create(t)
	r := s.exec(t, path, "seq 1 50000")
	c := collect(t, s.open(t, "GET", path+"/execs/"+r.ExecID+"/stream", nil))
	last := c.ids[len(c.ids)-1]
	if last != r.OutputBytes || !strings.HasPrefix(c.output, "1\n2\n") || !strings.HasSuffix(c.output, "49999\n50000\n") {
		t.Errorf("ids end at %d of %d: %.20q", last, r.OutputBytes, c.output)
	}
	var end struct {
		Dropped int64 `json:"dropped_bytes"`
	}
	if err := json.Unmarshal(c.last.data, &end); err != nil {
		t.Fatal(err)
	}
	if end.Dropped != r.OutputBytes-int64(len(c.output)) || end.Dropped == 0 {
		t.Errorf("%d dropped, %d of %d came", end.Dropped, len(c.output), r.OutputBytes)
	}
}

// TestStreamOfMuch follows what is more than is kept: nothing is missing, and done
// says so. Who resumes at the end lacks nothing either.
func TestStreamOfMuch(t *testing.T) {
	s := start(t, func(o *setup) { o.session.Defaults.OutputBytes = 64 << 10 })
	path := s.create(t)
	c := s.stream(t, path, "seq 0 299999")
	var end struct {
		v1.End
		Dropped int64 `json:"dropped_bytes"`
	}
	if err := json.Unmarshal(c.last.data, &end); err != nil {
		t.Fatal(err)
	}
	if end.OutputBytes != 1_988_890 || int64(len(c.output)) != end.OutputBytes || end.Dropped != 0 {
		t.Errorf("%d of %d bytes came, %d are said to be missing", len(c.output), end.OutputBytes, end.Dropped)
	}
	late := collect(t, s.open(t, "GET", path+"/execs/"+end.ExecID+"/stream", nil, header("Last-Event-ID", "1988880")))
	if err := json.Unmarshal(late.last.data, &end); err != nil {
		t.Fatal(err)
	}
	if late.output != "98\n299999\n" || end.Dropped != 0 {
		t.Errorf("behind the gap came %q, %d missing", late.output, end.Dropped)
	}
}

func TestStreamOfDestroyedSession(t *testing.T) {
	s := start(t)
	path := s.create(t)
	response := s.open(t, "POST", path+"/exec/stream", strings.NewReader(`{"cmd":"echo hi; sleep 60"}`))
	st := newStream(response.Body)
	st.want(t, "start", &struct{}{})
	st.want(t, "chunk", &struct{}{})
	s.do(t, "DELETE", path, "").into(t, 200, &v1.OK{})
	e, ok := st.next(t)
	if !ok || (e.name != "done" && e.name != "error") || !strings.Contains(string(e.data), "sandbox_gone") && e.name == "done" {
		t.Errorf("%v, %s %s", ok, e.name, e.data)
	}
	if e, ok := st.next(t); ok {
		t.Errorf("event %s after the end", e.name)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
}

// TestStreamsLeaveNothing is F25: clients that go away in the middle. What
// they leave behind, TestMain finds.
func TestStreamsLeaveNothing(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for range 50 {
		id := launch(t, s, path, "echo hi; sleep 60")
		s.do(t, "POST", path+"/execs/"+id+"/cancel", "").into(t, 200, &v1.OK{})
	}
}

// TestExecEvents is what an EventSource does: it comes back with the id of the
// last event until it is told to stop, and the command runs once.
func TestExecEvents(t *testing.T) {
	s := start(t)
	path := s.create(t)
	url := path + "/exec/stream?cmd=" + "echo+x+%3E%3Eruns%3B+printf+one%3B+printf+two"
	response := s.open(t, "GET", url, nil)
	st := newStream(response.Body)
	var ids []string
	first := ""
	for {
		e, ok := st.next(t)
		if !ok {
			break
		}
		var k chunk
		if err := json.Unmarshal(e.data, &k); err != nil {
			t.Fatal(err)
		}
		first += k.bytes(t)
		ids = append(ids, e.id)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if first != "onetwo" || len(ids) < 3 || !strings.HasSuffix(ids[0], ":0") || !strings.HasSuffix(ids[len(ids)-1], ":end") {
		t.Fatalf("%q with ids %q", first, ids)
	}
	for _, id := range ids[:len(ids)-1] {
		_, offset, _ := strings.Cut(id, ":")
		seen, err := strconv.Atoi(offset)
		if err != nil {
			t.Fatal(err)
		}
		c := collect(t, s.open(t, "GET", url, nil, header("Last-Event-ID", id)))
		if c.output != "onetwo"[seen:] || c.last.name != "done" {
			t.Errorf("behind %s: %q, %s", id, c.output, c.last.name)
		}
	}
	if a := s.do(t, "GET", url, "", header("Last-Event-ID", ids[len(ids)-1])); a.status != http.StatusNoContent {
		t.Errorf("behind the end: %d %s", a.status, a.body)
	}
	if r := s.exec(t, path, "cat runs"); r.Output != "x\n" {
		t.Errorf("it ran more than once: %q", r.Output)
	}
	s.do(t, "GET", url, "", header("Last-Event-ID", "7")).wantError(t, 400, "invalid_argument", "Last-Event-ID")
	s.do(t, "GET", url, "", header("Last-Event-ID", strings.Repeat("a", 26)+":0")).wantError(t, 404, "not_found", "")
	s.do(t, "GET", path+"/exec/stream", "").wantError(t, 400, "invalid_argument", "cmd")
	s.do(t, "GET", url, "", header("Sec-Fetch-Mode", "navigate")).wantError(t, 403, "permission_denied", "")
	if r := s.exec(t, path, "cat runs"); r.Output != "x\n" {
		t.Errorf("a followed link ran it: %q", r.Output)
	}
}

// TestAStreamThatHasBegunCanBeTakenUp breaks the connection as soon as a client knows
// what it would come back to.
func TestAStreamThatHasBegunCanBeTakenUp(t *testing.T) {
	s := start(t, quiet)
	path := s.create(t)
	for i := range 100 {
		route, body := "/exec/stream", fmt.Sprintf(`{"cmd":"echo kept","shell":"s%d"}`, i%4)
		if i%2 == 1 {
			route, body = "/processes/stream", `{"cmd":["echo","kept"]}`
		}
		response := s.open(t, "POST", path+route, strings.NewReader(body))
		var begun struct {
			ExecID string `json:"exec_id"`
		}
		newStream(response.Body).want(t, "start", &begun)
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		c := collect(t, s.open(t, "GET", path+"/execs/"+begun.ExecID+"/stream", nil))
		if c.output != "kept\n" || c.last.name != "done" {
			t.Fatalf("%s after %d: %q, %s %s", route, i, c.output, c.last.name, c.last.data)
		}
	}
}
