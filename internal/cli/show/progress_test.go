package show

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

func TestWorkingIsSilentWithoutATerminal(t *testing.T) {
	var shown bytes.Buffer
	Working(&shown, "saving")()
	if shown.Len() > 0 {
		t.Errorf("%q", shown.String())
	}
}
