package browser

import (
	"crypto/sha256"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// What may fail before somebody has to wait: twice as long after each further
// failure, from one second on. Addresses have more: many people may come from one.
const (
	freeOfAccount = 5
	freeOfAddress = 20
	longestWait   = 15 * time.Minute
	forgetAfter   = time.Hour // without a failure
	maxCounted    = 10_000    // addresses, and names that nobody has
)

// throttle counts failures to sign in. The users who there are are always counted;
// of addresses and names that nobody has, one is forgotten for one too many.
type throttle struct {
	now func() time.Time

	mu        sync.Mutex
	known     map[string]*failures // guarded by mu; by account
	unknown   map[string]*failures // guarded by mu
	addresses map[string]*failures // guarded by mu
}

// failures are those of one account or address.
type failures struct {
	count int
	last  time.Time
	until time.Time // when the next attempt is heard
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, known: make(map[string]*failures), unknown: make(map[string]*failures), addresses: make(map[string]*failures)}
}

// The names by which accounts are counted. Names that nobody has may be long.
func knownAccount(id string) string { return "user " + id }

func unknownAccount(name string) string {
	sum := sha256.Sum256([]byte(name))
	return string(sum[:])
}

// outcome is how an attempt has ended.
type outcome int

const (
	passed     outcome = iota
	uncompared         // nothing was learned by it
)

// attempt is one that has begun. It fails unless it is told another outcome.
type attempt func(outcome)

// compared is the outcome of having compared a password, with an error or not.
func (a attempt) compared(err error) {
	switch {
	case err == nil:
		a(passed)
	case !errdefs.Is(err, errdefs.Unauthenticated):
		a(uncompared)
	}
}

// begin counts an attempt as one that fails until done says otherwise, so that many
// at once are no more than one after the other. It refuses those that have to wait,
// without a look at the password. An empty remote counts the account alone.
func (t *throttle) begin(account, remote string) (done attempt, err error) {
	if protection.Off(protection.SignInWait) {
		return func(outcome) {}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	address := addressOf(remote)
	var counted []*failures
	if address != "" {
		counted = append(counted, entry(t.addresses, address, now, maxCounted))
	}
	switch {
	case account == "":
	case len(account) == sha256.Size:
		counted = append(counted, entry(t.unknown, account, now, maxCounted))
	default:
		counted = append(counted, entry(t.known, account, now, 0))
	}
	for _, f := range counted {
		if wait := f.until.Sub(now); wait > 0 {
			return nil, &Throttled{Wait: wait, err: errdefs.New(errdefs.ResourceExhausted,
				"too many attempts to sign in have failed; wait for %d s and try again", int(wait/time.Second)+1)}
		}
	}
	for _, f := range counted {
		free := freeOfAccount
		if f == t.addresses[address] {
			free = freeOfAddress
		}
		f.fail(now, free)
	}
	return func(how outcome) { t.done(account, address, how) }, nil
}

// entry returns the failures of a name, which it makes. most is how many there may
// be; 0 is any number.
func entry(all map[string]*failures, name string, now time.Time, most int) *failures {
	f := all[name]
	if f != nil && now.Sub(f.last) < forgetAfter {
		return f
	}
	if f == nil && most > 0 && len(all) >= most {
		for other := range all {
			delete(all, other) // whichever comes first: nobody chooses it
			break
		}
	}
	f = &failures{last: now}
	all[name] = f
	return f
}

func (f *failures) fail(now time.Time, free int) {
	f.count++
	f.last = now
	if over := f.count - free; over >= 0 {
		f.until = now.Add(min(longestWait, time.Second<<min(over, 20)))
	}
}

// done takes back the one failure that begin has counted, and forgets those of an
// account whose password is known.
func (t *throttle) done(account, address string, how outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addresses[address].takeBack(freeOfAddress)
	if how == passed {
		delete(t.known, account)
		return
	}
	t.known[account].takeBack(freeOfAccount)
	t.unknown[account].takeBack(freeOfAccount)
}

func (f *failures) takeBack(free int) {
	if f == nil || f.count == 0 {
		return
	}
	if f.count--; f.count < free {
		f.until = time.Time{}
	}
}

// addressOf is what attempts of one remote are counted by: all of an IPv6 network
// that one customer has are one.
func addressOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}
