package testenv

import (
	"strings"
	"sync"
)

// Signaler is a writer that says when it has seen a text, however many writes
// the text comes in. Make it with NewSignaler.
type Signaler struct {
	Seen <-chan struct{} // closed once the text has been written

	want string
	mu   sync.Mutex
	text strings.Builder // guarded by mu
	once sync.Once
	seen chan struct{}
}

// NewSignaler returns a Signaler that waits for want.
func NewSignaler(want string) *Signaler {
	seen := make(chan struct{})
	return &Signaler{Seen: seen, want: want, seen: seen}
}

// Write implements io.Writer. It never fails.
func (s *Signaler) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	if strings.Contains(s.text.String(), s.want) {
		s.once.Do(func() { close(s.seen) })
	}
	return len(p), nil
}
