// Package ids hands out blocks of host user and group ids, one per sandbox,
// so that no two sandboxes share the kernel's per-user accounts and an id
// found anywhere on the host belongs to one sandbox.
//
// A daemon leases spans of many blocks through locked directories in one that all
// daemons of the host see, so that they do not collide; which blocks of a span are
// in use it knows from its sandboxes' own records. In the directory of a span is an
// empty one with the owner's name, the mark, while there may be sandboxes with its ids: so the
// tree of control groups can have leases, which is the host's also where each daemon has a
// /run of its own. A span without sandboxes is nobody's: see Rest, Settle and Close.
package ids

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// Spans is how many leases there are on a host, each of SpanBlocks blocks.
const (
	Spans      = spanCount
	SpanBlocks = spanSize
)

// Blocks is how many there are on a host, for all daemons together.
const Blocks = spanCount * spanSize

// ErrExhausted is what every ExhaustedError is.
var ErrExhausted = errors.New("no block of ids is free")

// ExhaustedError is Take's error when there is no block that this pool could have.
type ExhaustedError struct {
	Used   int            // blocks of this pool that are in use
	Own    int            // spans that this pool has
	Others map[string]int // spans that it could not lease, by the name of who has them
}

// Elsewhere is how many spans others have.
func (e *ExhaustedError) Elsewhere() (spans int) {
	for _, n := range e.Others {
		spans += n
	}
	return spans
}

// Error is for who operates the host: it names all who have spans.
func (e *ExhaustedError) Error() string {
	text := fmt.Sprintf("%v: this installation has %d of %d spans of %d blocks, and uses %d blocks", ErrExhausted, e.Own, Spans, SpanBlocks, e.Used)
	for _, owner := range slices.Sorted(maps.Keys(e.Others)) {
		text += fmt.Sprintf("; installation %s has %d", owner, e.Others[owner])
	}
	return text
}

// Is reports whether target is ErrExhausted.
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// Base is the first id of a block.
type Base int

// Runner is the id of the block that is not mapped into the sandbox.
func (b Base) Runner() int { return int(b) + Size - 1 }

// InUse reports whether a sandbox lives, or may live, that has an id of a span which an
// owner has left its mark on: of says which ids these are. It is asked with the lease held.
type InUse func(owner string, of func(id int) bool) bool

// Pool hands out the blocks of one daemon.
type Pool struct {
	dir   string
	owner string
	inUse InUse

	mu    sync.Mutex
	spans []*span        // guarded by mu; by number
	used  map[Base]bool  // guarded by mu
	count [spanCount]int // guarded by mu; of used, by span
	next  [spanCount]int // guarded by mu; where to look first: a block rests before it is used again
}

type span struct {
	number  int
	lock    *os.File // the directory; holds the lease while it is open
	resting bool     // no block was in use at the last Rest, or since
}

// Open uses dir, which is made when absent and should be emptied by a reboot.
// owner, a name for a directory, is kept in the leases; inUse decides whether one that a former owner
// no longer holds may be taken over, which it may not while its sandboxes live. Spans are leased
// when they are needed, by Hold and Take: what an earlier pool of the owner's left is its to lease
// then, until Settle.
func Open(dir, owner string, inUse InUse) (*Pool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &Pool{dir: dir, owner: owner, inUse: inUse, used: map[Base]bool{}}, nil
}

// Close lets go of the leases. Blocks that are in use stay the owner's, and with them the
// spans that they are in; the others are anybody's.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, s := range p.spans {
		if p.count[s.number] == 0 {
			errs = append(errs, p.unmark(s.lock))
		}
		errs = append(errs, s.lock.Close())
	}
	p.spans = nil
	return errors.Join(errs...)
}

// Hold marks a block as used: by a sandbox that an earlier daemon made. The
// span that it is in is leased too, if nobody else has it. What is not the
// base of a block is refused.
func (p *Pool) Hold(b Base) error {
	n, ok := Span(int(b))
	if !ok || (int(b)-first)%Size != 0 {
		return fmt.Errorf("%d is not the first id of a block", b)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.use(b)
	if p.leased(n) {
		return nil
	}
	_, err := p.lease(n)
	return err
}

// Settle gives up what an earlier pool of the owner's has left, but for the spans of blocks
// that are held, that another pool has, or that sandboxes live in of which nobody has told.
// It comes after Hold of all blocks.
func (p *Pool) Settle() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for n := range spanCount {
		if !p.leased(n) {
			errs = append(errs, p.abandon(n))
		}
	}
	return errors.Join(errs...)
}

// abandon gives up a span that may be the owner's and is nobody's lease.
func (p *Pool) abandon(n int) (err error) {
	f, err := os.Open(p.path(n))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if ok, err := lock(f); !ok {
		return err
	}
	owner, err := ownerOf(f.Name())
	if err != nil || owner != p.owner || p.inUse(owner, ofSpan(n)) {
		return err
	}
	return p.unmark(f)
}

// Rest gives back the spans in which no block was in use since the call before. It is to be
// called from time to time: a sandbox that ends and the next one then cost no lease each.
func (p *Pool) Rest() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	p.spans = slices.DeleteFunc(p.spans, func(s *span) bool {
		was := s.resting
		if s.resting = p.count[s.number] == 0; !was || !s.resting {
			return false
		}
		errs = append(errs, p.unmark(s.lock), s.lock.Close())
		return true
	})
	return errors.Join(errs...)
}

// Take reserves a block until Free.
func (p *Pool) Take() (Base, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// The first spans first, so that the others get empty again after a peak.
	for _, s := range p.spans {
		if b, ok := p.free(s); ok {
			return b, nil
		}
	}
	for n := range spanCount {
		if p.leased(n) {
			continue
		}
		s, err := p.lease(n)
		if err != nil {
			return 0, fmt.Errorf("lease ids: %w", err)
		}
		if s == nil {
			continue
		}
		if b, ok := p.free(s); ok {
			return b, nil
		}
	}
	return 0, p.exhausted()
}

// exhausted is why there is no block. The caller holds mu.
func (p *Pool) exhausted() error {
	e := &ExhaustedError{Used: len(p.used), Own: len(p.spans), Others: map[string]int{}}
	owners, err := Owners(p.dir)
	if err != nil {
		return errors.Join(e, err)
	}
	for n := range spanCount {
		if !p.leased(n) {
			e.Others[cmp.Or(owners[n], "unknown")]++
		}
	}
	return e
}

// free finds an unused block in a leased span and marks it. The caller holds mu.
func (p *Pool) free(s *span) (Base, bool) {
	if p.count[s.number] >= spanSize {
		return 0, false
	}
	for i := range spanSize {
		at := (p.next[s.number] + i) % spanSize
		b := Base(first + (s.number*spanSize+at)*Size)
		if !p.used[b] {
			p.use(b)
			p.next[s.number], s.resting = at+1, false
			return b, true
		}
	}
	return 0, false
}

// use marks a block. The caller holds mu.
func (p *Pool) use(b Base) {
	if n, _ := Span(int(b)); !p.used[b] {
		p.used[b] = true
		p.count[n]++
	}
}

// Free gives a block back. Giving back one that is free is no error.
func (p *Pool) Free(b Base) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, _ := Span(int(b)); p.used[b] {
		delete(p.used, b)
		p.count[n]--
	}
}

func (p *Pool) path(n int) string { return filepath.Join(p.dir, strconv.Itoa(n)) }

// leased reports whether span n is this pool's. The caller holds mu.
func (p *Pool) leased(n int) bool {
	return slices.ContainsFunc(p.spans, func(s *span) bool { return s.number == n })
}

// lease tries to take span n, which is not this pool's, and returns it if it could. The
// caller holds mu.
func (p *Pool) lease(n int) (*span, error) {
	if err := os.Mkdir(p.path(n), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	f, err := os.Open(p.path(n))
	if err != nil {
		return nil, err
	}
	taken, err := p.leaseDir(f, n)
	if !taken {
		return nil, errors.Join(err, f.Close())
	}
	s := &span{number: n, lock: f}
	p.spans = append(p.spans, s)
	slices.SortFunc(p.spans, func(a, b *span) int { return cmp.Compare(a.number, b.number) })
	return s, nil
}

func (p *Pool) leaseDir(f *os.File, n int) (bool, error) {
	if ok, err := lock(f); !ok {
		return false, err
	}
	owner, err := ownerOf(f.Name())
	if err != nil {
		return false, err
	}
	if owner == p.owner {
		return true, nil
	}
	if owner != "" {
		if p.inUse(owner, ofSpan(n)) {
			return false, nil
		}
		if err := os.Remove(filepath.Join(f.Name(), owner)); err != nil {
			return false, err
		}
	}
	err = os.Mkdir(filepath.Join(f.Name(), p.owner), 0o700)
	return err == nil, err
}

// lock takes a lease, unless another daemon has it.
func lock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, os.NewSyscallError("flock", err)
}

// unmark makes a span that is locked nobody's.
func (p *Pool) unmark(f *os.File) error {
	if err := os.Remove(filepath.Join(f.Name(), p.owner)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ofSpan reports of ids whether they are of span n.
func ofSpan(n int) func(id int) bool {
	return func(id int) bool {
		of, ok := Span(id)
		return ok && of == n
	}
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
