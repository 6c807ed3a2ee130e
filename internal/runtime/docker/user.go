package docker

import (
	"cmp"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runner/lookup"
	"github.com/sandkasten/sandkasten/internal/sandbox/flatten"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
)

// ImageUser is the Options.User that is each image's own.
const ImageUser = "image"

// maxUser is the highest id: snapshots know none above it, nor do containers of
// an engine that maps their ids.
const maxUser = 65534

// ofRoot is what the image store gives images that say nothing else.
var ofRoot = []string{"HOME=/root", "USER=root", "LOGNAME=root"}

// chooseUser finds whom the programs of a container are, in the image, which
// nobody in a sandbox can write. Their environment says so, where the image's
// own does not.
func (d *Driver) chooseUser(c *creation) error {
	asked := d.opts.User
	c.userLabel = asked
	if asked == ImageUser {
		asked = c.rootfs.User
	}
	if asked == "" {
		return nil
	}
	u, err := lookup.Account(asked, imageFile(c.rootfs, "etc/passwd"), imageFile(c.rootfs, "etc/group"))
	if err == nil && max(u.UID, u.GID) > maxUser {
		err = errdefs.New(errdefs.Unprocessable, "ids are at most %d", maxUser)
	}
	if err != nil {
		refused := errdefs.Wrap(err, errdefs.Unprocessable, "programs of this image cannot run as %q, as docker.user says: its /etc/passwd and /etc/group have no such user or group, or one whose ids are over %d; use another image, or change docker.user", asked, maxUser)
		refused.Field = "image"
		return refused
	}
	if u.UID == 0 && u.GID == 0 {
		return nil
	}
	c.user = &stage.User{UID: u.UID, GID: u.GID, Groups: u.Groups}
	// One that the image does not know has no directory of its own either.
	name, home := cmp.Or(u.Name, strconv.Itoa(u.UID)), u.Home
	if !path.IsAbs(home) || strings.ContainsRune(name+home, 0) {
		name, home = strconv.Itoa(u.UID), guest.Workspace
	}
	env := []string{"HOME=" + home, "USER=" + name, "LOGNAME=" + name}
	for _, kv := range c.rootfs.Env {
		if !slices.Contains(ofRoot, kv) {
			env = append(env, kv)
		}
	}
	c.rootfs.Env = env
	return nil
}

// imageFile is a file of an image for package lookup.
func imageFile(rootfs Rootfs, name string) lookup.Source {
	return func() (io.ReadCloser, error) {
		f, err := flatten.Open(rootfs.Layers, name)
		if err != nil {
			return nil, err // not a nil *os.File, which would be one
		}
		return f, nil
	}
}
