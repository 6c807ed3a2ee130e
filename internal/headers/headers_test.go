package headers_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/headers"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// Room is of all together, of each address, and of each /64 of IPv6. An address of many
// clients, as a proxy's, has that of all.
func TestRoomByAddress(t *testing.T) {
	const part = 4000
	for name, tt := range map[string]struct {
		from []string // each sends a part of a header; the last one is refused, and nobody else
		used int64
	}{
		"of one address":   {[]string{"198.51.100.1", "198.51.100.1", "198.51.100.1"}, 2 * part},
		"of all":           {[]string{"198.51.100.1", "198.51.100.2", "198.51.100.3", "198.51.100.4", "198.51.100.5", "198.51.100.6"}, 5 * part},
		"of one /64":       {[]string{"2001:db8::1", "2001:db8:0:1::1", "2001:db8::ffff:2", "2001:db8::3"}, 3 * part},
		"of mapped ones":   {[]string{"198.51.100.1", "::ffff:198.51.100.1", "198.51.100.1"}, 2 * part},
		"of a shared one":  {[]string{"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1"}, 5 * part},
		"of its neighbour": {[]string{"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.1.1", "10.0.1.1", "10.0.1.1"}, 5 * part},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			from := testenv.FromAddresses{Listener: l, Next: make(chan string, 1)}
			s := startOn(t, from, 5*part+part/2, 2*part+part/2, func(a netip.Addr) bool { return a == netip.MustParseAddr("10.0.0.1") })
			const begun = "GET / HTTP/1.1\r\nHost: x\r\nA: "
			for i, address := range tt.from {
				from.Next <- address
				conn := s.dial()
				if _, err := io.WriteString(conn, begun+strings.Repeat("x", part-len(begun))); err != nil {
					t.Fatal(err)
				}
				if i < len(tt.from)-1 {
					s.wantRoom(int64(i+1) * part)
					continue
				}
				if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("%+v, %v", answer, err)
				}
			}
			s.wantRoom(tt.used)
			if n := s.room.Refused(); n != 1 {
				t.Errorf("%d were refused", n)
			}
		})
	}
}

// served is a server whose headers are bounded, and what it has heard.
type served struct {
	t    *testing.T
	addr string
	room *headers.Room
}

func start(t *testing.T, all, perAddress int64) *served {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, l, all, perAddress, nil)
}

func startOn(t *testing.T, l net.Listener, all, perAddress int64, shared func(netip.Addr) bool) *served {
	t.Helper()
	room := headers.NewRoom(all, perAddress)
	server := &http.Server{
		ConnState: headers.Watch,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%d fields, %d bytes, %v", len(r.Header), len(body), err)
		}),
	}
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(headers.Listener{Listener: l, Room: room, Shared: shared, Limits: headers.Limits{
			Fields: 100, Bytes: 8 << 10,
			TooLarge: []byte("HTTP/1.1 431 Too Large\r\nContent-Length: 0\r\n\r\n"), Scarce: []byte("HTTP/1.1 503 Scarce\r\nContent-Length: 0\r\n\r\n"),
		}})
	}()
	t.Cleanup(func() { server.Close(); <-ended })
	return &served{t, l.Addr().String(), room}
}

func (s *served) dial() net.Conn {
	s.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

func request(fields int, body string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", len(body)) + field(fields) + "\r\n" + body
}

func field(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d:\r\n", i)
	}
	return b.String()
}

// Fields are counted in headers only, of each request of a connection anew, however they
// come; what is over a limit is told.
func TestFieldsAreCounted(t *testing.T) {
	s := start(t, 1<<20, 1<<20)
	for name, tt := range map[string]struct {
		texts []string // what is written, one after the other
		want  []string // the beginnings of the answers
	}{
		"few":                        {[]string{request(90, "")}, []string{"200"}},
		"a body of many lines":       {[]string{request(90, strings.Repeat("\n", 5000))}, []string{"200"}},
		"many":                       {[]string{request(200, "")}, []string{"431"}},
		"many, without an end":       {[]string{"GET / HTTP/1.1\r\n", field(60), field(60)}, []string{"431"}},
		"a megabyte":                 {[]string{"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"}, []string{"431"}},
		"bare newlines":              {[]string{strings.ReplaceAll(request(200, ""), "\r", "")}, []string{"431"}},
		"long":                       {[]string{"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", 9000)}, []string{"431"}},
		"one more on the connection": {[]string{request(90, "body\n\n"), request(90, "\n\nbody"), request(200, "")}, []string{"200", "200", "431"}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := s.dial()
			from := bufio.NewReader(conn)
			answers := 0
			for i, text := range tt.texts {
				if _, err := io.WriteString(conn, text); err != nil && i == 0 {
					t.Fatal(err)
				}
				if len(tt.want) == 1 && i < len(tt.texts)-1 {
					continue
				}
				answer, err := http.ReadResponse(from, nil)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, answer.Body)
				if got := answer.Status; !strings.HasPrefix(got, tt.want[answers]) {
					t.Errorf("answer %d: %s, want %s", answers, got, tt.want[answers])
				}
				answers++
			}
		})
	}
	s.wantRoom(0)
}

func (s *served) wantRoom(want int64) {
	s.t.Helper()
	testenv.Eventually(s.t, fmt.Sprintf("%d bytes of headers count as unfinished", want), func() bool { return s.room.Used() == want })
}

// Headers that do not come to their end have room together, which is given back by their
// end or the connection's.
func TestUnfinishedHeadersShareRoom(t *testing.T) {
	s := start(t, 20_000, 10_000)
	const begun = "GET / HTTP/1.1\r\nHost: x\r\nA: "
	part := begun + strings.Repeat("x", 4000-len(begun))
	held := []net.Conn{s.dial(), s.dial()}
	for _, conn := range held {
		if _, err := io.WriteString(conn, part); err != nil {
			t.Fatal(err)
		}
	}
	s.wantRoom(8000)
	over := s.dial()
	if _, err := io.WriteString(over, part); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(over), nil)
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable || s.room.Refused() != 1 {
		t.Fatalf("%+v, %v, %d were refused", answer, err, s.room.Refused())
	}
	if _, err := io.WriteString(held[0], "\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := http.ReadResponse(bufio.NewReader(held[0]), nil); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%+v, %v", answer, err)
	}
	s.wantRoom(4000)
	held[1].Close()
	s.wantRoom(0)
}
