package runnerclient_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestDialPort(t *testing.T) {
	c, _ := newClient(t, func(l *link) {
		h := l.expect(protocol.TypeDial)
		var d protocol.Dial
		if err := h.Decode(&d); err != nil || d.Port != 3000 {
			t.Errorf("%+v, %v", d, err)
		}
		l.send(protocol.TypeError, protocol.Refuse(protocol.CodeNotFound, "nothing listens"), "")
		l.expect(protocol.TypeDial) // on the same connection
		l.raw(`{"type":"ok"}` + "\n" + "220 hello\n")
		got := make([]byte, 5)
		if _, err := io.ReadFull(l, got); err != nil || string(got) != "quit\n" {
			t.Errorf("%q, %v", got, err)
		}
	})
	if _, err := c.DialPort(t.Context(), 3000); !errdefs.Is(err, errdefs.NotFound) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := c.DialPort(ctx, 3000)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel() // is for the dialling only
	banner := make([]byte, 10)
	if _, err := io.ReadFull(conn, banner); err != nil || string(banner) != "220 hello\n" {
		t.Errorf("%q, %v", banner, err)
	}
	if _, err := io.WriteString(conn, "quit\n"); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(banner); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// TestHostilePorts answers as no honest runner does.
func TestHostilePorts(t *testing.T) {
	list := func(ports ...protocol.Port) func(*link) {
		return func(l *link) { l.send(protocol.TypePortList, protocol.PortList{Ports: ports}, "") }
	}
	for name, answer := range map[string]func(*link){
		"port 0":         list(protocol.Port{Address: "::"}),
		"port 65536":     list(protocol.Port{Port: 65536, Address: "::"}),
		"no address":     list(protocol.Port{Port: 1}),
		"a name":         list(protocol.Port{Port: 1, Address: "localhost"}),
		"a zone":         list(protocol.Port{Port: 1, Address: "fe80::1%\x1b[2J"}),
		"not loopback":   list(protocol.Port{Port: 1, Address: "127.0.0.1"}),
		"another answer": func(l *link) { l.send(protocol.TypeOK, nil, "") },
		"endless": func(l *link) {
			l.raw(`{"type":"port_list","body":{"ports":[` + strings.Repeat(" ", protocol.MaxHeader+4096))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newClient(t, func(l *link) {
				l.expect(protocol.TypePorts)
				answer(l)
				l.hold()
			})
			if got, err := c.Ports(t.Context()); !errors.Is(err, runnerclient.ErrProtocol) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
