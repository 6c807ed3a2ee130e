package attack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// ticking are two servers that never end: one says its lines at once, the other one as the
// answer to a request.
const ticking = `
import socketserver, threading, time
class Ticks(socketserver.BaseRequestHandler):
    begin = b""
    def handle(self):
        self.request.sendall(self.begin)
        while True:
            self.request.sendall(b"tick\n"); time.sleep(0.05)
class Page(Ticks): begin = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
class S(socketserver.ThreadingTCPServer): allow_reuse_address = True; daemon_threads = True
threading.Thread(target=S(("127.0.0.1", 8001), Page).serve_forever).start()
S(("127.0.0.1", 8000), Ticks).serve_forever()`

// opened is a connection on which lines of a program come for as long as it is open.
type opened struct {
	what string
	conn net.Conn
	from *bufio.Reader
}

// open makes a request, whose answer does not end.
func (c *caller) open(t testing.TB, what, request string) *opened {
	t.Helper()
	o := &opened{what, c.dial(t), nil}
	t.Cleanup(func() { o.conn.Close() })
	o.from = bufio.NewReader(o.conn)
	if _, err := io.WriteString(o.conn, request); err != nil {
		t.Fatal(err)
	}
	if err := o.conn.SetReadDeadline(time.Now().Add(paced(20 * time.Second))); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(o.from, nil)
	if err != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%s: %+v, %v", what, answer, err)
	}
	return o
}

// line is the next line of the program, or the end of the connection, or of the time.
func (o *opened) line(until time.Time) error {
	for {
		if err := o.conn.SetReadDeadline(until); err != nil {
			return err
		}
		text, err := o.from.ReadString('\n')
		if err != nil || strings.Contains(text, "tick") {
			return err
		}
	}
}

// ends says how long it took to its end.
func (o *opened) ends(t testing.TB, within time.Duration) {
	t.Helper()
	for until := time.Now().Add(within); ; {
		err := o.line(until)
		if errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(until) {
			t.Errorf("%s is open %s after its key was revoked", o.what, within)
			return
		}
		if err != nil {
			return
		}
	}
}

// goesOn wants lines that were said after the moment at which it is called.
func (o *opened) goesOn(t testing.TB) {
	t.Helper()
	for now, until := time.Now(), time.Now().Add(paced(20*time.Second)); time.Since(now) < 500*time.Millisecond; {
		if err := o.line(until); err != nil {
			t.Errorf("%s of another key: %v", o.what, err)
			return
		}
	}
	if err := o.line(time.Now().Add(paced(20 * time.Second))); err != nil { // which was not waiting to be read
		t.Errorf("%s of another key says no more: %v", o.what, err)
	}
}

// A28: what a key has opened ends with the key: tunnels, ports, previews, terminals and
// streams. What another key of the same user has opened goes on.
func TestA28_OpenedByARevokedKey(t *testing.T) {
	t.Parallel()
	s := stage(t, anyDaemon)
	admin := s.admin(t)
	s.newUser(t, "friend")
	newKey := func() (c *caller, id string) {
		var made struct{ ID, Key string }
		admin.do(t, "POST", "/v1/keys", `{"user":"friend"}`).into(t, &made)
		return as(t, s.d, made.Key), made.ID
	}
	doomed, id := newKey()
	stays, _ := newKey()
	b := stays.session(t, nil)
	b.serve(t, 8000, ticking)
	b.serve(t, 8001, "import time; time.sleep(3600)") // that both of the first listen
	openAll := func(c *caller) (all []*opened) {
		const socket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
		var preview struct{ Token string }
		c.do(t, "POST", b.at("/previews"), `{"port":8001}`).into(t, &preview)
		const last = "Connection: close\r\n" // so that the answer's end is the connection's
		show := "Authorization: Bearer " + c.key + "\r\n"
		run := `{"cmd":"while :; do echo tick; sleep 0.05; done","shell":"of-` + c.key[len(c.key)-8:] + `"}`
		for _, o := range []struct{ what, method, path, header, body string }{
			{"a tunnel", "GET", "/tunnel?port=8000", show + socket, ""},
			{"a port", "GET", "/ports/8001/", show + last, ""},
			{"a preview", "GET", "/ports/8001/", "X-Preview-Token: " + preview.Token + "\r\n" + last, ""},
			{"a terminal", "GET", "/terminal?cmd=while+:%3B+do+echo+tick%3B+sleep+0.05%3B+done", show + socket, ""},
			{"a command", "POST", "/exec/stream", show + last + "Content-Type: application/json\r\n", run},
		} {
			one := c.open(t, o.what, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", o.method, b.at(o.path), o.header, len(o.body), o.body))
			if err := one.line(time.Now().Add(paced(20 * time.Second))); err != nil {
				t.Fatalf("%s says nothing: %v", o.what, err)
			}
			all = append(all, one)
		}
		return all
	}
	gone, kept := openAll(doomed), openAll(stays)
	admin.do(t, "DELETE", "/v1/keys/"+id, nil).refused(t, "revoke it", 200)
	for _, o := range gone {
		o.ends(t, paced(5*time.Second))
	}
	for _, o := range kept {
		o.goesOn(t)
	}
}
