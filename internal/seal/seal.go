// Package seal keeps small values, such as the secrets of sessions, unreadable
// without a key that lies in a file of its own. What the values are is not its
// business, and neither are large ones: see package blob for those.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"slices"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// version begins every sealed value. It is followed by what AES-256-GCM makes of
// the value with a random nonce: the nonce, the text and the tag. The version and
// what the value is about are its additional data.
const version = 1

// ErrSealed is what Key.Open says of a value that it cannot open: another key has
// sealed it, it is about something else, or it was damaged.
var ErrSealed = errors.New("the value was damaged or moved, or was sealed with another key")

// Key seals values, and opens what it sealed. Random nonces allow some four
// billion of them. Its methods may be called concurrently.
type Key struct{ aead cipher.AEAD }

// NewKey returns the key of KeySize random bytes.
func NewKey(random []byte) (*Key, error) {
	if len(random) != KeySize {
		return nil, fmt.Errorf("the key has %d bytes instead of %d", len(random), KeySize)
	}
	block, err := aes.NewCipher(random)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Key{aead: aead}, nil
}

// Seal returns a value as only Open with the same key and the same about reads it.
// About names what the value belongs to, so that nobody can move it unseen.
func (k *Key) Seal(plain, about []byte) []byte {
	return k.aead.Seal([]byte{version}, nil, plain, additional(about))
}

// Open returns the value that Seal was given, or ErrSealed.
func (k *Key) Open(sealed, about []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != version {
		return nil, ErrSealed
	}
	plain, err := k.aead.Open(nil, nil, sealed[1:], additional(about))
	if err != nil {
		return nil, ErrSealed // the cause says nothing more
	}
	return plain, nil
}

func additional(about []byte) []byte { return slices.Concat([]byte{version}, about) }

// String keeps the key out of logs.
func (*Key) String() string { return "a key" }
