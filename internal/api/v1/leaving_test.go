package v1_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/protocol"
)

// leaver is a client that goes away without a word, in any phase of a request.
type leaver struct {
	*server
	tb      testing.TB
	path    string // of the session
	running string // an exec with open stdin that goes on and prints
	screen  string // a terminal
}

// requests are written by hand, so that the client can vanish in the middle of
// any byte.
func (l *leaver) requests() []string {
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			path, aliceKey, len(body), body)
	}
	get := func(path, header string) string {
		return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\n%s\r\n", path, aliceKey, header)
	}
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	return []string{
		post(l.path+"/exec", `{"cmd":"echo x; sleep 0.01","shell":"a"}`),
		post(l.path+"/exec/stream", `{"cmd":"echo x; sleep 0.01; echo y","shell":"b"}`),
		get(l.path+"/exec/stream?cmd=echo+x&shell=c", ""),
		post(l.path+"/processes", `{"cmd":["sh","-c","echo x; sleep 0.01"]}`),
		post(l.path+"/processes", `{"cmd":["true"],"background":true}`),
		post(l.path+"/processes/stream", `{"cmd":["sh","-c","echo x; sleep 0.01"]}`),
		get(l.path+"/execs/"+l.running+"/stream", ""),
		get(l.path+"/execs/"+l.running+"/output?wait_ms=60000&since_seq=9000000000", ""),
		get(l.path+"/execs/"+l.running+"?wait_ms=60000", ""),
		post(l.path+"/execs/"+l.running+"/wait", `{}`),
		post(l.path+"/execs/"+l.running+"/stdin", js(l.tb, fields{"data": strings.Repeat("x", 1<<17)})),
		get(l.path+"/terminal?terminal_id="+l.screen, upgrade) + "\x82\x81\x00\x00\x00\x00a",
	}
}

// leave sends a request or a part of it, perhaps reads a part of the answer,
// and is gone.
func (l *leaver) leave(r *rand.Rand, request string) error {
	conn, err := net.Dial("tcp", l.Listener.Addr().String())
	if err != nil {
		return err
	}
	if r.IntN(2) == 0 { // without waiting for what is not sent, as a crash does
		if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
			return err
		}
	}
	if r.IntN(4) == 0 {
		request = request[:r.IntN(len(request))]
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	if n := r.IntN(3); n > 0 && len(request) > 0 {
		if err := conn.SetReadDeadline(time.Now().Add(time.Duration(r.IntN(5)) * time.Millisecond)); err != nil {
			return err
		}
		io.CopyN(io.Discard, conn, int64(r.IntN(400))) // nothing may have come
	}
	return conn.Close()
}

// use is what a daemon holds.
type use struct{ goroutines, descriptors int }

func inUse(tb testing.TB) use {
	tb.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return use{runtime.NumGoroutine(), len(open)}
}

// TestClientsLeaveNothing is F25: a thousand clients vanish in all phases of
// all that takes time, and the daemon holds no more than before, nor does the
// sandbox.
func TestClientsLeaveNothing(t *testing.T) {
	const clients, parallel = 1000, 4
	s := start(t, quiet, func(o *setup) { o.session.TerminalDetach = time.Hour })
	l := &leaver{server: s, tb: t, path: s.create(t)}
	p := s.background(t, l.path, fields{
		"cmd":        []string{"sh", "-c", "(while :; do echo tick; sleep 0.01; done) & exec cat >/dev/null"},
		"open_stdin": true,
	})
	l.running = p[strings.LastIndex(p, "/")+1:]
	screen := s.background(t, l.path, fields{"cmd": []string{"cat"}, "tty": true})
	l.screen = screen[strings.LastIndex(screen, "/")+1:]
	s.Client().CloseIdleConnections()
	before := inUse(t)

	requests := l.requests()
	var all sync.WaitGroup
	for seed := range uint64(parallel) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 2))
			for i := range clients / parallel {
				if err := l.leave(r, requests[i%len(requests)]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	// Four idle connections to the runner are kept.
	const kept = 4
	var now use
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		s.Client().CloseIdleConnections()
		now = inUse(t)
		if now.goroutines <= before.goroutines && now.descriptors <= before.descriptors+kept {
			break
		}
	}
	if now.goroutines > before.goroutines || now.descriptors > before.descriptors+kept {
		buf := make([]byte, 1<<20)
		t.Fatalf("%+v before and %+v now\n%s", before, now, buf[:runtime.Stack(buf, true)])
	}

	// The sandbox runs nothing but the two, and works.
	var list []v1.ExecRecord
	s.do(t, "GET", l.path+"/execs", "").into(t, 200, &list)
	for _, r := range list {
		if r.ExecID != l.running && r.ExecID != l.screen {
			a := s.do(t, "POST", l.path+"/execs/"+r.ExecID+"/wait", `{"timeout_ms":60000}`)
			if a.status == 404 {
				continue // it has ended, and others have since: the last 64 are kept
			}
			a.into(t, 200, &r)
			if r.State != protocol.StateEnded {
				t.Errorf("left behind: %+v", r)
			}
		}
	}
	if r := s.exec(t, l.path, "echo fine"); r.Output != "fine\n" {
		t.Errorf("%+v", r)
	}
	for _, id := range []string{l.running, l.screen} {
		var r v1.ExecRecord
		s.do(t, "GET", l.path+"/execs/"+id, "").into(t, 200, &r)
		if r.State != protocol.StateRunning {
			t.Errorf("a client that left has ended it: %+v", r)
		}
		s.do(t, "POST", l.path+"/execs/"+id+"/cancel", "").into(t, 200, &v1.OK{})
	}
}

// TestUnreadStream is a client that asks for a stream and does not read it: the
// command waits, the daemon holds next to nothing, and a timeout still ends it.
func TestUnreadStream(t *testing.T) {
	s := start(t, quiet)
	path := s.create(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	response := s.open(t, "POST", path+"/exec/stream", strings.NewReader(`{"cmd":"yes","timeout_ms":4000}`))
	st := newStream(response.Body)
	var begun struct {
		ExecID string `json:"exec_id"`
	}
	st.want(t, "start", &begun)
	st.want(t, "chunk", &struct{}{}) // from now on the sandbox knows it
	// Ended by its time although nobody reads: another client sees that.
	var r v1.ExecRecord
	s.do(t, "POST", path+"/execs/"+begun.ExecID+"/wait", `{"timeout_ms":60000}`).into(t, 200, &r)
	if r.Cause != protocol.CauseTimeout {
		t.Errorf("%+v", r)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the daemon holds %d bytes more", grown)
	}
	// yes writes gigabytes in that time unless it has to wait.
	if r.OutputBytes > 256<<20 {
		t.Errorf("the command wrote %d bytes for nobody", r.OutputBytes)
	}
	// What comes now is the output with a gap that is counted, and the end.
	var read int64
	for {
		e, ok := st.next(t)
		if !ok {
			t.Fatal("no end")
		}
		if e.name == "done" {
			break
		}
		read++
	}
	if read == 0 {
		t.Error("nothing was kept for the reader")
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
}
