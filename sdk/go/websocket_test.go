package sandkasten

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// peer is the daemon's end of a WebSocket.
type peer struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// serve returns a client whose daemon answers every request with a WebSocket that
// script has the other end of, and the target of the last request.
func serve(t *testing.T, script func(p *peer)) (c *Client, target func() string) {
	t.Helper()
	targets := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		targets <- r.URL.RequestURI()
		if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Authorization") != "Bearer key" {
			t.Errorf("the header is %v", r.Header)
		}
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + acceptKey))
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n",
			base64.StdEncoding.EncodeToString(sum[:]))
		script(&peer{conn, t, buffered.Reader})
	}))
	t.Cleanup(server.Close)
	c, err := New(Options{URL: server.URL, APIKey: "key", MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, func() string { return <-targets }
}

// send sends a frame: its first byte, and its length as short as can be. What a
// client hangs up on cannot be sent, which is not the script's concern.
func (p *peer) send(first byte, payload string) {
	head := []byte{first}
	switch size := len(payload); {
	case size < 126:
		head = append(head, byte(size))
	case size < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(size))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(size))
	}
	p.Write(append(head, payload...))
}

const (
	text   = 0x81
	binmsg = 0x82
)

// receive returns the client's next frame, and an empty one at the end.
func (p *peer) receive() (first byte, payload string) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(p.in, head); err != nil {
		return 0, ""
	}
	if head[1]&0x80 == 0 {
		p.t.Error("a frame of the client has no mask")
	}
	size := uint64(head[1] & 0x7f)
	long := make([]byte, map[uint64]int{126: 2, 127: 8}[size])
	io.ReadFull(p.in, long)
	for i, b := range long {
		if i == 0 {
			size = 0
		}
		size = size<<8 | uint64(b)
	}
	data := make([]byte, 4+size)
	if _, err := io.ReadFull(p.in, data); err != nil {
		return 0, ""
	}
	mask, body := data[:4], data[4:]
	for i := range body {
		body[i] ^= mask[i%4]
	}
	return head[0], string(body)
}

// wait returns when the client has gone.
func (p *peer) wait() {
	for first, _ := p.receive(); first != 0; {
		first, _ = p.receive()
	}
}

// echo sends back what the client sends.
func (p *peer) echo() {
	for {
		first, payload := p.receive()
		if first == 0 {
			return
		}
		p.send(first, payload)
	}
}

func tunnel(t *testing.T, script func(p *peer)) *Tunnel {
	t.Helper()
	c, target := serve(t, script)
	conn, err := c.Session("s1").DialPort(t.Context(), 3000)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if got := target(); got != "/v1/sessions/s1/tunnel?port=3000" {
		t.Errorf("the target is %s", got)
	}
	return conn
}

func TestMessagesOfAllSizes(t *testing.T) {
	conn := tunnel(t, (*peer).echo)
	for _, size := range []int{1, 125, 126, 127, 1<<16 - 1, 1 << 16, maxMessage, maxMessage + 1, 3 * maxMessage} {
		sent := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		wrote := make(chan error, 1)
		go func() {
			_, err := conn.Write(sent)
			wrote <- err
		}()
		got := make([]byte, size)
		if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes come back otherwise: %v", size, err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	}
}

func TestPiecesAndPings(t *testing.T) {
	pong := make(chan string, 1)
	conn := tunnel(t, func(p *peer) {
		p.send(0x02, "one ")
		p.send(0x89, "ping")
		p.send(0x00, "two ")
		p.send(0x8a, "a pong that nobody asked for")
		p.send(0x80, "three")
		first, payload := p.receive()
		pong <- fmt.Sprintf("%x %s", first, payload)
		p.send(binmsg, "")
		p.wait()
	})
	if got, err := io.ReadAll(conn); string(got) != "one two three" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if got := <-pong; got != "8a ping" {
		t.Errorf("the pong is %s", got)
	}
}

// TestAReaderDoesNotWaitForAWriter whose bytes the other end does not take: it might
// wait for what the reader is about to get.
func TestAReaderDoesNotWaitForAWriter(t *testing.T) {
	const big = 32 << 20
	was := make(chan struct{})
	pongs := make(chan int, 1)
	conn := tunnel(t, func(p *peer) {
		p.send(0x89, "there?")
		p.send(binmsg, "text")
		<-was
		got, pong := 0, 0
		for got < big || pong == 0 {
			switch first, payload := p.receive(); first {
			case 0:
				pongs <- pong
				return
			case 0x8a:
				pong++
			default:
				got += len(payload)
			}
		}
		pongs <- pong
	})
	wrote := make(chan error, 1)
	go func() {
		_, err := conn.Write(make([]byte, big))
		wrote <- err
	}()
	if _, err := io.ReadFull(conn, make([]byte, len("text"))); err != nil {
		t.Fatal(err)
	}
	close(was)
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if n := <-pongs; n != 1 {
		t.Errorf("%d pongs", n)
	}
}

// TestBrokenSockets: what is cut off or wrong is an error, and not the end.
func TestBrokenSockets(t *testing.T) {
	for name, tt := range map[string]struct {
		script func(p *peer)
		says   string
	}{
		"cut off":                {func(*peer) {}, "unexpected EOF"},
		"cut off in a frame":     {func(p *peer) { p.Write([]byte{binmsg, 5, 'a'}) }, "unexpected EOF"},
		"cut off in a length":    {func(p *peer) { p.Write([]byte{binmsg, 126, 1}) }, "unexpected EOF"},
		"closed":                 {func(p *peer) { p.send(0x88, "\x03\xf3too much") }, "1011 too much"},
		"closed without a word":  {func(p *peer) { p.send(0x88, "") }, "closed the connection"},
		"text":                   {func(p *peer) { p.send(text, "x") }, "sent text"},
		"a mask":                 {func(p *peer) { p.Write([]byte{binmsg, 0x81, 0, 0, 0, 0, 'a'}) }, "no daemon sends"},
		"an extension":           {func(p *peer) { p.send(binmsg|0x40, "x") }, "no daemon sends"},
		"an unknown kind":        {func(p *peer) { p.send(0x83, "x") }, "kind 3"},
		"a piece of nothing":     {func(p *peer) { p.send(0x80, "x") }, "kind 0"},
		"a message in another":   {func(p *peer) { p.send(0x02, "x"); p.send(binmsg, "y") }, "kind 2"},
		"a ping in pieces":       {func(p *peer) { p.send(0x09, "x") }, "no daemon sends"},
		"a long ping":            {func(p *peer) { p.send(0x89, strings.Repeat("x", 126)) }, "more than"},
		"a long message":         {func(p *peer) { p.send(binmsg, strings.Repeat("x", maxMessage+1)) }, "more than"},
		"a long message, pieces": {func(p *peer) { p.send(0x02, strings.Repeat("x", maxMessage)); p.send(0x80, "x") }, "more than"},
		"an endless message":     {func(p *peer) { p.Write([]byte("\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff")) }, "more than"},
	} {
		conn := tunnel(t, func(p *peer) {
			tt.script(p)
			if !strings.HasPrefix(name, "cut") {
				p.wait()
			}
		})
		_, err := io.ReadAll(conn)
		var broken *ConnectionError
		if !errors.As(err, &broken) || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if _, err := conn.Write([]byte("x")); err == nil {
			t.Errorf("%s: it can still be written", name)
		}
	}
}

func TestSilentSockets(t *testing.T) {
	c, _ := serve(t, (*peer).wait)
	c.silence = 10 * time.Millisecond
	conn, err := c.Session("s1").DialPort(t.Context(), 3000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, errStreamSilent) {
		t.Errorf("the error is %v", err)
	}
}

func TestSocketsEndWithTheirContext(t *testing.T) {
	c, _ := serve(t, (*peer).wait)
	ctx, cancel := context.WithCancelCause(t.Context())
	conn, err := c.Session("s1").DialPort(ctx, 3000)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	cancel(enough)
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, enough) {
		t.Errorf("the error is %v", err)
	}
}

func TestSocketsRefused(t *testing.T) {
	const nothing = `{"code": "not_found", "error": "nothing listens on port 3000"}`
	c, _ := start(t, answer{status: 404, body: nothing}, answer{status: 200, body: "{}"}, answer{
		status: 101, header: map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Accept": "x"},
	})
	s := c.Session("s1")
	if _, err := s.DialPort(t.Context(), 3000); !errors.Is(err, ErrNotFound) || err.Error() != "nothing listens on port 3000" {
		t.Errorf("the error is %v", err)
	}
	for range 2 {
		if _, err := s.DialPort(t.Context(), 3000); err == nil || !strings.Contains(err.Error(), "no WebSocket") {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestTunnelsHaveTwoEnds(t *testing.T) {
	last := make(chan string, 2)
	conn := tunnel(t, func(p *peer) {
		for range 2 {
			first, payload := p.receive()
			last <- fmt.Sprintf("%x %s", first, payload)
		}
		p.send(binmsg, "still here")
		p.send(binmsg, "")
		p.wait()
	})
	io.WriteString(conn, "hello")
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := <-last + ", " + <-last; got != "82 hello, 82 " {
		t.Errorf("the port got %s", got)
	}
	for range 2 { // the end stays the end
		if got, err := io.ReadAll(conn); err != nil || string(got) != "still here" && len(got) > 0 {
			t.Errorf("read %q, %v", got, err)
		}
	}
}
