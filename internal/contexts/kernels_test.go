package contexts_test

import (
	"os"
	"testing"

	"github.com/sandkasten/sandkasten/internal/contexts"
	"github.com/sandkasten/sandkasten/internal/session"
)

// TestQueuedRunTellsItsID: a client that waits for others knows by which id to ask.
func TestQueuedRunTellsItsID(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	c, err := d.Create(t.Context(), everyone, id, contexts.CreateRequest{Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	release := t.TempDir() + "/release"
	first, second := make(chan string, 1), make(chan string, 1)
	done := make(chan error, 2)
	run := func(code string, began chan string) {
		_, _, err := d.Run(t.Context(), everyone, id, c.ID, contexts.RunRequest{Code: code}, &contexts.Watch{
			Begin: func(_, run string) error { began <- run; return nil },
			Event: func(int64, contexts.Event) error { return nil },
		})
		done <- err
	}
	go run("import os, time\nwhile not os.path.exists('"+release+"'): time.sleep(.01)", first)
	holder := <-first
	go run("1", second)
	waiting := <-second // although the first goes on
	if _, a, err := d.Look(t.Context(), everyone, id, c.ID, waiting); err != nil || a.Cause != contexts.CauseRunning {
		t.Errorf("%+v, %v", a, err)
	}
	if _, a, err := d.Look(t.Context(), everyone, id, c.ID, holder); err != nil || a.Cause != contexts.CauseRunning {
		t.Errorf("the first has ended: %+v, %v", a, err)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestNewKernelIsTold: an answer says when its kernel is not the one that ran before,
// also where the context is another one.
func TestNewKernelIsTold(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	tests := []struct {
		name string
		ends func(t *testing.T, id session.ID)
	}{
		{"a kernel that is killed", func(t *testing.T, id session.ID) { d.run(t, id, "import os; os.kill(os.getpid(), 9)") }},
		{"a kernel that is killed between runs", func(t *testing.T, id session.ID) {
			d.run(t, id, "import os, subprocess; _ = subprocess.Popen(['sh', '-c', f'sleep 0.2; kill -9 {os.getpid()}'])")
		}},
		{"a bridge that is killed", func(t *testing.T, id session.ID) { d.run(t, id, "import os; os.kill(os.getppid(), 9)") }},
		{"a restart", func(t *testing.T, id session.ID) {
			if _, err := d.Restart(t.Context(), everyone, id, "default-python"); err != nil {
				t.Fatal(err)
			}
		}},
		{"a deletion", func(t *testing.T, id session.ID) {
			if err := d.Delete(t.Context(), everyone, id, "default-python"); err != nil {
				t.Fatal(err)
			}
		}},
		{"a stop", func(t *testing.T, id session.ID) {
			if _, err := d.manager.Sessions.Stop(t.Context(), everyone, id); err != nil {
				t.Fatal(err)
			}
			if _, err := d.manager.Sessions.Start(t.Context(), everyone, id); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			id := h.session(t, d)
			if a := d.run(t, id, "x = 1"); a.NewKernel {
				t.Errorf("the first run: %+v", a)
			}
			if a := d.run(t, id, "x"); mainText(a) != "1" || a.NewKernel {
				t.Errorf("the second run: %+v", a)
			}
			test.ends(t, id)
			for range 50 { // until the end has been seen
				if a := d.run(t, id, "'x' in globals()"); mainText(a) == "False" {
					if !a.NewKernel {
						t.Errorf("%+v", a)
					}
					break
				}
			}
			if a := d.run(t, id, "'x' in globals()"); mainText(a) != "False" || a.NewKernel {
				t.Errorf("the run behind: %+v", a)
			}
		})
	}
}

// TestPeakMemory holds that an answer has the memory of its own run, also of a kernel
// that was killed in it.
func TestPeakMemory(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	const large = 200 << 20
	if a := d.run(t, id, "1"); a.PeakMemory < 10<<20 || a.PeakMemory > large {
		t.Errorf("an idle kernel: %d", a.PeakMemory)
	}
	if a := d.run(t, id, "b = b'x' * (200 << 20); del b"); a.PeakMemory < large {
		t.Errorf("with 200 MiB: %d", a.PeakMemory)
	}
	if a := d.run(t, id, "1"); a.PeakMemory > large {
		t.Errorf("behind that: %d", a.PeakMemory)
	}
	if a := d.run(t, id, "b = b'x' * (200 << 20); import os; os.kill(os.getpid(), 9)"); a.Cause != contexts.CauseKernelDied || a.PeakMemory < large {
		t.Errorf("killed: %+v", a)
	}
}

// TestPlotlyChart: a figure of plotly is its JSON, in which arrays may be base64.
func TestPlotlyChart(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	show := func(figure string) *contexts.Chart {
		t.Helper()
		a := d.run(t, id, "nan = float('nan')\ndisplay({'application/vnd.plotly.v1+json': "+figure+"}, raw=True)")
		if len(a.Results) != 1 || a.Cause != contexts.CauseCompleted {
			t.Fatalf("%+v %+v", a, a.Error)
		}
		return a.Results[0].Chart
	}
	chart := show(`{"data": [
		{"type": "scatter", "mode": "lines", "name": "growth", "x": {"dtype": "i1", "bdata": "AAEC"}, "y": [1.5, None, 2**60]},
		{"type": "bar", "orientation": "h", "x": [1], "y": ["k"]}],
		"layout": {"title": {"text": "T"}, "xaxis": {"title": {"text": "X"}}, "yaxis": {"type": "log"}}}`)
	if chart == nil || chart.Library != "plotly" || chart.Type != "mixed" || chart.Title != "T" || len(chart.Axes) != 1 {
		t.Fatalf("%+v", chart)
	}
	axes := chart.Axes[0]
	if line := axes.Series[0]; line.Type != "line" || line.Label != "growth" || line.Points != 3 || line.X[2] != 2.0 || line.Y[1] != nil || line.Y[2] != "1152921504606846976" {
		t.Errorf("%+v", line)
	}
	if bar := axes.Series[1]; bar.Type != "horizontal_bar" || bar.X[0] != "k" || bar.Y[0] != 1.0 || axes.XLabel != "X" || axes.YScale != "log" {
		t.Errorf("%+v, %+v", bar, axes)
	}
	if pie := show(`{"data": [{"type": "pie", "labels": ["p", "q"], "values": [1, 3]}]}`); pie == nil || pie.Type != "pie" || pie.Axes[0].Series[0].Y[1] != 0.75 {
		t.Errorf("%+v", pie)
	}
	for _, none := range []string{`{"data": 5}`, `{"data": [5]}`, `{"data": [{"x": {"dtype": "x", "bdata": "!"}}]}`, `{"data": [{"type": "heatmap", "z": 3}]}`} {
		if chart := show(none); chart != nil {
			t.Errorf("%s is %+v", none, chart)
		}
	}
}
