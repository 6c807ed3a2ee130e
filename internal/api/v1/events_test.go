package v1_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/events/sources"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// withEvents has a daemon tell what happens.
func withEvents(hub *events.Hub) func(*setup) {
	return func(o *setup) {
		o.session.Events = hub
		o.session.Workspaces.Store = sources.Workspaces(o.session.Workspaces.Store, hub)
		o.session.Snapshots.Store = sources.Snapshots(o.session.Snapshots.Store, hub)
	}
}

// follower reads an event stream.
type follower struct {
	tb    testing.TB
	lines *bufio.Scanner
	body  io.Closer
	id    string // of the last event, or mark
}

func (s *server) follow(tb testing.TB, query string, edits ...edit) *follower {
	tb.Helper()
	response := s.open(tb, "GET", "/v1/events"+query, nil, edits...)
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		tb.Fatal(response.Status, response.Header)
	}
	f := &follower{tb: tb, lines: bufio.NewScanner(response.Body), body: response.Body}
	f.lines.Buffer(nil, 1<<20)
	tb.Cleanup(func() { f.body.Close() })
	if e := f.next(); e.Type != "ready" || f.id == "" {
		tb.Fatalf("the first event is %+v", e)
	}
	return f
}

// next returns the next event.
func (f *follower) next() (e v1.Event) {
	f.tb.Helper()
	name := ""
	for f.lines.Scan() {
		line := f.lines.Text()
		field, value, _ := strings.Cut(line, ": ")
		switch field {
		case "event":
			name = value
		case "id":
			f.id = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				f.tb.Fatal(err)
			}
			if string(e.Type) != name || e.ID != f.id {
				f.tb.Errorf("the event %s with id %s has type %s and id %s", name, f.id, e.Type, e.ID)
			}
		case "":
			if name != "" {
				return e
			}
		}
	}
	f.tb.Fatalf("the stream ended: %v", f.lines.Err())
	return e
}

// until passes over events up to one of this type.
func (f *follower) until(kind events.Type) v1.Event {
	f.tb.Helper()
	for {
		if e := f.next(); e.Type == kind {
			return e
		}
	}
}

func asBob(r *http.Request) { r.Header.Set("Authorization", "Bearer "+bobKey) }

func TestEventsOfASession(t *testing.T) {
	t.Parallel()
	s := start(t, withEvents(events.NewHub(events.Options{})))
	f := s.follow(t, "")
	var made v1.Session
	s.do(t, "POST", "/v1/sessions", `{"name":"work","labels":{"a":"b"},"env":{"TOKEN":"hunter2"}}`).into(t, 201, &made)
	path := "/v1/sessions/" + string(made.ID)
	e := f.next()
	if e.Type != events.SessionCreated || e.Owner != "alice" || e.SessionID != string(made.ID) || e.Session.Status != "creating" || e.Session.Labels["a"] != "b" {
		t.Errorf("a new session is told as %+v", e)
	}
	if e = f.next(); e.Type != events.SessionState || e.Before != "creating" || e.Session.Status != "running" || e.Session.Name != "work" {
		t.Errorf("its start is told as %+v", e)
	}
	s.do(t, "PATCH", path, `{"ttl_seconds":77}`).into(t, 200, &made)
	if e = f.next(); e.Type != events.SessionChanged || e.Session.TTLSeconds != 77 {
		t.Errorf("its change is told as %+v", e)
	}
	ran := s.exec(t, path, "echo hello; (exit 3)")
	if e = f.next(); e.Type != events.ExecStarted || e.Exec.ExecID != ran.ExecID || e.Exec.Command != "echo hello; (exit 3)" || e.Exec.State != "running" {
		t.Errorf("a command's start is told as %+v %+v", e, e.Exec)
	}
	if e = f.next(); e.Type != events.ExecFinished || e.Exec.ExecID != ran.ExecID || *e.Exec.ExitCode != 3 || e.Exec.Cause != "exited" || e.Exec.Command == "" {
		t.Errorf("its end is told as %+v %+v", e, e.Exec)
	}
	s.do(t, "DELETE", path, "")
	if e = f.next(); e.Type != events.SessionState || e.Session.Status != "stopping" {
		t.Errorf("its end begins as %+v", e)
	}
	if e = f.next(); e.Type != events.SessionEnded || e.Session.Status != "destroyed" || e.Session.EndReason == "" || e.Session.EndedAt == nil {
		t.Errorf("its end is told as %+v", e)
	}
}

// What nobody waits for is told all the same, and once.
func TestEventsOfProcessesThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	s := start(t, withEvents(events.NewHub(events.Options{})))
	path := s.create(t)
	f := s.follow(t, "?types=exec")
	var began, lives v1.ExecRecord
	s.do(t, "POST", path+"/processes", `{"cmd":["sh","-c","read x; exit 4"],"open_stdin":true,"background":true}`).into(t, 201, &began)
	if e := f.next(); e.Type != events.ExecStarted || e.Exec.ExecID != began.ExecID || e.Exec.Kind != "process" {
		t.Fatalf("a process's start is told as %+v", e)
	}
	s.do(t, "POST", path+"/processes", `{"cmd":["sleep","1000"],"background":true}`).into(t, 201, &lives)
	if e := f.next(); e.Type != events.ExecStarted || e.Exec.ExecID != lives.ExecID {
		t.Fatalf("a process's start is told as %+v", e)
	}
	s.do(t, "POST", path+"/processes/"+began.ExecID+"/stdin", `{"data":"x\n"}`)
	s.do(t, "GET", path+"/processes/"+began.ExecID+"?wait_ms=60000", "")
	if e := f.next(); e.Type != events.ExecFinished || e.Exec.ExecID != began.ExecID || *e.Exec.ExitCode != 4 {
		t.Fatalf("its end is told as %+v", e.Exec)
	}
	s.do(t, "DELETE", path, "")
	if e := f.next(); e.Type != events.ExecFinished || e.Exec.ExecID != lives.ExecID || e.Exec.Cause != "sandbox_gone" {
		t.Fatalf("the end of another with its session is told as %+v", e.Exec)
	}
}

func TestEventsAreTheOwners(t *testing.T) {
	t.Parallel()
	hub := events.NewHub(events.Options{})
	s := start(t, withEvents(hub), func(o *setup) { o.api.Authenticator = keys{operator: "nobody"} })
	before := s.follow(t, "", asBob)
	path := s.create(t)
	s.exec(t, path, "true")
	hub.Publish(events.Event{Type: events.PoolChanged})
	s.do(t, "POST", "/v1/workspaces", `{"id":"w"}`)
	id := strings.TrimPrefix(path, "/v1/sessions/")
	for _, f := range []*follower{before, s.follow(t, "?since="+before.id, asBob)} {
		var own v1.Session
		s.do(t, "POST", "/v1/sessions", "{}", asBob).into(t, 201, &own)
		for e := f.next(); e.SessionID != string(own.ID); e = f.next() {
			if e.Owner != "bob" {
				t.Errorf("bob sees %+v", e)
			}
		}
	}
	s.do(t, "GET", "/v1/events?session="+id, "", asBob).wantError(t, 404, "not_found", "")
	s.do(t, "GET", "/v1/events?owner=alice", "", asBob).wantError(t, 403, "permission_denied", "owner")
	s.do(t, "GET", "/v1/events?types=pool", "", asBob).wantError(t, 403, "permission_denied", "types")
	s.do(t, "GET", "/v1/events?types=session,x", "").wantError(t, 400, "invalid_argument", "types")
	s.do(t, "GET", "/v1/events?since=x", "").wantError(t, 400, "invalid_argument", "since")
	s.do(t, "GET", "/v1/events?session=no-such-name", "").wantError(t, 404, "not_found", "")
}

func TestEventsForAdmins(t *testing.T) {
	t.Parallel()
	hub := events.NewHub(events.Options{})
	s := start(t, withEvents(hub), func(o *setup) { o.api.Authenticator = nil })
	f, ofBob := s.follow(t, ""), s.follow(t, "?owner=bob")
	for _, owner := range []string{"alice", "bob"} {
		hub.Publish(events.Event{Type: events.ExecBurst, Owner: owner, Data: events.Burst{Began: 2, Ended: 1}})
		if e := f.next(); e.Owner != owner || *e.ExecBurst != (v1.ExecBurst{Started: 2, Finished: 1}) {
			t.Errorf("got %+v", e)
		}
	}
	sources.Accounts(hub)("carol", "")
	if e := f.next(); e.Type != events.AccountChanged || e.Account.User != "carol" {
		t.Errorf("got %+v", e)
	}
	if e := ofBob.next(); e.Owner != "bob" {
		t.Errorf("of bob's events came %+v", e)
	}
}

func TestEventsFilterAndResume(t *testing.T) {
	t.Parallel()
	hub := events.NewHub(events.Options{Backlog: 64})
	s := start(t, withEvents(hub))
	path := s.create(t)
	other := s.create(t)
	id := strings.TrimPrefix(path, "/v1/sessions/")
	f := s.follow(t, "?types=exec&session="+id[:12])
	s.exec(t, other, "true")
	ran := s.exec(t, path, "true")
	if e := f.next(); e.Exec == nil || e.Exec.ExecID != ran.ExecID {
		t.Fatalf("got %+v", e)
	}
	f.body.Close()
	again := s.follow(t, "?types=exec&since=1-1&session="+id, header("Last-Event-ID", f.id))
	if e := again.next(); e.Type != events.ExecFinished || e.Exec.ExecID != ran.ExecID {
		t.Fatalf("a stream that is resumed goes on with %+v", e)
	}
	last := again.id
	for range 100 {
		hub.Publish(events.Event{Type: events.SessionChanged, Owner: "x"})
	}
	for reason, since := range map[events.Reason]string{events.Expired: last, events.Restarted: "1-1"} {
		f := s.follow(t, "?types=exec,session&since="+since)
		if f.id != since {
			t.Errorf("since %s: ready has the id %s, which is behind the gap", since, f.id)
		}
		e := f.next()
		if e.Type != "gap" || e.Reason != reason || !slices.Equal(e.Reload, []events.Kind{events.Session, events.Exec}) {
			t.Errorf("since %s: %+v", since, e)
		}
	}
}

func TestEventsOfWorkspacesAndSnapshots(t *testing.T) {
	t.Parallel()
	s := start(t, withEvents(events.NewHub(events.Options{})))
	f := s.follow(t, "?types=workspace,snapshot")
	s.do(t, "POST", "/v1/workspaces", `{"id":"w","labels":{"k":"v"}}`)
	if e := f.next(); e.Type != events.WorkspaceChanged || e.Workspace.ID != "w" || e.Workspace.Labels["k"] != "v" {
		t.Errorf("a new workspace is told as %+v", e)
	}
	s.do(t, "DELETE", "/v1/workspaces/w", "")
	if e := f.next(); e.Type != events.WorkspaceDeleted || e.DeletedID != "w" {
		t.Errorf("its end is told as %+v", e)
	}
	path := s.create(t)
	var made v1.Session
	snapshot := s.do(t, "POST", path+"/snapshots", `{"name":"before"}`)
	s.do(t, "GET", path, "").into(t, 200, &made)
	e := f.next()
	if e.Type != events.SnapshotCreated || e.Snapshot.Name != "before" || e.SessionID != string(made.ID) {
		t.Fatalf("a snapshot (%s) is told as %+v", snapshot.body, e)
	}
	s.do(t, "DELETE", "/v1/snapshots/"+e.Snapshot.ID, "")
	if gone := f.next(); gone.Type != events.SnapshotDeleted || gone.DeletedID != e.Snapshot.ID {
		t.Errorf("its end is told as %+v", gone)
	}
}

func TestEventsEndWithTheDaemon(t *testing.T) {
	t.Parallel()
	hub := events.NewHub(events.Options{})
	s := start(t, withEvents(hub))
	f := s.follow(t, "")
	hub.Close()
	if f.lines.Scan(); f.lines.Err() != nil {
		t.Error(f.lines.Err())
	}
}

// TestEventsAreDocumented compares the table of docs/events.md with the types.
func TestEventsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[v1.Event]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = true
	}
	var documented, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (?:`(\\w+)`|the stream) \\| (.*?) ?\\| .* \\|$").FindAllStringSubmatch(string(text), -1) {
		if row[2] != "" {
			documented = append(documented, row[1]+" "+row[2])
		}
		for _, field := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[3], -1) {
			if !fields[field[1]] {
				t.Errorf("%s has no field %s", row[1], field[1])
			}
		}
	}
	for _, known := range events.Types {
		want = append(want, string(known.Type)+" "+string(known.Kind))
	}
	if !slices.Equal(documented, want) {
		t.Errorf("the page has %q, and the types are %q", documented, want)
	}
	for _, r := range events.Reasons {
		if !strings.Contains(string(text), "\n| `"+string(r)+"` |") {
			t.Errorf("the page does not explain the reason %s", r)
		}
	}
}

// 100 open streams of a busy daemon take less than 20 MB, their clients' part included.
func TestManyEventStreamsAreSmall(t *testing.T) {
	const streams, most = 100, 20 << 20
	hub := events.NewHub(events.Options{})
	s := start(t, withEvents(hub))
	sized := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	for range 2 * events.DefaultBacklog { // so that the backlog is full, and no part of it
		hub.Publish(events.Event{Type: events.SessionChanged, Owner: "alice", Data: session.Event{}})
	}
	before := sized()
	var open []*follower
	for range streams {
		open = append(open, s.follow(t, "?types=exec"))
	}
	hub.Publish(events.Event{Type: events.ExecBurst, Owner: "alice", Data: events.Burst{Began: 1}})
	for _, f := range open {
		f.until(events.ExecBurst)
	}
	took := int64(sized()) - int64(before)
	t.Logf("%d streams take %d KiB, %d KiB each", streams, took>>10, took>>10/streams)
	if took > most {
		t.Errorf("%d streams take %d MiB", streams, took>>20)
	}
}

// waiting is how many requests wait or stream.
func (s *server) waiting(t *testing.T) float64 {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "sandkasten_http_requests_in_flight" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == "long" {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatal("there is no such metric")
	return 0
}

// A stream and a command under way cost the same however many headers they were asked for
// with.
func TestHeldRequestsKeepNoHeaders(t *testing.T) {
	hub := events.NewHub(events.Options{})
	s := start(t, withEvents(hub))
	path := s.create(t)
	s.exec(t, path, "mkfifo held")
	sized := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	rounds := 0
	cost := func(fields int, method, path, body string) int {
		t.Helper()
		rounds++ // each has a shell of its own: that of the last one may still be letting go of its commands
		body = strings.ReplaceAll(body, "SHELL", fmt.Sprint("round-", rounds))
		const many = 50
		text := method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + aliceKey + "\r\nContent-Type: application/json\r\n"
		for i := range fields {
			text += fmt.Sprintf("X-Field-%d: %s\r\n", i, strings.Repeat("v", 90))
		}
		text += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
		before := sized()
		var held []net.Conn
		for range many {
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, conn)
			t.Cleanup(func() { conn.Close() }) // or a failure would wait for them
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			if method == "GET" {
				if answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil); err != nil || answer.StatusCode != 200 {
					t.Fatalf("%+v, %v", answer, err)
				}
			}
		}
		testenv.Eventually(t, "all are under way", func() bool {
			return s.waiting(t) == many
		})
		took := (sized() - before) / many
		for _, conn := range held {
			conn.Close()
		}
		testenv.Eventually(t, "all have ended", func() bool {
			return s.waiting(t) == 0
		})
		return took
	}
	for what, ask := range map[string][3]string{
		"a stream of events": {"GET", "/v1/events", ""},
		"a wait for a shell": {"POST", path + "/exec", `{"cmd":"cat held","shell":"SHELL","on_disconnect":"kill"}`},
	} {
		cost(1, ask[0], ask[1], ask[2]) // what the first ones make once
		few, lots := cost(1, ask[0], ask[1], ask[2]), cost(220, ask[0], ask[1], ask[2])
		t.Logf("%s: %d bytes with one field, %d with 220", what, few, lots)
		if lots > few+24<<10 { // the emptied map; with the headers it is 60 KiB and more
			t.Errorf("%s with 220 fields holds %d bytes, one with one field %d", what, lots, few)
		}
	}
}

func TestNoEvents(t *testing.T) {
	t.Parallel()
	start(t).do(t, "GET", "/v1/events", "").wantError(t, 501, "unimplemented", "")
}
