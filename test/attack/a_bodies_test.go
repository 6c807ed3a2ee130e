package attack

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A06, many at once: two owners send 32 bodies of the most that there may be, nine
// megabytes of escapes, at the same time. They are written or refused, the daemon
// does not grow with their number, and small requests go on meanwhile.
func TestA06_ManyLargeBodies(t *testing.T) {
	s := stage(t, "max_sessions: 20")
	body := `{"path":"f","text":"` + strings.Repeat(`\n`, 4<<20) + `"}`
	before := s.memory(t)
	var sending sync.WaitGroup
	ends := make(chan int, 32)
	var quick []time.Duration
	for _, c := range []*caller{s.a, s.b} {
		b := c.session(t, nil)
		for range 16 {
			sending.Go(func() {
				a, err := c.try(t, "POST", b.at("/fs/write"), body)
				if err != nil {
					t.Error(err)
				}
				ends <- a.status
			})
		}
		for range 10 {
			a := c.do(t, "POST", b.at("/exec"), `{"cmd":"true"}`)
			if a.status != 200 {
				t.Errorf("a small request: %d %s", a.status, a.body)
			}
			quick = append(quick, a.took)
		}
	}
	sending.Wait()
	close(ends)
	count := map[int]int{}
	for status := range ends {
		count[status]++
	}
	for status := range count {
		if status != 200 && status != 429 && status != 503 {
			t.Errorf("%d of the answers are %d", count[status], status)
		}
	}
	if count[200] == 0 {
		t.Error("nothing was written")
	}
	most := s.mostMemory(t)
	t.Logf("answers %v; memory %d MiB, and %d at most; small requests took %v", count, before>>20, most>>20, quick)
	if most > before+450<<20 {
		t.Errorf("the daemon had %d MiB and came to %d", before>>20, most>>20)
	}
}

// A06, held: an owner has a hundred commands of a megabyte wait behind another one.
// The daemon does not hold them all, and another owner's command is run meanwhile.
func TestA06_HeldCommands(t *testing.T) {
	s := stage(t, "max_sessions: 20")
	long := `{"cmd":"true #` + strings.Repeat("x", 1<<20-100) + `"}`
	b, other := s.a.session(t, nil), s.b.session(t, nil)
	before := s.memory(t)
	var waiting sync.WaitGroup
	waiting.Go(func() { s.a.do(t, "POST", b.at("/exec"), `{"cmd":"sleep 20"}`) })
	for deadline := time.Now().Add(paced(10 * time.Second)); !strings.Contains(b.do(t, "GET", b.at("/execs"), nil).body, "running"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing runs")
		}
	}
	ends := make(chan int, 100)
	for range cap(ends) {
		waiting.Go(func() {
			a, err := s.a.try(t, "POST", b.at("/exec"), long)
			if err != nil {
				t.Error(err)
			}
			ends <- a.status
		})
	}
	time.Sleep(3 * time.Second)
	if a := s.b.do(t, "POST", other.at("/exec"), long); a.status != 200 {
		t.Errorf("another owner's command: %d after %s, %s", a.status, a.took, a.body)
	}
	waiting.Wait()
	close(ends)
	count := map[int]int{}
	for status := range ends {
		count[status]++
	}
	most := s.mostMemory(t)
	t.Logf("answers %v; memory %d MiB, and %d at most", count, before>>20, most>>20)
	if count[200] == 0 || count[200] > 64 || count[200]+count[429] != cap(ends) {
		t.Errorf("of %d commands with a megabyte, those that wait and those that are refused are %v", cap(ends), count)
	}
	if most > before+400<<20 {
		t.Errorf("the daemon had %d MiB and came to %d", before>>20, most>>20)
	}
}

// A26: headers of which a client sends very many, or as many as it can and never the end,
// take bounded memory, and others are answered meanwhile.
func TestA26_ManyHeaders(t *testing.T) {
	s := stage(t, "max_sessions: 20")
	b := s.b.session(t, nil)
	before := s.memory(t)
	for name, header := range map[string]string{
		"very many":  strings.Repeat("a:\n", 21_000),
		"very long":  "A: " + strings.Repeat("x", 30<<10),
		"very split": strings.Repeat("ab:c\r\n", 250),
	} {
		var held []net.Conn
		for range 300 {
			conn := s.a.dial(t)
			held = append(held, conn)
			conn.SetDeadline(time.Now().Add(paced(20 * time.Second)))
			io.WriteString(conn, "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\n"+header) // which may be refused meanwhile
		}
		if a := s.b.do(t, "POST", b.at("/exec"), `{"cmd":"true"}`); a.status != 200 || a.took > paced(5*time.Second) {
			t.Errorf("%s: another's command: %d after %s", name, a.status, a.took)
		}
		for _, conn := range held {
			conn.Close()
		}
	}
	if grown := s.mostMemory(t) - before; grown > 96<<20 {
		t.Errorf("the daemon has grown by %d MiB", grown>>20)
	}
	s.unharmed(t, "many headers")
}
