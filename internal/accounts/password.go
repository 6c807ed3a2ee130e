package accounts

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// What a hash of a password costs: 19 MiB and two passes over them.
const (
	argonMemory  = 19 << 10 // KiB
	argonTime    = 2
	argonThreads = 1
	argonSalt    = 16
	argonSum     = 32
)

// Bounds of a stored hash, for what is computed of it.
const (
	maxArgonMemory = 1 << 20 // KiB
	maxArgonTime   = 64
)

// hashing has room for the hashes that are computed at one time, each of which has
// memory of its own.
var hashing = make(chan struct{}, 2)

// newPassword checks a password and returns its hash, and "" of none.
func newPassword(ctx context.Context, password string) (string, error) {
	if password == "" {
		return "", nil
	}
	if n := utf8.RuneCountInString(password); n < MinPassword || n > MaxPassword {
		return "", errdefs.Invalid("password", "must be %d to %d characters", MinPassword, MaxPassword)
	}
	salt := make([]byte, argonSalt)
	rand.Read(salt) // never fails: crypto/rand ends the process instead
	h := passwordHash{memory: argonMemory, time: argonTime, threads: argonThreads, salt: salt}
	var err error
	h.sum, err = h.compute(ctx, password, argonSum)
	return h.String(), err
}

// VerifyPassword returns the user of a name, or of an e-mail address, if the password is theirs and they are
// active. Everything else gives the same error after about the same time.
func (a *Accounts) VerifyPassword(ctx context.Context, name, password string) (User, error) {
	a.mu.RLock()
	u := a.named(name)
	a.mu.RUnlock()
	stored := nobodysHash
	known := u != nil && u.PasswordHash != "" && u.State == Active
	if known {
		stored = u.PasswordHash
	}
	if utf8.RuneCountInString(password) > MaxPassword {
		password, known = "", false
	}
	h, err := parsePassword(stored)
	if err != nil {
		return User{}, fmt.Errorf("the password of user %s: %w", name, err)
	}
	sum, err := h.compute(ctx, password, len(h.sum))
	if err != nil {
		return User{}, err
	}
	if subtle.ConstantTimeCompare(sum, h.sum) != 1 || !known {
		return User{}, errdefs.New(errdefs.Unauthenticated, "the name or the password is wrong")
	}
	return u.User, nil
}

// nobodysHash is what the password of an unknown user is compared with.
var nobodysHash = passwordHash{
	memory: argonMemory, time: argonTime, threads: argonThreads, salt: make([]byte, argonSalt), sum: make([]byte, argonSum),
}.String()

// passwordHash is what is kept of a password: the sum with all that it takes to
// compute it again.
type passwordHash struct {
	memory, time uint32
	threads      uint8
	salt, sum    []byte
}

// String is the usual form of a hash by Argon2id.
func (h passwordHash) String() string {
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.memory, h.time, h.threads, encode(h.salt), encode(h.sum))
}

var errNoHash = fmt.Errorf("its hash is in no form that is known")

func parsePassword(text string) (h passwordHash, err error) {
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return h, errNoHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.memory, &h.time, &h.threads); err != nil {
		return h, errNoHash
	}
	if h.memory == 0 || h.memory > maxArgonMemory || h.time == 0 || h.time > maxArgonTime || h.threads == 0 {
		return h, errNoHash
	}
	for i, field := range []*[]byte{&h.salt, &h.sum} {
		if *field, err = base64.RawStdEncoding.DecodeString(parts[4+i]); err != nil || len(*field) < argonSalt {
			return h, errNoHash
		}
	}
	return h, nil
}

// maxWaiting is how many passwords may be computed and wait for that. It takes a second or two until
// the last of them is: clients wait longer for nobody.
const maxWaiting = 64

var waiting atomic.Int32

// compute returns the sum of a password, when there is room for it.
func (h passwordHash) compute(ctx context.Context, password string, size int) ([]byte, error) {
	defer waiting.Add(-1)
	if waiting.Add(1) > maxWaiting {
		return nil, errdefs.New(errdefs.ResourceExhausted, "%d passwords are being checked, which is the maximum; try again in a second", maxWaiting)
	}
	select {
	case hashing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-hashing }()
	return argon2.IDKey([]byte(password), h.salt, h.time, h.memory, h.threads, uint32(size)), nil
}
