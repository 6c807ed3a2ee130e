package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// hold tells the runner to hold its programs or not, or asks with nil.
func (p *peer) hold(on *bool) bool {
	p.t.Helper()
	var held protocol.Held
	must(p.t, p.out.Send(protocol.TypeHold, protocol.Hold{On: on}, nil))
	must(p.t, p.reply(protocol.TypeHeld, &held))
	return held.On
}

// TestHold: while programs are held none is started, by whatever way, what has
// run out of time is not touched, and files are served. Then all goes on.
func TestHold(t *testing.T) {
	h := newHost(t)
	on, off := true, false
	p := h.dial()
	running := h.dial()
	running.start(protocol.Exec{TimeoutMS: 2000}, `trap 'touch "$HOME/asked"' TERM; while :; do sleep 0.01; done`)
	for range 2 {
		if !p.hold(&on) {
			t.Error("not held")
		}
	}
	inShell, direct := h.dial(), h.dial()
	inShell.start(protocol.Exec{Shell: "new"}, "touch shell; echo shell")
	direct.ask(protocol.Start{}, nil, "", "sh", "-c", "touch direct; echo direct")
	time.Sleep(2500 * time.Millisecond) // what must not happen has no event
	for _, name := range []string{"asked", "shell", "direct"} {
		if _, err := os.Stat(filepath.Join(h.workspace, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, want none", name, err)
		}
	}
	must(t, p.write(protocol.Write{Path: "file"}, []byte("text")))
	if !p.hold(nil) || p.hold(&off) || p.hold(nil) {
		t.Error("it does not say what it was told last")
	}
	for want, peer := range map[string]*peer{"shell\n": inShell, "direct\n": direct} {
		if r, err := peer.finish(); err != nil || string(r.output) != want || r.ExitCode != 0 {
			t.Errorf("%q: %+v, %v", want, r, err)
		}
	}
	if r, err := running.finish(); err != nil || r.Cause != protocol.CauseTimeout {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCloseHeld: a runner that is closed, as at the end of this test, waits for
// nobody to let it go on.
func TestCloseHeld(t *testing.T) {
	h := newHost(t)
	on := true
	p := h.dial()
	if !p.hold(&on) {
		t.Error("not held")
	}
	h.dial().start(protocol.Exec{Shell: "new"}, "true")
	h.dial().ask(protocol.Start{}, nil, "", "true")
	if !p.hold(nil) {
		t.Error("not held any more")
	}
}
