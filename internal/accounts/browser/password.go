package browser

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Throttled is why somebody may not try to sign in now.
type Throttled struct {
	Wait time.Duration
	err  error
}

func (t *Throttled) Error() string { return t.err.Error() }
func (t *Throttled) Unwrap() error { return t.err }

// Password signs a user in by name, or e-mail address, and password. remote is the
// address that asks. A name that is not known takes as long as one that is.
func (s *SignIns) Password(ctx context.Context, name, password, remote string) (Begun, error) {
	known, ok := s.opts.Accounts.Known(name)
	account := unknownAccount(name)
	if ok {
		account = knownAccount(known.ID)
	}
	done, err := s.throttle.begin(account, remote)
	if err != nil {
		return Begun{}, err
	}
	u, err := s.opts.Accounts.VerifyPassword(ctx, name, password)
	done.compared(err)
	if err != nil {
		return Begun{}, err
	}
	return s.OfUser(ctx, u)
}

// Key exchanges a key for a sign-in, with wrong keys of an address counted.
func (s *SignIns) Key(ctx context.Context, key, remote string) (Begun, error) {
	done, err := s.throttle.begin("", remote)
	if err != nil {
		return Begun{}, err
	}
	begun, err := s.OfKey(ctx, key)
	if err != nil && errdefs.Is(err, errdefs.Unauthenticated) {
		return Begun{}, err
	}
	done(passed)
	return begun, err
}

// Guess implements accounts.SignIns.
func (s *SignIns) Guess(userID string) (done func(error), err error) {
	attempt, err := s.throttle.begin(knownAccount(userID), "")
	return attempt.compared, err
}

// UserOf returns the user that a name stands for, for a log.
func (s *SignIns) UserOf(name string) (accounts.User, bool) { return s.opts.Accounts.Known(name) }
