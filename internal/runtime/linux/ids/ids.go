// Package ids hands out blocks of host user and group ids, one per sandbox,
// so that no two sandboxes share the kernel's per-user accounts and an id
// found anywhere on the host belongs to one sandbox.
//
// A daemon leases spans of many blocks through locked directories in one that all
// daemons of the host see, so that they do not collide; which blocks of a span are
// in use it knows from its sandboxes' own records. In the directory of a span is an
// empty one with the owner's name: so the tree of control groups can have leases,
// which is the host's also where each daemon has a /run of its own.
package ids

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Size of a block. The first 65,535 ids are the sandbox's 0..65534; the last
// is the runner's, which the sandbox cannot name.
const Size = 65536

// Mapped is how many ids of a block the sandbox can name.
const Mapped = Size - 1

// The range that blocks come from: above what distributions, containers and
// directory services use, below the sign bit that some tools trip over.
const (
	first     = 0x70000000
	spanSize  = 128 // blocks
	spanCount = (0x7FFF0000 - first) / Size / spanSize
)

// Blocks is how many there are on a host, for all daemons together.
const Blocks = spanCount * spanSize

// ErrExhausted is Take's error when every block is in use.
var ErrExhausted = fmt.Errorf("all %d id blocks of this host are in use", Blocks)

// Base is the first id of a block.
type Base int

// Runner is the id of the block that is not mapped into the sandbox.
func (b Base) Runner() int { return int(b) + Size - 1 }

// Pool hands out the blocks of one daemon.
type Pool struct {
	dir     string
	owner   string
	mayTake func(owner string) bool

	mu    sync.Mutex
	spans []span        // guarded by mu
	used  map[Base]bool // guarded by mu
	next  int           // guarded by mu; where to look first: a block rests before it is used again
}

type span struct {
	number int
	lock   *os.File // the directory; holds the lease while it is open
}

// Open uses dir, which is made when absent and should be emptied by a reboot.
// owner, a name for a directory, is kept in the leases; mayTake decides whether one that a former owner
// no longer holds may be taken over, which it may not while its sandboxes live. Spans are leased
// when they are needed, by Hold and Take: what an earlier pool of the owner's left is its to lease then.
func Open(dir, owner string, mayTake func(owner string) bool) (*Pool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &Pool{dir: dir, owner: owner, mayTake: mayTake, used: map[Base]bool{}}, nil
}

// Close lets go of the leases. Blocks that are in use stay the owner's.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, s := range p.spans {
		errs = append(errs, s.lock.Close())
	}
	p.spans = nil
	return errors.Join(errs...)
}

// Hold marks a block as used: by a sandbox that an earlier daemon made. The
// span that it is in is leased too, if nobody else has it. What is not the
// base of a block is refused.
func (p *Pool) Hold(b Base) error {
	block := (int(b) - first) / Size
	if int(b) < first || (int(b)-first)%Size != 0 || block >= Blocks {
		return fmt.Errorf("%d is not the first id of a block", b)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[b] = true
	_, err := p.lease(block / spanSize)
	return err
}

// Take reserves a block until Free.
func (p *Pool) Take() (Base, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, ok := p.free(); ok {
		return b, nil
	}
	for n := range spanCount {
		ok, err := p.lease(n)
		if err != nil {
			return 0, fmt.Errorf("lease ids: %w", err)
		}
		if ok {
			p.next = (len(p.spans) - 1) * spanSize
			if b, ok := p.free(); ok {
				return b, nil
			}
		}
	}
	return 0, ErrExhausted
}

// free finds an unused block in the leased spans and marks it. Called with mu.
func (p *Pool) free() (Base, bool) {
	total := len(p.spans) * spanSize
	for i := range total {
		at := (p.next + i) % total
		b := Base(first + (p.spans[at/spanSize].number*spanSize+at%spanSize)*Size)
		if !p.used[b] {
			p.used[b] = true
			p.next = at + 1
			return b, true
		}
	}
	return 0, false
}

// Free gives a block back. Giving back one that is free is no error.
func (p *Pool) Free(b Base) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, b)
}

func (p *Pool) path(n int) string { return filepath.Join(p.dir, strconv.Itoa(n)) }

// lease tries to take span n and reports whether it could.
func (p *Pool) lease(n int) (bool, error) {
	if err := os.Mkdir(p.path(n), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	f, err := os.Open(p.path(n))
	if err != nil {
		return false, err
	}
	taken, err := p.leaseDir(f)
	if !taken {
		return false, errors.Join(err, f.Close())
	}
	p.spans = append(p.spans, span{n, f})
	return true, nil
}

func (p *Pool) leaseDir(f *os.File) (bool, error) {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if err == unix.EWOULDBLOCK {
			return false, nil // its daemon runs, or it is ours already
		}
		return false, os.NewSyscallError("flock", err)
	}
	owner, err := ownerOf(f.Name())
	if err != nil {
		return false, err
	}
	if owner == p.owner {
		return true, nil
	}
	if owner != "" {
		if !p.mayTake(owner) {
			return false, nil
		}
		if err := os.Remove(filepath.Join(f.Name(), owner)); err != nil {
			return false, err
		}
	}
	err = os.Mkdir(filepath.Join(f.Name(), p.owner), 0o700)
	return err == nil, err
}

// ownerOf reads whose a span is by its directory; "" is nobody's.
func ownerOf(span string) (string, error) {
	entries, err := os.ReadDir(span)
	for _, e := range entries {
		if e.IsDir() {
			return e.Name(), nil
		}
	}
	return "", err
}

// Span is the number of the lease that an id of a block belongs to. ok is false
// for an id of no block.
func Span(id int) (n int, ok bool) {
	if id < first || id >= first+Blocks*Size {
		return 0, false
	}
	return (id - first) / Size / spanSize, true
}

// Owners reads who has which span, by the leases in dir. It takes none.
func Owners(dir string) (map[int]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nobody has any
	}
	owners := make(map[int]string, len(entries))
	for _, e := range entries {
		n, bad := strconv.Atoi(e.Name())
		if bad != nil {
			continue
		}
		owner, readErr := ownerOf(filepath.Join(dir, e.Name()))
		if owner != "" {
			owners[n] = owner
		}
		err = errors.Join(err, readErr)
	}
	return owners, err
}
