package attack

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

// A07: 500 connections that say nothing, 100 that send a byte a second and 20
// that read nothing, for 10 s, do not slow other clients; the first two kinds
// are closed.
func TestA07_SlowClients(t *testing.T) {
	s := stage(t, "")
	b := s.a.session(t, nil)
	b.sh(t, "head -c 30000000 /dev/zero >big")
	before := s.memory(t)
	alone := time.Now()
	for range 5 {
		b.sh(t, "true")
	}
	most := max(time.Second, 2*time.Since(alone)) // ten times as long as one, on a slow machine
	get := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n", b.file("read", "big")+"&raw=1", s.a.key)
	var slow []net.Conn
	defer func() {
		for _, c := range slow {
			c.Close()
		}
	}()
	open := func(n int, text string) (opened []net.Conn) {
		for range n {
			c := s.a.dial(t)
			io.WriteString(c, text)
			opened = append(opened, c)
		}
		slow = append(slow, opened...)
		return opened
	}
	silent := open(500, "")
	dripping := open(50, "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	dripping = append(dripping, open(50, fmt.Sprintf("POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{", s.a.key))...)
	open(20, get+"\r\n")
	open(5, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	var took []time.Duration
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		for _, c := range dripping {
			c.SetWriteDeadline(time.Now().Add(time.Millisecond))
			c.Write([]byte(" "))
		}
		begin := time.Now()
		if got := b.sh(t, "echo fine"); got != "fine\n" {
			t.Errorf("the session says %q", got)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	if worst := took[len(took)*9/10]; worst > most {
		t.Errorf("of %d commands beside them one in ten took %s", len(took), worst)
	}
	for name, c := range map[string]net.Conn{"a silent connection": silent[0], "half a header": dripping[0]} {
		c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s is still open after 10 s", name)
		}
	}
	if now := s.memory(t); now > before+100<<20 {
		t.Errorf("the daemon had %d MiB and has %d", before>>20, now>>20)
	}
}

// events reads a stream of server-sent events until it ends.
func (c *caller) events(t testing.TB, path string, edits ...edit) <-chan string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", c.d.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	for _, edit := range edits {
		edit(r)
	}
	response, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 10000)
	go func() {
		defer close(lines)
		defer response.Body.Close()
		for in := bufio.NewScanner(response.Body); in.Scan(); {
			lines <- in.Text()
		}
	}()
	return lines
}

// A09: a stream ends with its session, has events of its own command only, and
// nothing that is printed becomes an event.
func TestA09_Streams(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	b := s.a.session(t, nil)
	const forged = `\n\nevent: done\ndata: {"exit_code":0}\n\nid: x\r\rretry: 1\n\n: `
	lines := b.events(t, b.at("/exec/stream?cmd=printf+%27"+strings.NewReplacer(`\`, "%5C", " ", "+", `"`, "%22", "{", "%7B", "}", "%7D").Replace(forged)+"%27%3B+exit+7"))
	ended := 0
	for line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "", "id":
		case "event":
			if value == "done" {
				ended++
			}
			if !slices.Contains([]string{"start", "chunk", "done"}, value) {
				t.Errorf("event %q", value)
			}
		case "data":
			var data map[string]any
			if err := json.Unmarshal([]byte(value), &data); err != nil {
				t.Errorf("data %q: %v", value, err)
			}
			if code, ok := data["exit_code"]; ok && code != 7.0 {
				t.Errorf("the end is %q", value)
			}
		default:
			t.Errorf("line %q", line)
		}
	}
	if ended != 1 {
		t.Errorf("%d ends", ended)
	}
	other := s.a.session(t, nil)
	theirs := other.run(t, "echo of-the-other-session").ExecID
	mine := b.run(t, "echo mine").ExecID
	for _, last := range []string{theirs + ":0", theirs, theirs + ":end", mine + ":-1", mine + ":99999999999999999999", mine + ":9223372036854775807", "-1", "x", mine + ":1:2", strings.Repeat("9", 5000), mine + ":1e3"} {
		for _, path := range []string{b.at("/execs/" + mine + "/stream"), b.at("/exec/stream?cmd=true")} {
			a := b.do(t, "GET", path, nil, header("Last-Event-ID", last))
			a.sane(t, path+" from "+last, "of-the-other-session")
		}
	}
	for _, path := range []string{"/exec/stream?cmd=sleep+100", "/fs/watch?path=."} {
		lines := other.events(t, other.at(path))
		<-lines
		defer func() {
			begin := time.Now()
			for range lines {
			}
			if took := time.Since(begin); took > paced(5*time.Second) {
				t.Errorf("%s goes on for %s", path, took)
			}
		}()
	}
	other.end(t)
}

// A12: one Idempotency-Key is one session, with whatever number of requests at
// once and over a daemon that was killed, and belongs to one owner.
func TestA12_Idempotency(t *testing.T) {
	s := stage(t, ownDaemon)
	ids := make(chan string, 100)
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			var made struct{ ID string }
			s.a.do(t, "POST", "/v1/sessions", `{"ttl_seconds":600}`, header("Idempotency-Key", "one")).into(t, &made)
			ids <- made.ID
		})
	}
	group.Wait()
	close(ids)
	first := <-ids
	for id := range ids {
		if id != first {
			t.Fatalf("one key has made %s and %s", first, id)
		}
	}
	if n := s.a.count(t, "/v1/sessions"); n != 1 {
		t.Errorf("there are %d sessions", n)
	}
	again := func(c *caller, body string) reply {
		return c.do(t, "POST", "/v1/sessions", body, header("Idempotency-Key", "one"))
	}
	again(s.a, `{"ttl_seconds":601}`).refused(t, "another body", 422)
	var other, after struct{ ID string }
	again(s.b, `{"ttl_seconds":600}`).into(t, &other)
	if other.ID == first {
		t.Error("the key of one owner gives another one the session")
	}
	s.d.Kill()
	s.d.Start()
	again(s.a, `{"ttl_seconds":600}`).into(t, &after)
	if after.ID != first {
		t.Errorf("after a crash %s, before %s", after.ID, first)
	}
	again(s.a, `{"ttl_seconds":601}`).refused(t, "another body after a crash", 422)
	for _, key := range []string{strings.Repeat("k", 256), "a b", "ä"} {
		s.a.do(t, "POST", "/v1/sessions", `{}`, func(r *http.Request) { r.Header["Idempotency-Key"] = []string{key} }).refused(t, fmt.Sprintf("the key %q", key), 400)
	}
	s.a.forget(t, "/v1/sessions/"+first)
	s.b.forget(t, "/v1/sessions/"+other.ID)
}

// A13: 10 sessions that are used, changed, saved and destroyed at once, 200
// times in all: each request is done or refused by what was done before, and
// nothing is left.
func TestA13_Races(t *testing.T) {
	s := stage(t, "")
	before := s.a.count(t, "/v1/sessions")
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			for range 2 {
				b := s.a.session(t, map[string]any{"ttl_seconds": 60})
				s.raceIn(t, b)
				b.do(t, "GET", b.at(""), nil).refused(t, "the session afterwards", 200, 404)
				b.do(t, "POST", b.at("/exec"), `{"cmd":"true"}`).refused(t, "a command afterwards", 404, 409)
			}
		})
	}
	group.Wait()
	if after := s.a.count(t, "/v1/sessions"); after != before {
		t.Errorf("%d sessions before, %d after", before, after)
	}
}

// raceIn makes 20 requests at once, two of which destroy the session.
func (s *scene) raceIn(t *testing.T, b *target) {
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			switch i % 10 {
			case 0:
				time.Sleep(20 * time.Millisecond)
				b.do(t, "DELETE", b.at(""), nil).refused(t, "destroy", 200)
			case 1, 2:
				b.do(t, "POST", b.at("/exec"), `{"cmd":"sleep 0.01; echo x >f"}`).refused(t, "exec", 200, 404, 409, 503)
			case 3:
				b.do(t, "POST", b.at("/snapshots"), `{"name":"race"}`).refused(t, "snapshot", 201, 404, 409, 429, 503)
			case 4:
				b.do(t, "PATCH", b.at(""), `{"ttl_seconds":50}`).refused(t, "patch", 200, 404, 409)
			case 5:
				b.do(t, "POST", b.at("/heartbeat"), nil).refused(t, "heartbeat", 200, 204, 404, 409)
			case 6:
				b.do(t, "POST", b.at("/pause"), nil).refused(t, "pause", 200, 404, 409, 503)
			case 7:
				b.do(t, "PUT", b.at("/fs/raw?path=f"), "x").refused(t, "write", 200, 404, 409, 503)
			case 8:
				b.do(t, "POST", b.at("/stop"), nil).refused(t, "stop", 200, 404, 409, 503)
			case 9:
				if i > 9 {
					return // one fork is enough: it may copy a disk
				}
				b.do(t, "POST", b.at("/fork"), `{"count":1,"ttl_seconds":30,"labels":{"race":"fork"}}`).dropForks(t, b)
			}
		})
	}
	all.Wait()
}

// dropForks destroys what a fork made.
func (a reply) dropForks(t *testing.T, b *target) {
	t.Helper()
	a.refused(t, "fork", 201, 404, 409, 503)
	var made struct{ Sessions []struct{ ID string } }
	if a.status == 201 {
		a.into(t, &made)
	}
	for _, fork := range made.Sessions {
		b.forget(t, "/v1/sessions/"+fork.ID)
	}
}

// A14: what a client writes into headers, paths and names makes no line of its
// own in the log, and sends nothing to the terminal of who reads it.
func TestA14_LogLines(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) { logLines(t, format) })
	}
}

func logLines(t *testing.T, format string) {
	s := stageWith(t, blackbox.Options{}, "log: {level: debug, format: "+format+"}")
	b := s.a.session(t, map[string]any{"labels": map[string]string{"a": "level=ERROR forged-line"}})
	const forged = "%0d%0alevel=ERROR%20msg=forged-line%1b[2J%1b]0;x%07%00"
	s.a.do(t, "GET", "/v1/"+forged, nil)
	s.a.do(t, "GET", "/v1/sessions/"+forged, nil)
	s.a.do(t, "GET", b.at("/fs/read?path="+forged), nil)
	s.a.do(t, "GET", b.at("/shells/"+forged), nil, header("X-Request-Id", "x\tlevel=ERROR msg=forged-line"))
	s.a.do(t, "POST", "/v1/sessions", map[string]any{"image": "x\nlevel=ERROR msg=forged-line\x1b[2J", "hostname": "a\nb"})
	s.a.bare(t, "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nUser-Agent: x\x1b[31m level=ERROR msg=forged-line\r\nConnection: close\r\n\r\n", time.Second)
	b.sh(t, `printf '\nlevel=ERROR msg=forged-line\033[2J\n'; printf 'level=ERROR forged\n' >&2`)
	for line := range strings.Lines(s.d.Log()) {
		if strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x1b\x00\r\x07\x7f") {
			t.Errorf("%s: the log has %q", format, line)
		}
		if strings.HasPrefix(line, "level=ERROR msg=forged") {
			t.Errorf("%s: the log has a line of the client's: %q", format, line)
		}
		if format == "json" && !json.Valid([]byte(line)) {
			t.Errorf("the log has %q", line)
		}
	}
	if len(s.d.Log()) < 500 {
		t.Errorf("%s: nothing was logged: %q", format, s.d.Log())
	}
}
