package networks

import (
	"net"
	"testing"

	"github.com/sandkasten/sandkasten/protocol"
)

// What the daemon listens on in a sandbox is no port of the session's, and what a program
// opens there is, also beside it.
func TestTheDoorIsNoPortOfTheSession(t *testing.T) {
	stream, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	own := protocol.Port{Port: stream.Addr().(*net.TCPAddr).Port, Address: "127.0.0.1", Loopback: true}
	k := &Keeper{ways: map[string]*way{"s": {door: listening([]net.Listener{stream})}}}
	other := own
	other.Port++
	for _, tt := range []struct {
		session string
		port    protocol.Port
		want    bool
	}{{"s", own, true}, {"s", other, false}, {"s", protocol.Port{Port: own.Port, Address: "0.0.0.0"}, false}, {"without a network", own, false}} {
		if got := k.OfDoor(tt.session, tt.port); got != tt.want {
			t.Errorf("%s: %+v is the door's: %t", tt.session, tt.port, got)
		}
	}
}
