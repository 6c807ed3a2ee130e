package images

import (
	"io"
	"time"
)

const reportEvery = 100 * time.Millisecond

func (f ProgressFunc) report(p Progress) {
	if f != nil {
		f(p)
	}
}

// meter reports how much of r was read.
type meter struct {
	r      io.Reader
	now    Progress
	report ProgressFunc
	last   time.Time
}

func newMeter(r io.Reader, phase string, total int64, report ProgressFunc) *meter {
	return &meter{r: r, now: Progress{Phase: phase, Total: total}, report: report}
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.now.Done += int64(n)
	if now := time.Now(); err != nil || now.Sub(m.last) >= reportEvery {
		m.last = now
		m.report.report(m.now)
	}
	return n, err
}
