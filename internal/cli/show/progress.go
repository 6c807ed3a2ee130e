package show

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/sandkasten/sandkasten/internal/images"
)

// Progress shows a long operation on standard error: as a bar on a terminal,
// as one line per phase elsewhere.
type Progress struct {
	w     io.Writer
	live  bool
	phase string
	bar   *progressbar.ProgressBar
}

// NewProgress returns a Progress that has shown nothing yet.
func NewProgress(w io.Writer) *Progress {
	f, ok := w.(*os.File)
	return &Progress{w: w, live: ok && IsTerminal(f)}
}

// Show says how far it is.
func (p *Progress) Show(now images.Progress) {
	if now.Phase != p.phase {
		p.End()
		p.phase = now.Phase
		if p.live {
			p.bar = newBar(p.w, now)
		} else {
			// A progress that cannot be shown is no reason to stop.
			fmt.Fprintln(p.w, Printable(now.Phase)) //nolint:errcheck // see above
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
		progressbar.OptionSetDescription(Printable(now.Phase)),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

// End takes the bar away.
func (p *Progress) End() {
	if p.bar != nil {
		p.bar.Finish() //nolint:errcheck // see Show
		p.bar = nil
	}
	p.phase = ""
}

// Reading shows how far a stream is, if w is a terminal. done takes the bar away.
func Reading(w io.Writer, r io.ReadCloser, what string, total int64) (shown io.ReadCloser, done func()) {
	p := NewProgress(w)
	if !p.live || total == 0 {
		return r, func() {}
	}
	m := &metered{ReadCloser: r, p: p, now: images.Progress{Phase: what, Total: total}}
	return m, p.End
}

// metered shows what is read of a stream.
type metered struct {
	io.ReadCloser
	p   *Progress
	now images.Progress
}

func (m *metered) Read(b []byte) (int, error) {
	n, err := m.ReadCloser.Read(b)
	m.now.Done += int64(n)
	m.p.Show(m.now)
	return n, err
}

// Working shows, if w is a terminal, that something goes on whose progress nobody
// tells, and for how long. done takes that away.
func Working(w io.Writer, what string) (done func()) {
	if f, ok := w.(*os.File); !ok || !IsTerminal(f) {
		return func() {}
	}
	return spin(w, what, time.Second)
}

const clearLine = "\r\x1b[K"

// spin shows anew after each tick how long it has been.
func spin(w io.Writer, what string, tick time.Duration) (done func()) {
	begin, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	// What cannot be shown is no reason to stop.
	show := func(line string) { io.WriteString(w, clearLine+line) } //nolint:errcheck // see above
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			show(fmt.Sprintf("%s: %s", Printable(what), time.Since(begin).Round(time.Second)))
			select {
			case <-ticker.C:
			case <-stop:
				show("")
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}
