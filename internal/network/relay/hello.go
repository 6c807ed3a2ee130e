package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

// recordHandshake is the first byte of TLS. Source: RFC 8446, section 5.1.
const recordHandshake = 0x16

// alertAccessDenied is a fatal alert of TLS, access_denied. Source: RFC 8446,
// sections 5.1 and 6.2.
var alertAccessDenied = []byte{0x15, 3, 3, 0, 2, 2, 49}

// extensionECH is encrypted_client_hello. Source: RFC 9849.
const extensionECH = 0xfe0d

// maxHello bounds what is read for a client hello.
const maxHello = 64 << 10

// hello is what a client says of itself before TLS begins.
type hello struct {
	name      string // the host that it wants, or ""
	encrypted bool   // there may be another one
}

var errHelloRead = errors.New("the hello has been read")

// readHello reads a client hello and returns it with all bytes that were read,
// first among them.
func readHello(ctx context.Context, conn net.Conn, first []byte) (found hello, read []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	recording := &recorded{Conn: conn}
	recording.from = io.TeeReader(io.LimitReader(io.MultiReader(bytes.NewReader(first), conn), maxHello), &recording.read)
	server := tls.Server(recording, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			found = hello{name: info.ServerName, encrypted: slices.Contains(info.Extensions, extensionECH)}
			return nil, errHelloRead
		},
	})
	err = server.HandshakeContext(ctx)
	if deadline := conn.SetDeadline(time.Time{}); deadline != nil && errors.Is(err, errHelloRead) {
		return hello{}, recording.read.Bytes(), deadline
	}
	if !errors.Is(err, errHelloRead) {
		return hello{}, recording.read.Bytes(), errors.New("its TLS cannot be read")
	}
	return found, recording.read.Bytes(), nil
}

// recorded is a connection of which every byte is kept that is read, and that
// nothing is written on.
type recorded struct {
	net.Conn

	from io.Reader
	read bytes.Buffer
}

func (r *recorded) Read(p []byte) (int, error)  { return r.from.Read(p) }
func (r *recorded) Write(p []byte) (int, error) { return len(p), nil }

// Close ends a read, and leaves the connection to whoever goes on with it.
func (r *recorded) Close() error { return r.SetReadDeadline(time.Unix(1, 0)) }
