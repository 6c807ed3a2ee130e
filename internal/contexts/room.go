package contexts

import "sync"

// A bridge is a program of the sandbox, and may be anybody's: what it says is in the daemon's
// memory until its line ends. Short lines do not count, since there are as many as requests.
const (
	shortLine   = 64 << 10
	roomOfAll   = 192 << 20
	roomOfOwner = 2 * lineLimit
	roomIsAsked = 1 << 20 // at a time
)

// room bounds the bytes of long lines that are being read: of an owner and of all.
type room struct {
	mu    sync.Mutex
	all   int64            // guarded by mu
	owned map[string]int64 // guarded by mu; none is 0
}

func newRoom() *room { return &room{owned: make(map[string]int64)} }

// take reports whether an owner may have n bytes more.
func (r *room) take(owner string, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all+n > roomOfAll || r.owned[owner]+n > roomOfOwner {
		return false
	}
	r.all += n
	r.owned[owner] += n
	return true
}

func (r *room) give(owner string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all -= n
	if r.owned[owner] -= n; r.owned[owner] == 0 {
		delete(r.owned, owner)
	}
}
