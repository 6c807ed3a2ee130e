package images

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/durable"
)

const (
	metaFile   = "meta.json"
	layerFile  = "layer.json"
	tempPrefix = ".new-" // no name begins with a dot
)

// spec is what an image is. Its digest is the image's: equal specs are one
// image, wherever they came from.
type spec struct {
	Layers     []Layer  `json:"layers"` // top first
	Env        []string `json:"env"`
	WorkingDir string   `json:"working_dir"`
	User       string   `json:"user"`
}

func (s spec) digest() (string, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("sum up image: %w", err)
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// meta is an image's file: its spec and what is worth knowing about it.
type meta struct {
	Spec      spec      `json:"spec"`
	Shell     string    `json:"shell"`
	Size      int64     `json:"size"`
	Entries   int64     `json:"entries"`
	Source    string    `json:"source,omitempty"`
	Recipe    string    `json:"recipe,omitempty"`
	Warnings  []string  `json:"warnings,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// layerInfo is a layer's file.
type layerInfo struct {
	Layer
	Tree    string `json:"tree"` // extract.Digest when it was stored
	Size    int64  `json:"size"`
	Entries int64  `json:"entries"`
	Skipped int64  `json:"skipped,omitempty"`
	Clamped int64  `json:"clamped,omitempty"`
}

// chainKey names the directory of a layer that says nothing about some of its
// directories: it takes them from the layers below, so its tree depends on
// those too. Any other layer's directory is named by its DiffID.
func chainKey(diffID string, below []Layer) string {
	h := sha256.New()
	fmt.Fprintln(h, diffID)
	for _, l := range below {
		fmt.Fprintln(h, l.Key)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// writeFile replaces a file in one step, and returns when it is on disk.
func writeFile(name string, data []byte) (err error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return durable.Sync(dir)
}

// syncTree makes everything below dir durable: one call for all its files.
func syncTree(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd()))), f.Close())
}
