package seal

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandkasten/sandkasten/internal/durable"
)

// maxKeyFile is more than a key file has.
const maxKeyFile = 4 << 10

// Open returns the key in a file of 2*KeySize hexadecimal digits, as `openssl rand
// -hex 32` makes them. If there is none it makes one with mode 0600, which is on the
// disk when it returns. It refuses a file that others can read. Of several that make
// one at once, all get the same key.
func Open(file string) (*Key, error) {
	key, err := readKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := makeKey(file); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the key file: %w", err)
	}
	return readKey(file)
}

func readKey(file string) (key *Key, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the key file: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the key file %s is not a regular file", file)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("others can read the key file %s (mode %04o); run chmod 600 on it", file, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	random, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(random) != KeySize {
		// The error of hex names a byte of the file.
		return nil, fmt.Errorf("the key file %s does not have a key of %d hexadecimal digits, as `openssl rand -hex %d` makes it", file, 2*KeySize, KeySize)
	}
	return NewKey(random)
}

// makeKey writes the file whole under another name and links it, which fails if
// there is one by now: a crash leaves no half key.
func makeKey(file string) (err error) {
	dir := filepath.Dir(file)
	f, err := os.CreateTemp(dir, ".key-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	var random [KeySize]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	_, writeErr := f.WriteString(hex.EncodeToString(random[:]) + "\n")
	if err := errors.Join(writeErr, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), file); err != nil {
		return err
	}
	return durable.Sync(dir)
}
