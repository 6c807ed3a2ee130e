package netfixture

import (
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestLabAnswers(t *testing.T) {
	begin := time.Now()
	l := New(t)
	t.Logf("a lab takes %s", time.Since(begin).Round(time.Millisecond))
	l.Name("good.test", "60 A 198.51.100.1", "60 AAAA 2001:db8:1::1")
	l.Name("other.test", "60 CNAME good.test.")
	run := func(program string, args ...string) string {
		text, err := exec.CommandContext(t.Context(), l.Program(program), args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s %q: %v: %s", program, args, err, text)
		}
		return strings.TrimSpace(string(text))
	}
	const ask = `import socket; print(sorted({a[4][0] for a in socket.getaddrinfo("other.test", 80)}))`
	if got := run("/usr/bin/python3", "-c", ask); got != "['198.51.100.1', '2001:db8:1::1']" {
		t.Errorf("the name is %s", got)
	}
	const visit = `import urllib.request as r; print([r.urlopen(u).read() for u in ("http://good.test/a", "https://good.test/b", "http://[2001:db8:1::7]/c", "http://169.254.169.254/d")])`
	if got := run("/usr/bin/python3", "-c", visit); !strings.Contains(got, "site good.test") {
		t.Errorf("the sites say %s", got)
	}
	if visits := strings.Join(l.Visits(), "\n"); !strings.Contains(visits, " good.test /b") || !strings.Contains(visits, "\n169.254.169.254\n") {
		t.Errorf("visits: %s", visits)
	}
	const send = `
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.sendto(b"hello", ("198.51.100.9", 7)); print(s.recv(9))
s = socket.create_connection(("203.0.113.5", 5432)); s.sendall(b"raw"); print(s.recv(9))`
	if got := run("/usr/bin/python3", "-c", send); got != "b'hello'\nb'raw'" {
		t.Errorf("the echo is %s", got)
	}
	seen := make(chan string, 9)
	port := l.Listen(func(who string) { seen <- who })
	err := l.internet.inside(func() error {
		conn, err := net.Dial("tcp", net.JoinHostPort(Own4, strconv.Itoa(port))) //nolint:noctx // of the lab
		if err == nil {
			_, _ = io.ReadAll(conn)
			conn.Close()
		}
		return err
	})
	if err != nil || !strings.HasPrefix(<-seen, Own4) {
		t.Errorf("the host was not reached: %v", err)
	}
	if _, err := os.Stat(l.CA); err != nil {
		t.Error(err)
	}
}
