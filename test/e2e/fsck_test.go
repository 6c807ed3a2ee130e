package e2e

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// What a daemon is just making, stopping and removing is no difference.
func TestFsckBesideADaemonUnderLoad(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	d := blackbox.Start(t, blackbox.Options{})
	var work sync.WaitGroup
	var done atomic.Bool
	var rounds atomic.Int64
	for range 3 {
		work.Go(func() {
			for !done.Load() {
				id := d.Output("create", "base")
				d.Output("exec", id, "true")
				d.Output("stop", id)
				d.Output("start", id)
				d.Output("rm", id)
				rounds.Add(1)
			}
		})
	}
	client := d.Client(d.Key)
	for i := range 5 {
		if i%2 == 1 { // the daemon looks at itself
			report, err := client.HostFindings(t.Context())
			if err != nil {
				t.Error(err)
			}
			for _, f := range report.Findings {
				if f.Source == "fsck" {
					t.Errorf("the daemon under load: %+v", f)
				}
			}
			continue
		}
		if got := d.Output("fsck"); got != "Nothing differs." {
			t.Errorf("under load:\n%s", got)
		}
	}
	done.Store(true)
	work.Wait()
	t.Logf("%d sessions came and went", rounds.Load())
	if got := d.Output("fsck"); got != "Nothing differs." {
		t.Errorf("at rest:\n%s", got)
	}
}
