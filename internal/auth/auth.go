// Package auth knows who asks: principals, the credentials that they come from
// and how much they may have. API keys are its first credentials: how they are
// made, kept in a file, stored as hashes and recognised. How a credential comes
// with a request is a surface's business, and what a principal may do with a
// session the session core's.
package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// prefix lets people and secret scanners recognise a key.
const prefix = "sk_"

// NewKey returns a key of 256 random bits: "sk_" and 52 of [a-z2-7].
func NewKey() string {
	var random [32]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:])
	return prefix + strings.ToLower(text)
}

// Hash is the SHA-256 of a key, which is what is kept of it. A plain hash is
// enough for 256 random bits: there is nothing to guess.
type Hash [sha256.Size]byte

// HashKey returns the hash of key.
func HashKey(key string) Hash { return sha256.Sum256([]byte(key)) }

// Admin is the owner of the key that a daemon always has, whose keys have
// ScopeDaemon and ScopeOversee.
const Admin = "admin"

// Key is a key that may be used. An owner may have several.
type Key struct {
	ID    string // Principal.ID of who shows it
	Owner string // whom its sessions belong to
	Hash  Hash
}

func (k Key) principal() Principal {
	p := Principal{Owner: k.Owner, ID: k.ID, Quota: k.Owner}
	if k.Owner == Admin {
		p.Scopes = ScopeDaemon | ScopeOversee
	}
	return p
}

// Keys is the Authenticator of a fixed set of keys.
type Keys struct{ known []Key }

// NewKeys returns Keys that knows these. Owners must have names, and no two
// keys the same hash.
func NewKeys(known ...Key) (*Keys, error) {
	seen := make(map[Hash]bool)
	for _, k := range known {
		switch {
		case k.Owner == "":
			return nil, fmt.Errorf("an API key has no owner")
		case k.Hash == HashKey(""):
			return nil, fmt.Errorf("the API key of %s is empty", k.Owner)
		case seen[k.Hash]:
			return nil, fmt.Errorf("two owners have the same API key, one of them %s", k.Owner)
		}
		seen[k.Hash] = true
	}
	return &Keys{known: known}, nil
}

// Authenticate implements Authenticator. The time it takes tells nothing of the
// keys: it hashes the one it is given and compares the hash with every one it
// knows.
func (k *Keys) Authenticate(_ context.Context, key string) (Principal, error) {
	return k.AuthenticateHash(HashKey(key))
}

// AuthenticateHash implements HashAuthenticator.
func (k *Keys) AuthenticateHash(given Hash) (Principal, error) {
	found := -1
	for i, known := range k.known {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given[:], known.Hash[:]), i, found)
	}
	if found < 0 {
		return Principal{}, errdefs.New(errdefs.Unauthenticated, "the API key is not valid")
	}
	return k.known[found].principal(), nil
}

// HashOf implements Credentials.
func (k *Keys) HashOf(id string) (hash Hash, ok bool) {
	for _, known := range k.known {
		if known.ID == id {
			return known.Hash, true
		}
	}
	return hash, false
}
