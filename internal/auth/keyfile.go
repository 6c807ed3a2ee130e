package auth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxKeyFile is more than any key file has.
const maxKeyFile = 4 << 10

// KeyFile returns the key in a file, an API key's or another secret's, and makes the file with a new key if
// there is none. It refuses a file that others can read, and one that a link
// leads to. Of several that start at once, all get the same key.
func KeyFile(path string) (key string, created bool, err error) {
	key, err = readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, false, err
	}
	fresh := NewKey()
	err = createKey(path, fresh)
	if errors.Is(err, fs.ErrExist) { // somebody was faster
		key, err = readKey(path)
		return key, false, err
	}
	if err != nil {
		return "", false, fmt.Errorf("make the key file: %w", err)
	}
	return fresh, true, nil
}

// ReadKeyFile is KeyFile for a file that has to be there.
func ReadKeyFile(path string) (string, error) { return readKey(path) }

func readKey(path string) (key string, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("read the key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("the key file %s is not a regular file; remove it to have a new key made", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("the key file %s can be read by others (mode %04o); run chmod 600 on it, or remove it to have a new key made",
			path, info.Mode().Perm())
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the key file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return "", fmt.Errorf("read the key file: %w", err)
	}
	key = strings.TrimSpace(string(text))
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return "", fmt.Errorf("the key file %s does not hold one key; remove it to have a new key made", path)
	}
	return key, nil
}

// createKey writes the file whole under another name and links it to path,
// which fails if there is one already. A crash leaves no half file.
func createKey(path, key string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, writeErr := f.WriteString(key + "\n")
	if err := errors.Join(writeErr, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}
