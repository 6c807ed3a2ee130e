// Package browser keeps the browsers in which somebody has signed in: a random token
// each, of which the daemon knows the hash only. A sign-in is a user's, or an API
// key's that was exchanged for it, and ends with what it stands for. How a token comes
// with a request is a surface's business.
package browser

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/session/ids"
)

// MaxSignIns is how many sign-ins one user or key has. A further one ends the one
// that was not used for the longest time.
const MaxSignIns = 50

// SignIn is a browser in which somebody has signed in, without its token.
type SignIn struct {
	ID    string
	Hash  auth.Hash // of the token
	Owner string    // the name of the user, or the owner of the key

	UserID string         // "" of a key
	Stamp  accounts.Stamp // of the user then, see accounts.StampOf
	Key    auth.Hash      // of the key; zero of a user

	CreatedAt time.Time
	LastUsed  time.Time // a minute old at most
}

// whose is what a sign-in is counted by.
func (s SignIn) whose() string {
	if s.UserID != "" {
		return s.UserID
	}
	return string(s.Key[:])
}

// Store remembers sign-ins. What it has written survives a crash from the moment the
// method returns.
type Store interface {
	SignIns(ctx context.Context) ([]SignIn, error)
	PutSignIn(ctx context.Context, s SignIn) error
	// DeleteSignIns forgets those of these ids.
	DeleteSignIns(ctx context.Context, ids []string) error
	// TouchSignIns sets the last use of sign-ins by their ids.
	TouchSignIns(ctx context.Context, used map[string]time.Time) error
}

// Options configures the sign-ins. Log and Now are optional.
type Options struct {
	Store    Store
	Accounts *accounts.Accounts
	Keys     auth.HashAuthenticator // knows the keys that were exchanged

	Idle time.Duration // without a request, after which a sign-in ends
	Most time.Duration // after which it ends in any case

	Log *slog.Logger     // silence
	Now func() time.Time // the clock
}

// SignIns are all of them. They are in memory, and each is written before it holds.
// The methods may be called concurrently.
type SignIns struct {
	opts     Options
	throttle *throttle

	// changes is held by what writes. It comes before mu, and no call of the accounts
	// is made with mu held: they ask us with theirs.
	changes sync.Mutex

	mu     sync.Mutex
	byHash map[auth.Hash]*signIn // guarded by mu
	byID   map[string]*signIn    // guarded by mu
}

// signIn is a SignIn in memory.
type signIn struct {
	SignIn  // LastUsed is guarded by SignIns.mu
	written time.Time
	open    map[*request]bool // guarded by SignIns.mu
}

type request struct{ cancel context.CancelCauseFunc }

var _ accounts.SignIns = (*SignIns)(nil)

// New returns the sign-ins of a store.
func New(ctx context.Context, o Options) (*SignIns, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &SignIns{opts: o, throttle: newThrottle(o.Now), byHash: make(map[auth.Hash]*signIn), byID: make(map[string]*signIn)}
	all, err := o.Store.SignIns(ctx)
	if err != nil {
		return nil, err
	}
	var ended []string
	for _, one := range all {
		if !s.stands(one) || s.expired(one) {
			ended = append(ended, one.ID)
			continue
		}
		s.add(one)
	}
	if len(ended) > 0 {
		// They are for nothing already; Run tries again.
		if err := o.Store.DeleteSignIns(ctx, ended); err != nil {
			o.Log.WarnContext(ctx, "cannot forget sign-ins that have ended", "err", err)
		}
	}
	return s, nil
}

// add enters a sign-in. The caller holds mu, or is New.
func (s *SignIns) add(one SignIn) *signIn {
	in := &signIn{SignIn: one, written: one.LastUsed, open: make(map[*request]bool)}
	s.byHash[one.Hash], s.byID[one.ID] = in, in
	return in
}

// stands reports whether what a sign-in stands for is as it was then.
func (s *SignIns) stands(one SignIn) bool {
	if one.UserID == "" {
		_, err := s.opts.Keys.AuthenticateHash(one.Key)
		return err == nil
	}
	_, stamp, ok := s.opts.Accounts.StampOf(one.UserID, one.Owner)
	return ok && stamp == one.Stamp
}

// expired reports whether a sign-in has come to its end by itself.
func (s *SignIns) expired(one SignIn) bool {
	now := s.opts.Now()
	return now.Sub(one.LastUsed) >= s.opts.Idle || now.Sub(one.CreatedAt) >= s.opts.Most
}

// new256 is a token of 256 random bits.
func new256() string {
	var random [32]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// CSRF is what a page has to send beside its cookie, to show that it can read what
// the daemon answers. Who has it learns nothing of the token.
func CSRF(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("csrf"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// CSRF is the function of that name, for api.Browsers.
func (s *SignIns) CSRF(token string) string { return CSRF(token) }

// Begun is a sign-in that has just begun.
type Begun struct {
	Token     string // for the cookie; it is nowhere else
	Principal auth.Principal
	Life      time.Duration // at most
}

// OfUser signs a user in whom the caller has made sure of.
func (s *SignIns) OfUser(ctx context.Context, u accounts.User) (Begun, error) {
	known, stamp, ok := s.opts.Accounts.StampOf(u.ID, u.Name)
	if !ok || known.PasswordHash != u.PasswordHash {
		return Begun{}, errWrong() // changed meanwhile
	}
	return s.begin(ctx, SignIn{Owner: u.Name, UserID: u.ID, Stamp: stamp}, known.Principal)
}

// OfKey exchanges an API key for a sign-in, which may what the key may and ends with
// the key.
func (s *SignIns) OfKey(ctx context.Context, key string) (Begun, error) {
	hash := auth.HashKey(key)
	p, err := s.opts.Keys.AuthenticateHash(hash)
	if err != nil {
		return Begun{}, err
	}
	return s.begin(ctx, SignIn{Owner: p.Owner, Key: hash}, func(string) auth.Principal { return p })
}

// begin writes a sign-in and has it hold.
func (s *SignIns) begin(ctx context.Context, one SignIn, principal func(id string) auth.Principal) (Begun, error) {
	token := new256()
	one.ID, one.Hash = ids.New(), auth.HashKey(token)
	one.CreatedAt = s.opts.Now().UTC().Truncate(time.Microsecond)
	one.LastUsed = one.CreatedAt
	s.changes.Lock()
	defer s.changes.Unlock()
	if err := s.makeRoom(ctx, one.whose()); err != nil {
		return Begun{}, err
	}
	if err := s.opts.Store.PutSignIn(context.WithoutCancel(ctx), one); err != nil {
		return Begun{}, err
	}
	s.mu.Lock()
	in := s.add(one)
	s.mu.Unlock()
	// What changed the user before the line above has ended no sign-in yet.
	if !s.stands(one) {
		return Begun{}, cmp.Or(s.end(ctx, []*signIn{in}), errWrong())
	}
	return Begun{Token: token, Principal: principal(one.ID), Life: s.opts.Most}, nil
}

// makeRoom ends the least used sign-in of somebody who has as many as there may be.
// The caller holds changes.
func (s *SignIns) makeRoom(ctx context.Context, whose string) error {
	own := s.those(func(in *signIn) bool { return in.whose() == whose })
	if len(own) < MaxSignIns {
		return nil
	}
	s.mu.Lock()
	slices.SortFunc(own, func(x, y *signIn) int { return x.LastUsed.Compare(y.LastUsed) })
	s.mu.Unlock()
	return s.end(ctx, own[:len(own)-MaxSignIns+1])
}

// those returns the sign-ins for which keep is true.
func (s *SignIns) those(keep func(*signIn) bool) (found []*signIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.byID {
		if keep(in) {
			found = append(found, in)
		}
	}
	return found
}

// end ends sign-ins and the requests in their names, and then forgets them.
func (s *SignIns) end(ctx context.Context, ending []*signIn) error {
	if len(ending) == 0 || protection.Off(protection.SignInEnd) {
		return nil
	}
	var gone []string
	s.mu.Lock()
	for _, in := range ending {
		gone = append(gone, in.ID)
		delete(s.byHash, in.Hash)
		delete(s.byID, in.ID)
		for r := range in.open {
			r.cancel(auth.ErrEnded)
		}
	}
	s.mu.Unlock()
	return s.opts.Store.DeleteSignIns(context.WithoutCancel(ctx), gone)
}

// EndOf implements accounts.SignIns. What cannot be forgotten is for nothing all the
// same: its stamp is the one of before.
func (s *SignIns) EndOf(ctx context.Context, userID string) {
	err := s.end(ctx, s.those(func(in *signIn) bool { return in.UserID == userID }))
	if err != nil {
		s.opts.Log.ErrorContext(ctx, "cannot forget the sign-ins of a user", "user_id", userID, "err", err)
	}
}

// InUse implements accounts.SignIns.
func (s *SignIns) InUse(userID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.byID {
		if in.UserID == userID && len(in.open) > 0 {
			return true
		}
	}
	return false
}

// SignOut ends the sign-in of an id, or with everywhere all those of the same user or
// key.
func (s *SignIns) SignOut(ctx context.Context, id string, everywhere bool) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.mu.Lock()
	in := s.byID[id]
	s.mu.Unlock()
	if in == nil {
		return nil
	}
	return s.end(ctx, s.those(func(other *signIn) bool {
		return other == in || everywhere && other.whose() == in.whose()
	}))
}

// Authenticate returns in whose name a request with a token is made, and the id of
// the sign-in.
func (s *SignIns) Authenticate(_ context.Context, token string) (p auth.Principal, id string, err error) {
	hash := auth.HashKey(token)
	in, one := s.copyOf(func() *signIn { return s.byHash[hash] })
	if in == nil || s.expired(one) {
		return auth.Principal{}, "", errEnded()
	}
	if one.UserID == "" {
		p, err = s.opts.Keys.AuthenticateHash(one.Key)
	} else if u, stamp, ok := s.opts.Accounts.StampOf(one.UserID, one.Owner); ok && (stamp == one.Stamp || protection.Off(protection.SignInEnd)) {
		p = u.Principal(one.ID)
	} else {
		err = errEnded()
	}
	if err != nil {
		return auth.Principal{}, "", errEnded()
	}
	s.mu.Lock()
	in.LastUsed = s.opts.Now()
	s.mu.Unlock()
	return p, one.ID, nil
}

// copyOf returns what find finds, nil for nothing, and a copy as it is now. find is called
// with mu held.
func (s *SignIns) copyOf(find func() *signIn) (in *signIn, one SignIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in = find(); in != nil {
		one = in.SignIn
	}
	return in, one
}

// HashOf implements accounts.SignIns.
func (s *SignIns) HashOf(id string) (hash auth.Hash, ok bool) {
	in, one := s.copyOf(func() *signIn { return s.byID[id] })
	return one.Hash, in != nil && !s.expired(one) && s.stands(one)
}

// Watch returns a context that ends with ctx, or at once with the sign-in of an id.
func (s *SignIns) Watch(ctx context.Context, id string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.byID[id]
	if in == nil {
		cancel(auth.ErrEnded)
		return ctx, func() {}
	}
	one := &request{cancel}
	in.open[one] = true
	left := in.CreatedAt.Add(s.opts.Most).Sub(s.opts.Now())
	expire := time.AfterFunc(left, func() { cancel(auth.ErrEnded) })
	return ctx, func() {
		expire.Stop()
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(in.open, one)
		in.LastUsed = s.opts.Now()
	}
}

const sweepEvery = time.Minute

// Run writes when sign-ins were used, and ends those that have expired, until ctx is
// done.
func (s *SignIns) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.ErrorContext(ctx, "cannot write when sign-ins were used", "err", err)
		}
	}
}

// sweep is one round of Run. A stream that is open uses its sign-in.
func (s *SignIns) sweep(ctx context.Context) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	used := make(map[string]time.Time)
	now := s.opts.Now()
	ending := s.those(func(in *signIn) bool {
		if len(in.open) > 0 {
			in.LastUsed = now
		}
		if in.LastUsed.After(in.written) {
			used[in.ID] = in.LastUsed
		}
		return s.expired(in.SignIn)
	})
	if err := s.end(ctx, ending); err != nil {
		return err
	}
	if len(used) == 0 {
		return nil
	}
	if err := s.opts.Store.TouchSignIns(ctx, used); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, at := range used {
		if in := s.byID[id]; in != nil {
			in.written = at
		}
	}
	return nil
}

// errEnded is the same for all tokens that are for nothing.
func errEnded() error {
	return errdefs.New(errdefs.Unauthenticated, "the browser is not signed in any more; sign in again")
}

// errWrong is the same for everything that does not sign anybody in.
func errWrong() error {
	return errdefs.New(errdefs.Unauthenticated, "the name or the password is wrong")
}
