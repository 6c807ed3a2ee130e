package show

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/sandkasten/sandkasten/internal/images"
)

// Progress shows a long operation on standard error: as a bar on a terminal, elsewhere as
// a line per phase and another one whenever nothing was written for a while.
type Progress struct {
	w    io.Writer
	live bool
	bar  *progressbar.ProgressBar

	mu    sync.Mutex
	now   images.Progress // guarded by mu
	began time.Time       // guarded by mu; of the phase
	quiet *time.Timer     // guarded by mu; nil while no phase is shown in lines
}

// quietTime is how long lines wait for the next phase: somebody who sees nothing for
// longer takes the operation for one that hangs.
const quietTime = 20 * time.Second

// NewProgress returns a Progress that has shown nothing yet.
func NewProgress(w io.Writer) *Progress {
	f, ok := w.(*os.File)
	return &Progress{w: w, live: ok && IsTerminal(f)}
}

// Show says how far it is.
func (p *Progress) Show(now images.Progress) {
	p.mu.Lock()
	next := now.Phase != p.now.Phase
	p.mu.Unlock()
	if next {
		p.End()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = now
	switch {
	case !p.live && next:
		p.began = time.Now()
		p.print(Printable(now.Phase))
		p.quiet = time.AfterFunc(quietTime, p.stillThere)
	case next:
		p.bar = newBar(p.w, now)
	}
	if p.bar != nil {
		p.bar.Set64(now.Done) //nolint:errcheck // see print
	}
}

// print writes a line. A progress that cannot be shown is no reason to stop.
func (p *Progress) print(line string) { fmt.Fprintln(p.w, line) } //nolint:errcheck // see above

// stillThere says that the phase goes on.
func (p *Progress) stillThere() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet == nil {
		return
	}
	line := fmt.Sprintf("%s: %s", Printable(p.now.Phase), time.Since(p.began).Round(time.Second))
	switch {
	case p.now.Total > 0:
		line += fmt.Sprintf(", %d of %d MB", p.now.Done>>20, p.now.Total>>20)
	case p.now.Done > 0:
		line += fmt.Sprintf(", %d MB", p.now.Done>>20)
	}
	p.print(line)
	p.quiet.Reset(quietTime)
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

// End takes the bar away, and ends the lines.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Finish() //nolint:errcheck // see print
		p.bar = nil
	}
	if p.quiet != nil {
		p.quiet.Stop()
		p.quiet = nil
	}
	p.now.Phase = ""
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
