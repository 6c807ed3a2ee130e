package v1_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
)

// BenchmarkExec is a round trip of the shortest command over a kept
// connection, through everything but isolation.
func BenchmarkExec(b *testing.B) {
	s := start(b, quiet)
	path := s.create(b)
	for b.Loop() {
		if a := s.do(b, "POST", path+"/exec", `{"cmd":"true"}`); a.status != http.StatusOK {
			b.Fatalf("%d %s", a.status, a.body)
		}
	}
}

// BenchmarkExecRefused is the share of the API alone: everything but the
// runner, to a command that the manager refuses.
func BenchmarkExecRefused(b *testing.B) {
	s := start(b, quiet)
	path := s.create(b)
	handler := s.Config.Handler
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", path+"/exec", strings.NewReader(`{"cmd":"a\u0000b"}`))
		r.Host = "localhost"
		r.Header.Set("Authorization", "Bearer "+aliceKey)
		r.Header.Set("Content-Type", "application/json")
		w := &sink{header: http.Header{}}
		handler.ServeHTTP(w, r)
		if w.status != http.StatusBadRequest {
			b.Fatal(w.status)
		}
	}
}

func quiet(o *setup) { o.api.Log = nil }

// sink is a response that nobody reads.
type sink struct {
	header        http.Header
	status        int
	readDeadlines []time.Time
}

func (s *sink) SetWriteDeadline(time.Time) error { return nil }

func (s *sink) SetReadDeadline(at time.Time) error {
	s.readDeadlines = append(s.readDeadlines, at)
	return nil
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return io.Discard.Write(p) }

// BenchmarkExecWithoutHTTP is what BenchmarkExec is to be compared with.
func BenchmarkExecWithoutHTTP(b *testing.B) {
	s := start(b, quiet)
	id := session.ID(strings.TrimPrefix(s.create(b), "/v1/sessions/"))
	for b.Loop() {
		if _, err := s.manager.Execs.Run(b.Context(), auth.Anonymous(), string(id), ops.ExecRequest{Command: "true"}, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstByte is from the request of a stream to the first output of
// its command, which goes on.
func BenchmarkFirstByte(b *testing.B) {
	s := start(b, quiet)
	path := s.create(b)
	for b.Loop() {
		response := s.open(b, "POST", path+"/exec/stream", strings.NewReader(`{"cmd":"echo x; sleep 0.005"}`))
		st := newStream(response.Body)
		st.want(b, "start", &struct{}{})
		st.want(b, "chunk", &struct{}{})
		b.StopTimer()
		st.want(b, "done", &struct{}{})
		if err := response.Body.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkProcess is a round trip of the shortest program.
func BenchmarkProcess(b *testing.B) {
	s := start(b, quiet)
	path := s.create(b)
	for b.Loop() {
		s.process(b, path, fields{"cmd": []string{"true"}})
	}
}

// BenchmarkKey is from a key that is pressed to its echo on the screen.
func BenchmarkKey(b *testing.B) {
	s := start(b, quiet)
	path := s.create(b)
	ws, _, err := s.dial(b, path+"/terminal?cmd=echo+up%3Bcat")
	if err != nil {
		b.Fatal(err)
	}
	screen(b, ws, "up\r\n")
	for b.Loop() {
		say(b, ws, websocket.MessageBinary, "x")
		screen(b, ws, "x")
	}
}

// BenchmarkOutput is how fast the output of a command comes over HTTP to a
// client that drops it: lines of text, short lines with colours, and bytes that
// are no text.
func BenchmarkOutput(b *testing.B) {
	const size = 64 << 20
	commands := map[string]string{
		"text":    `yes`,
		"colours": `yes $'\e[32mok\e[0m a line of a test report'`,
		"binary":  `cat /dev/urandom`,
	}
	for name, command := range commands {
		for _, way := range []string{"exec", "exec/stream"} {
			b.Run(name+"/"+way, func(b *testing.B) {
				s := start(b, quiet)
				path := s.create(b)
				body, err := json.Marshal(fields{"cmd": fmt.Sprintf("%s | head -c %d", command, size)})
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(size)
				for b.Loop() {
					response := s.open(b, "POST", path+"/"+way, bytes.NewReader(body))
					_, err := io.Copy(io.Discard, response.Body)
					if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
						b.Fatal(response.Status, err)
					}
				}
			})
		}
	}
}
