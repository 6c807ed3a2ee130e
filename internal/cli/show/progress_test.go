package show

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/images"
)

func TestSpinShowsTheTimeAndGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown bytes.Buffer
		done := spin(&shown, "saving", time.Second)
		time.Sleep(2500 * time.Millisecond)
		done()
		if got, want := shown.String(), "saving: 0s|saving: 1s|saving: 2s|"; got != clearLine+strings.ReplaceAll(want, "|", clearLine) {
			t.Errorf("%q", got)
		}
	})
}

// Without a terminal nobody waits for longer than 20 s for a sign of life.
func TestProgressInLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown bytes.Buffer
		p := NewProgress(&shown)
		p.Show(images.Progress{Phase: "packages"})
		time.Sleep(45 * time.Second)
		p.Show(images.Progress{Phase: "download", Done: 3 << 20, Total: 9 << 20})
		time.Sleep(21 * time.Second)
		p.End()
		time.Sleep(time.Minute)
		if want := "packages\npackages: 20s\npackages: 40s\ndownload\ndownload: 20s, 3 of 9 MB\n"; shown.String() != want {
			t.Errorf("%q, want %q", shown.String(), want)
		}
	})
}

func TestWorkingIsSilentWithoutATerminal(t *testing.T) {
	var shown bytes.Buffer
	Working(&shown, "saving")()
	if shown.Len() > 0 {
		t.Errorf("%q", shown.String())
	}
}
