package relay_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sandkasten/sandkasten/internal/network"
)

// streams is a server whose answers begin and do not end, and which keeps nothing of what it
// is asked.
func streams(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { l.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				from := bufio.NewReaderSize(conn, 4096)
				for {
					line, err := from.ReadString('\n')
					if err != nil {
						return
					}
					if line == "\r\n" {
						break
					}
				}
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
				_, _ = io.Copy(io.Discard, from) // until the relay ends it
			})
		}
	})
	return l.Addr().String()
}

// A stream through the relay costs the same however many headers it was asked for with: they
// are dropped when the answer has begun.
func TestStreamsHoldNoHeaders(t *testing.T) {
	const many = 32 // connections to one host
	w := newWorld(t, network.Policy{Mode: network.Allow, Allow: []string{"good.test"}, MaxConnections: 100}, network.Operator{})
	w.resolve("good.test", "198.51.100.1")
	w.at("198.51.100.1:80", streams(t))
	w.mustAsk("good.test", dns.TypeA)
	cost := func(body string, fields int) int {
		t.Helper()
		text := fmt.Sprintf("POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: %d\r\n", len(body))
		for i := range fields {
			text += fmt.Sprintf("X-Field-%d: %s\r\n", i, strings.Repeat("v", 45))
		}
		before, _ := held()
		var conns []net.Conn
		for range many {
			conn, err := w.connect("198.51.100.1:80")
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.WriteString(conn, text+"\r\n"+body); err != nil {
				t.Fatal(err)
			}
			from := bufio.NewReaderSize(conn, 512)
			if answer, err := http.ReadResponse(from, nil); err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("%+v, %v", answer, err)
			}
			if line, err := from.ReadString('\n'); err != nil {
				t.Fatalf("%q, %v", line, err)
			}
		}
		after, _ := held()
		for _, conn := range conns {
			conn.Close()
		}
		w.settle(0)
		return (after - before) / many
	}
	cost("", 1) // what the first ones make once
	for _, body := range []string{"", "the body"} {
		few, lots := cost(body, 1), cost(body, 220)
		t.Logf("with a body of %d bytes: %d bytes of a stream with one field, %d with 220", len(body), few, lots)
		// With a body the transport keeps the emptied map of a copy of its own.
		if most := few + 6<<10 + len(body)*3<<10; lots > most {
			t.Errorf("with a body of %d bytes: a stream with 220 fields holds %d bytes, one with one field %d", len(body), lots, few)
		}
	}
}

// Headers of requests and answers have bounds of bytes, those of requests of fields, too, in
// HTTP/1 and HTTP/2; what is within them passes whole.
func TestHeadersAreBounded(t *testing.T) {
	w := filled(t, func(rw http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(r.URL.Query().Get("answer"))
		rw.Header().Set("X-Long", strings.Repeat("a", size))
		fmt.Fprintf(rw, "%d %d", len(r.Header), len(r.Header.Get("X-Long")))
	}, nil)
	header := func(fields, long int) string {
		var b strings.Builder
		for i := range fields {
			fmt.Fprintf(&b, "X-%d: v\r\n", i)
		}
		if long > 0 {
			fmt.Fprintf(&b, "X-Long: %s\r\n", strings.Repeat("v", long))
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		fields, long, answer int // of the request, and bytes of the answer's
		status               int
	}{
		"few":                        {10, 10, 10, 200},
		"a request of 15 KiB":        {10, 15 << 10, 0, 200},
		"a request of 17 KiB":        {10, 17 << 10, 0, 431},
		"a request of 1 MiB":         {10, 1 << 20, 0, 431},
		"240 fields":                 {240, 0, 0, 200},
		"270 fields":                 {270, 0, 0, 431},
		"an answer of 60 KiB":        {1, 1, 60 << 10, 200},
		"an answer of 70 KiB":        {1, 1, 70 << 10, 502},
		"an answer of 1 MiB":         {1, 1, 1 << 20, 502},
		"17 KiB and a long answer":   {1, 17 << 10, 1 << 20, 431},
		"fields and a long answer":   {270, 0, 1 << 20, 431},
		"both just within the limit": {200, 10 << 10, 50 << 10, 200},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := w.connect("198.51.100.5:443")
			if err != nil {
				t.Fatal(err)
			}
			conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, ServerName: "example.com", NextProtos: []string{"http/1.1"}})
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			fmt.Fprintf(conn, "GET /?answer=%d HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n%s\r\n", tt.answer, header(tt.fields, tt.long))
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || answer.StatusCode != tt.status {
				t.Fatalf("%+v, %v; want %d", answer, err, tt.status)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Error(err)
			}
			var fields, long int
			if _, err := fmt.Sscanf(string(body), "%d %d", &fields, &long); tt.status == 200 && (err != nil || fields < tt.fields || long != tt.long || len(answer.Header.Get("X-Long")) != tt.answer) {
				t.Errorf("%s: %q, %d bytes of an answer's field", name, body, len(answer.Header.Get("X-Long")))
			}
		})
	}
	// HTTP/2 counts 32 bytes more for each field.
	for fields, whole := range map[int]bool{50: true, 500: false} {
		conn, framer := w.framed(t)
		block := request(fields)
		for first := true; first || len(block) > 0; first = false {
			part := block[:min(len(block), 16<<10)]
			if block = block[len(part):]; first {
				err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: part, EndHeaders: len(block) == 0, EndStream: true})
				if err != nil {
					t.Fatal(err)
				}
				continue
			}
			if framer.WriteContinuation(1, len(block) == 0, part) != nil {
				break // it was ended
			}
		}
		framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		status := ""
		for status == "" {
			frame, err := framer.ReadFrame()
			if err != nil {
				status = "none"
			}
			if answer, ok := frame.(*http2.MetaHeadersFrame); ok {
				status = answer.PseudoValue("status")
			}
		}
		if (status == "200") != whole {
			t.Errorf("%d fields of HTTP/2: the status %s", fields, status)
		}
		conn.Close()
	}
}
