package relay_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sandkasten/sandkasten/internal/network"
)

// held is how much memory the process has in use, and how many goroutines.
func held() (bytes, goroutines int) {
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return int(now.HeapAlloc), runtime.NumGoroutine()
}

// framed speaks HTTP/2 with the relay in the name of example.com, frame by frame.
func (w *world) framed(t *testing.T) (*tls.Conn, *http2.Framer) {
	t.Helper()
	raw, err := w.connect("198.51.100.5:443")
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, ServerName: "example.com", NextProtos: []string{"h2"}})
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := conn.HandshakeContext(t.Context()); err != nil || conn.ConnectionState().NegotiatedProtocol != "h2" {
		t.Fatalf("%q, %v", conn.ConnectionState().NegotiatedProtocol, err)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return conn, framer
}

// request is the header block of a GET.
func request(fields int) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "example.com"}, {":path", "/"}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	for range fields {
		_ = encoder.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("v", 100), Sensitive: true})
	}
	return block.Bytes()
}

// Floods of frames in a connection that the relay reads end with it or cost it nothing that
// stays, and go no further than what one sandbox may ask at once.
func TestFloodsOfFrames(t *testing.T) {
	var asked, most atomic.Int64
	release := make(chan struct{})
	w := filled(t, func(rw http.ResponseWriter, r *http.Request) {
		if now := asked.Add(1); now > most.Load() {
			most.Store(now)
		}
		defer asked.Add(-1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}, nil)
	defer close(release)
	whole := request(0)
	for what, flood := range map[string]func(f *http2.Framer, i uint32) error{
		"streams that are reset at once": func(f *http2.Framer, i uint32) error {
			if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: whole, EndHeaders: true, EndStream: true}); err != nil {
				return err
			}
			return f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		},
		"streams that stay": func(f *http2.Framer, i uint32) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: whole, EndHeaders: true, EndStream: true})
		},
		"a header without end": func(f *http2.Framer, i uint32) error {
			if i == 0 {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: whole})
			}
			return f.WriteContinuation(1, false, request(100)[len(whole):])
		},
		"pings":    func(f *http2.Framer, _ uint32) error { return f.WritePing(false, [8]byte{}) },
		"settings": func(f *http2.Framer, _ uint32) error { return f.WriteSettings() },
		"windows":  func(f *http2.Framer, _ uint32) error { return f.WriteWindowUpdate(0, 1) },
		"priorities": func(f *http2.Framer, i uint32) error {
			return f.WritePriority(2*i+1, http2.PriorityParam{StreamDep: 0, Weight: 1})
		},
		"empty data": func(f *http2.Framer, i uint32) error {
			if i == 0 {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: whole, EndHeaders: true})
			}
			return f.WriteData(1, false, nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			bytes, goroutines := held()
			conn, framer := w.framed(t)
			for i := range uint32(5000) { // its answers are not read
				if err := conn.SetWriteDeadline(time.Now().Add(2 * time.Second)); err != nil {
					t.Fatal(err)
				}
				if flood(framer, i) != nil {
					break // it was ended, or waits for answers to be read
				}
			}
			now, running := held()
			if now > bytes+16<<20 || running > goroutines+300 {
				t.Errorf("%d KiB and %d goroutines, before %d and %d", now>>10, running, bytes>>10, goroutines)
			}
		})
	}
	if n := most.Load(); n > 128 {
		t.Errorf("%d requests were outside at once", n)
	}
}

// A hello of any length names its host or is refused, and is not kept.
func TestLongHellos(t *testing.T) {
	w := filled(t, func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "the page") }, nil)
	hello := func(padding int) []byte {
		var sent recorded
		protocols := make([]string, 0, padding/250+1)
		for left := padding; left > 0; left -= 250 {
			protocols = append(protocols, strings.Repeat("p", min(left, 250)))
		}
		_ = tls.Client(&sent, &tls.Config{InsecureSkipVerify: true, ServerName: "example.com", NextProtos: protocols}).Handshake()
		return sent.Bytes()
	}
	refused := func(what string, raw []byte) {
		t.Helper()
		before, _ := held()
		conn, err := w.connect("198.51.100.5:443")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(raw); err != nil {
			t.Logf("%s: %v", what, err)
		}
		if after, _ := held(); after > before+8<<20 {
			t.Errorf("%s: %d KiB are held", what, (after-before)>>10)
		}
		out, err := io.ReadAll(conn)
		if isTimeout(err) || bytes.Contains(out, []byte("page")) {
			t.Errorf("%s: %q, %v", what, out, err)
		}
	}
	// The largest that one is told by its own length: 16 MiB, in records of one byte.
	endless := bytes.Repeat([]byte{22, 3, 1, 0, 1, 1}, 1<<20)
	copy(endless, []byte{22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff})
	refused("records of a byte", endless)
	huge := binary.BigEndian.AppendUint32([]byte{22, 3, 1, 0x3f, 0xff}, 1<<24|0xffffff)
	refused("one that is longer than any", append(huge, make([]byte, 1<<20)...))
	refused("a hello over its limit", hello(60<<10))

	// One of many records is read like any other.
	whole := hello(40 << 10)
	conn, err := w.connect("198.51.100.5:443")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(whole); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(conn, first); err != nil || first[0] != 22 && first[0] != 21 {
		t.Errorf("a hello of %d bytes is answered with %v, %v", len(whole), first, err)
	}
}

// recorded keeps what is written, and has nothing to read.
type recorded struct{ bytes.Buffer }

func (*recorded) Read([]byte) (int, error)         { return 0, io.EOF }
func (*recorded) Close() error                     { return nil }
func (*recorded) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*recorded) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*recorded) SetDeadline(time.Time) error      { return nil }
func (*recorded) SetReadDeadline(time.Time) error  { return nil }
func (*recorded) SetWriteDeadline(time.Time) error { return nil }

// Addresses of IPv6 on a list open what is in them and nothing beside: no other network, no
// form of IPv6 for an address of IPv4 that is not on it.
func TestPoliciesOfIPv6(t *testing.T) {
	w := newWorld(t, network.Policy{
		Mode: network.Allow, Allow: []string{"2001:db8:1::/48", "[2001:db8:2::7]:9000", "198.51.100.7:9000"}, Deny: []string{"2001:db8:1:bad::/64"},
	}, network.Operator{})
	real := echo(t)
	allowed := []string{"[2001:db8:1::1]:9000", "[2001:db8:1:ffff::1]:9000", "[2001:db8:2::7]:9000"}
	others := []string{
		"[2001:db8:1:bad::1]:9000", "[2001:db8:3::1]:9000", "[2001:db8:2::8]:9000", "[2001:db8:2::7]:9001",
		"[64:ff9b::c633:6408]:9000", "[2002:c633:6408::1]:9000", "[fe80::1]:9000", "[fd00:ec2::254]:80", "[::1]:9000",
	}
	for _, address := range append(allowed, others...) {
		w.at(address, real)
	}
	for _, address := range allowed {
		if conn, ok := w.opens(address); !ok {
			t.Errorf("%s is refused", address)
		} else {
			conn.Close()
		}
	}
	for _, address := range others {
		if _, ok := w.opens(address); ok || w.reached(address) {
			t.Errorf("%s is reached", address)
		}
	}
}
