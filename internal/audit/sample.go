package audit

import (
	"net"
	"sync"
	"time"
)

// Bounds of what those without a key can have written, in each window.
const (
	sampleWindow     = time.Minute
	samplePerHost    = 10
	sampleAltogether = 30
)

// Sampler chooses which events of strangers are worth a line, and counts the
// others: whoever needs no key must not decide how long a log goes back. The zero
// value is ready for use.
type Sampler struct {
	mu    sync.Mutex
	began time.Time      // guarded by mu
	taken int            // guarded by mu; in the window
	hosts map[string]int // guarded by mu; of them, by host
	left  int64          // guarded by mu; not told yet
}

// Take reports whether an event of a remote address gets a line.
func (s *Sampler) Take(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.hosts == nil || now.Sub(s.began) >= sampleWindow {
		s.began, s.taken, s.hosts = now, 0, make(map[string]int)
	}
	if s.taken >= sampleAltogether || s.hosts[host] >= samplePerHost {
		s.left++
		return false
	}
	s.taken++
	s.hosts[host]++
	return true
}

// Leave counts an event that was to have a line and got none.
func (s *Sampler) Leave(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += n
}

// Left returns how many events got no line since it last said so, once a window
// has ended, and 0 before.
func (s *Sampler) Left() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 || time.Since(s.began) < sampleWindow {
		return 0
	}
	left := s.left
	s.left = 0
	return left
}
