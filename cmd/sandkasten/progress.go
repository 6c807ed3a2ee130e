package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/sandkasten/sandkasten/internal/images"
)

// progress shows a long operation on standard error: as a bar on a terminal,
// as one line per phase elsewhere.
type progress struct {
	w     io.Writer
	live  bool
	phase string
	bar   *progressbar.ProgressBar
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, live: ok && isTerminal(f)}
}

func (p *progress) show(now images.Progress) {
	if now.Phase != p.phase {
		p.end()
		p.phase = now.Phase
		if p.live {
			p.bar = newBar(p.w, now)
		} else {
			// A progress that cannot be shown is no reason to stop.
			fmt.Fprintln(p.w, printable(now.Phase)) //nolint:errcheck // see above
		}
	}
	if p.bar != nil {
		p.bar.Set64(now.Done) //nolint:errcheck // see above
	}
}

func newBar(w io.Writer, now images.Progress) *progressbar.ProgressBar {
	total := now.Total
	if total <= 0 {
		total = -1 // a spinner
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(printable(now.Phase)),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Finish() //nolint:errcheck // see show
		p.bar = nil
	}
	p.phase = ""
}
