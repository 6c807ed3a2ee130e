package relay_test

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/sandbox/netns"
)

// benchWorld is one with an echo server, which is reached through the relay at one
// address and directly at the other.
func benchWorld(b *testing.B) (w *world, through, direct string) {
	b.Helper()
	w = newWorld(b, network.Policy{
		Mode: network.Internet, MaxConnections: network.MostConnections, ConnectionsPerSecond: network.MostConnectionsPerSecond,
	}, network.Operator{})
	direct = echo(b)
	w.at("198.51.100.1:9000", direct)
	return w, "198.51.100.1:9000", direct
}

// exchange connects, sends a byte and waits for it.
func exchange(b *testing.B, dial func() (net.Conn, error)) {
	b.Helper()
	conn, err := dial()
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{1}); err != nil {
		b.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkConnect is a connection to its first byte, through the relay and past it.
// What entering the namespace costs is in both.
func BenchmarkConnect(b *testing.B) {
	w, through, direct := benchWorld(b)
	b.Run("relay", func(b *testing.B) {
		inside(b, w.netns, func() {
			for range b.N {
				exchange(b, func() (net.Conn, error) { return net.Dial("tcp", through) })
			}
		})
	})
	b.Run("direct", func(b *testing.B) {
		for range b.N {
			exchange(b, func() (net.Conn, error) { return net.Dial("tcp", direct) })
		}
	})
}

// BenchmarkDownload is a stream of bytes to the sandbox.
func BenchmarkDownload(b *testing.B) {
	w := newWorld(b, network.Policy{Mode: network.Internet}, network.Operator{})
	source, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer source.Close()
	go func() {
		piece := make([]byte, 256<<10)
		for {
			conn, err := source.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for {
					if _, err := conn.Write(piece); err != nil {
						return
					}
				}
			}()
		}
	}()
	w.at("198.51.100.1:9000", source.Addr().String())
	read := func(b *testing.B, conn net.Conn) {
		defer conn.Close()
		const size = 64 << 20
		b.SetBytes(size)
		buf := make([]byte, 256<<10)
		b.ResetTimer()
		for range b.N {
			for left := size; left > 0; {
				n, err := conn.Read(buf[:min(len(buf), left)])
				if err != nil {
					b.Fatal(err)
				}
				left -= n
			}
		}
	}
	b.Run("relay", func(b *testing.B) {
		conn, err := w.connect("198.51.100.1:9000")
		if err != nil {
			b.Fatal(err)
		}
		read(b, conn)
	})
	b.Run("direct", func(b *testing.B) {
		conn, err := net.Dial("tcp", source.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		read(b, conn)
	})
}

// BenchmarkQuery is a name that the relay knows.
func BenchmarkQuery(b *testing.B) {
	w := newWorld(b, network.Policy{Mode: network.Internet}, network.Operator{})
	w.resolve("good.test", "198.51.100.1")
	query := new(dns.Msg)
	query.SetQuestion("good.test.", dns.TypeA)
	var conn net.Conn
	var err error
	inside(b, w.netns, func() { conn, err = net.Dial("udp", net.JoinHostPort(netns.Resolvers[0].String(), "53")) })
	if err != nil {
		b.Fatal(err)
	}
	client := &dns.Conn{Conn: conn}
	defer client.Close()
	took := make([]time.Duration, 300) // below what a sandbox may ask at once
	for i := range took {
		start := time.Now()
		_ = client.SetDeadline(start.Add(5 * time.Second))
		if err := client.WriteMsg(query); err != nil {
			b.Fatal(err)
		}
		if _, err := client.ReadMsg(); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkIdleConnections is what one that nobody uses takes of this process's
// memory: through the relay, and past it, where it is only the test's two ends.
func BenchmarkIdleConnections(b *testing.B) {
	w, through, direct := benchWorld(b)
	b.Run("relay", func(b *testing.B) { inside(b, w.netns, func() { holdIdle(b, through) }) })
	b.Run("direct", func(b *testing.B) { holdIdle(b, direct) })
}

func holdIdle(b *testing.B, address string) {
	b.Helper()
	const n = 2000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	held := make([]net.Conn, 0, n)
	for range n {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		held = append(held, conn)
		fmt.Fprint(conn, "x")
		_, _ = io.ReadFull(conn, make([]byte, 1))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/float64(len(held)), "B/connection")
	b.ReportMetric(0, "ns/op")
}
