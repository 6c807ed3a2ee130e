package linux

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
)

func TestParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runner func(t *testing.T, end net.Conn) // what it does meanwhile
		usable bool
	}{
		"waits": {func(*testing.T, net.Conn) {}, true},
		"ended": {func(_ *testing.T, end net.Conn) { end.Close() }, false},
		"talks": {func(t *testing.T, end net.Conn) { write(t, end) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, runner := connected(t)
			var p parked
			p.put("pool-a", ours)
			p.move("pool-a", "a")
			c.runner(t, runner)
			if p.take("pool-a") != nil {
				t.Error("the connection is still that of what it was")
			}
			got := p.take("a")
			if c.usable && got != ours || !c.usable && got != nil {
				t.Errorf("take gave %v", got)
			}
			if !c.usable {
				wantClosed(t, ours)
			}
			if p.take("a") != nil {
				t.Error("the same connection was given twice")
			}
		})
	}
}

func TestParked_KeepsOneOfEach(t *testing.T) {
	t.Parallel()
	var p parked
	first, _ := connected(t)
	second, _ := connected(t)
	dropped, _ := connected(t)
	p.put("a", first)
	p.put("a", second)
	p.put("b", dropped)
	wantClosed(t, second)
	p.drop("b")
	p.drop("c")
	wantClosed(t, dropped)
	p.close()
	wantClosed(t, first)
}

// connected returns both ends of a connection.
func connected(t *testing.T) (ours, runner net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if ours, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if runner, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ours.Close()
		runner.Close()
	})
	return ours, runner
}

func write(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Error(err)
	}
}

func wantClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection that nobody can have is not closed: %v", err)
	}
}
