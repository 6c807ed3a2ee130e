// Package installation gives a data directory an identity on its host. What an
// installation has beside its directory, such as control groups, leases of user
// ids and objects in a Docker engine, is named by it: by the directory's path two
// daemons that see different directories there would be one.
//
// The identity is a file in the directory. Beside it is noted which file it was,
// so that a copy of the directory is not taken for the original.
package installation

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/smallfile"
)

// ID is the identity: 12 characters that fit into any name.
type ID string

// idOf derives the public name from the secret in the file.
func idOf(secret string) ID {
	sum := auth.HashKey(secret)
	return ID(hex.EncodeToString(sum[:6]))
}

// place is which file the identity is in.
type place struct {
	Inode  uint64 `json:"inode"`
	Device uint64 `json:"device"`
	BootID string `json:"boot_id"` // for which Device counts: they are numbered anew at each boot
}

func (p place) same(other place) bool {
	return p.Inode == other.Inode && (p.Device == other.Device || p.BootID != other.BootID)
}

// MovedError refuses a data directory that is not where its identity was made,
// while others may be using what the identity names.
type MovedError struct{ File, Uses string }

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s is a copy of another data directory, or was moved, and %s. To go on as that installation, whose daemon must never run again, remove %s; to become another one, remove %s and that",
		filepath.Dir(e.File), e.Uses, PlaceFile(e.File), e.File)
}

// PlaceFile notes where the identity in file was made. Who puts an identity
// somewhere on purpose removes it.
func PlaceFile(file string) string { return file + ".place" }

// Read returns the identity in file, or an error that is fs.ErrNotExist.
func Read(file string) (ID, error) {
	text, err := smallfile.Read(file)
	if err != nil {
		return "", err
	}
	return idOf(strings.TrimSpace(string(text))), nil
}

// Open returns the identity in file, made when there is none. A copy of one gets a
// new identity, and copied is true; if uses has words for what the host has of the
// old one the error is a *MovedError instead. bootID is the host's.
func Open(file, bootID string, uses func() (string, error)) (id ID, copied bool, err error) {
	secret, created, err := auth.KeyFile(file)
	if err != nil {
		return "", false, err
	}
	here, err := placeOf(file, bootID)
	if err != nil {
		return "", false, err
	}
	was, err := readPlace(file)
	switch {
	case created || errors.Is(err, fs.ErrNotExist):
		return idOf(secret), false, writePlace(file, here)
	case err != nil:
		return "", false, err
	case was == here:
		return idOf(secret), false, nil
	case was.same(here): // a full disk may keep the old note, which says the same
		if err := writePlace(file, here); err != nil && !errors.Is(err, syscall.ENOSPC) {
			return "", false, err
		}
		return idOf(secret), false, nil
	}
	words, err := uses()
	if err != nil {
		return "", false, err
	}
	if words != "" {
		return "", false, &MovedError{File: file, Uses: words}
	}
	if was.Inode == here.Inode { // the file system was mounted anew, or is a clone: control groups are locked
		return idOf(secret), false, writePlace(file, here)
	}
	if err := os.Remove(file); err != nil {
		return "", false, err
	}
	id, _, err = Open(file, bootID, uses)
	return id, true, err
}

func placeOf(file, bootID string) (place, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return place{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return place{}, fmt.Errorf("%s has no inode", file)
	}
	return place{Inode: st.Ino, Device: st.Dev, BootID: bootID}, nil
}

func readPlace(file string) (p place, err error) {
	text, err := smallfile.Read(PlaceFile(file))
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("%s: %w", PlaceFile(file), err)
	}
	return p, nil
}

func writePlace(file string, p place) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	made, err := os.CreateTemp(filepath.Dir(file), ".place-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = made.Write(text)
	// The host may lose power: without its content a name is no note.
	if err := errors.Join(err, made.Sync(), made.Close()); err != nil {
		return errors.Join(err, os.Remove(made.Name()))
	}
	return os.Rename(made.Name(), PlaceFile(file))
}
