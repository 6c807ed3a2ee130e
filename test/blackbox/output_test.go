package blackbox

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestOutputTellsWhoHasIt(t *testing.T) {
	var to log
	o, err := newOutput(&to)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "echo said >&2; exec sleep 1000")
	cmd.Stderr = o.w
	err = cmd.Start()
	o.started()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // by the signal
	})
	if err := o.await(100 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "sleep 1000") {
		t.Errorf("%v; want it to name the process", err)
	}
	if to.text() != "said\n" {
		t.Errorf("copied is %q", to.text())
	}
}
