package findings_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/findings"
	"github.com/sandkasten/sandkasten/internal/fsck"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func healthy(context.Context) []doctor.Finding {
	return []doctor.Finding{{Check: "kernel", Status: doctor.OK, Found: "Linux"}}
}

func nothing(context.Context) ([]fsck.Difference, error) { return nil, nil }

func TestReport(t *testing.T) {
	e := findings.New(findings.Options{
		Doctor: func(ctx context.Context) []doctor.Finding {
			return append(healthy(ctx), doctor.Finding{Check: "swap", Status: doctor.Warn, Found: "on", Mend: "swapoff -a, or", Command: "swapoff -a"}, doctor.Finding{Check: "root", Status: doctor.Fail})
		},
		Fsck: func(context.Context) ([]fsck.Difference, error) {
			return []fsck.Difference{{What: "process", Where: "7"}, {What: "snapshot", Where: "abc", Expected: "its archive", Found: "none", Mend: "remove it", Command: "sandkasten snapshot rm abc", Grave: true}}, nil
		},
	})
	r, err := e.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.Findings {
		got = append(got, string(f.Severity)+" "+f.Source+" "+f.What+f.Command)
	}
	want := "fail doctor root, fail fsck snapshotsandkasten snapshot rm abc, warn doctor swapswapoff -a, warn fsck process"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestWhatCannotBeComparedIsAFinding(t *testing.T) {
	e := findings.New(findings.Options{Doctor: healthy, Fsck: func(context.Context) ([]fsck.Difference, error) { return nil, errors.New("the engine is away") }})
	r, err := e.Report(t.Context())
	if err != nil || len(r.Findings) != 1 || r.Findings[0].Severity != doctor.Fail || !strings.Contains(r.Findings[0].Found, "the engine is away") {
		t.Errorf("%+v, %v", r, err)
	}
}

// Many who ask at once and soon after cost one examination, and what has been mended is
// gone in the next.
func TestExaminationsAreFewAndFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var examined, atOnce, most atomic.Int64
		sick := atomic.Bool{}
		sick.Store(true)
		e := findings.New(findings.Options{Doctor: healthy, Fsck: func(context.Context) ([]fsck.Difference, error) {
			examined.Add(1)
			most.Store(max(most.Load(), atOnce.Add(1)))
			defer atOnce.Add(-1)
			time.Sleep(6 * time.Second)
			if sick.Load() {
				return []fsck.Difference{{What: "process"}}, nil
			}
			return nil, nil
		}})
		ask := func() int {
			r, err := e.Report(t.Context())
			if err != nil {
				t.Error(err)
			}
			return len(r.Findings)
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if n := ask(); n != 1 {
					t.Errorf("%d findings", n)
				}
			})
		}
		all.Wait()
		time.Sleep(9 * time.Second)
		if n := ask(); n != 1 || examined.Load() != 1 {
			t.Errorf("%d findings of %d examinations", n, examined.Load())
		}
		sick.Store(false)
		time.Sleep(2 * time.Second)
		if n := ask(); n != 0 || examined.Load() != 2 || most.Load() != 1 {
			t.Errorf("%d findings of %d examinations, %d at once", n, examined.Load(), most.Load())
		}
	})
}

// Who leaves does not wait, and the next has what was begun.
func TestLeavingDoesNotCutOffTheExamination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var examined atomic.Int64
		e := findings.New(findings.Options{Doctor: healthy, Fsck: func(ctx context.Context) ([]fsck.Difference, error) {
			examined.Add(1)
			select {
			case <-time.After(6 * time.Second):
				return nothing(ctx)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.Report(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		r, err := e.Report(t.Context())
		if err != nil || len(r.Findings) != 0 || examined.Load() != 1 {
			t.Errorf("%+v, %v, %d examinations", r, err, examined.Load())
		}
	})
}
