// Package extract lays a tar archive from a stranger down as a directory tree,
// and reads such trees back. It belongs here if it handles the bytes or the
// files of one layer; what an image is, and where layers live, does not.
//
// Nothing in an archive is trusted. Every path is resolved component by
// component against a descriptor of the target, so that no name and no link
// can lead outside it, and every quantity has a limit that stops the work
// early. Archives are decoded in this process.
package extract

import (
	"archive/tar"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

const (
	opaqueXattr    = "user.overlay.opaque"
	whiteoutPrefix = ".wh."
	opaqueMarker   = ".wh..wh..opq"
	metadataPrefix = ".wh..wh."
)

// Kind says what an archive is, which decides what names like .wh.x mean.
type Kind int

const (
	// Root is a whole root filesystem. Whiteout names are refused: the archive
	// is then one layer of several.
	Root Kind = iota
	// Layer is an OCI layer. Whiteout names remove what layers below show.
	Layer
)

// Options says how to read one archive.
type Options struct {
	Kind   Kind
	Limits Limits
	// Lowers are the trees that the archive will lie on, top first. Where the
	// archive names a file but not its directories, they tell what those are.
	Lowers []string
}

// Result describes a tree that was made.
type Result struct {
	DiffID  string // "sha256:..." of the uncompressed archive
	Entries int64
	Bytes   int64 // sum of the sizes of regular files
	// Implied says that directories were missing from the archive, so that the
	// tree depends on Lowers and not on DiffID alone.
	Implied bool
	// Skipped counts devices, FIFOs and sockets left out, other than in /dev.
	Skipped int64
	// Clamped counts entries whose owner was above 65534 and is now nobody.
	Clamped int64
}

// Tree reads an archive (plain, gzip or zstd) to its end and writes its files
// into dir, an empty directory that nobody else writes. Owners are stored as
// the archive says; set-id bits on files, extended attributes and device nodes
// are left out. On error dir holds a part of the tree, for the caller to
// remove.
//
// The error is Unprocessable for an archive that is damaged or hostile,
// TooLarge over a limit, InsufficientSpace when the disk is full.
func Tree(ctx context.Context, dir string, archive io.Reader, opt Options) (Result, error) {
	s, err := openStream(ctx, archive, opt.Limits)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	view, err := OpenView(append([]string{dir}, opt.Lowers...))
	if err != nil {
		return Result{}, err
	}
	x := &extractor{
		ctx:    ctx,
		opt:    opt,
		view:   view,
		tree:   view.trees[0],
		parent: parent{fd: -1},
		times:  map[string]time.Time{},
		now:    time.Now(),
		buf:    make([]byte, copyBuffer),
	}
	err = errors.Join(x.run(s), x.parent.close(), view.Close())
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = errdefs.Wrap(err, errdefs.InsufficientSpace, "the disk is full; the image was not stored")
	}
	x.result.DiffID = "sha256:" + hex.EncodeToString(s.sum.Sum(nil))
	return x.result, err
}

// Scan reads an archive to its end as Tree does and writes nothing. It refuses
// what Tree refuses of each entry by itself, and everything but files,
// directories and links. DiffID, Entries and Bytes of the result are set.
func Scan(ctx context.Context, archive io.Reader, opt Options) (Result, error) {
	s, err := openStream(ctx, archive, opt.Limits)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	x := &extractor{opt: opt, now: time.Now()}
	in := tar.NewReader(s)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Result{}, readError(err)
		}
		if err := x.look(h); err != nil {
			return Result{}, err
		}
	}
	if s.ended {
		return Result{}, malformed("it is cut off: its end mark is missing")
	}
	if err := s.drain(); err != nil {
		return Result{}, err
	}
	x.result.DiffID = "sha256:" + hex.EncodeToString(s.sum.Sum(nil))
	return x.result, nil
}

// look is entry without a tree.
func (x *extractor) look(h *tar.Header) error {
	name, err := x.count(h)
	if err != nil || h.Typeflag == tar.TypeXGlobalHeader {
		return err
	}
	if _, err := x.metaOf(h, name); err != nil {
		return err
	}
	if x.result.Clamped > 0 {
		return malformed("entry %q has an owner above %d", name, maxID)
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return x.grow(h.Size)
	case tar.TypeDir:
		return nil
	case tar.TypeSymlink:
		return x.checkTarget(name, h.Linkname)
	case tar.TypeLink:
		_, err := cleanName(h.Linkname, x.opt.Limits)
		return err
	}
	return malformed("entry %q is neither a file, a directory nor a link", name)
}

// extractor is one Tree call under way.
type extractor struct {
	ctx    context.Context // ends the copy of a file; of an archive its stream
	opt    Options
	view   *View // the tree being made, and Lowers
	tree   tree  // the tree being made
	parent parent
	times  map[string]time.Time // of directories, set when nothing is added any more
	now    time.Time
	buf    []byte
	result Result
}

func (x *extractor) run(s *stream) error {
	archive := tar.NewReader(s)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return readError(err)
		}
		if err := x.entry(h, archive); err != nil {
			return err
		}
	}
	// A layer's end is proved by its digest, and some builders leave the end
	// mark out. Of a bare archive the mark is all that tells whole from cut off.
	if x.opt.Kind == Root && s.ended {
		return malformed("it is cut off: its end mark is missing")
	}
	if x.opt.Kind == Root && x.result.Entries == 0 {
		return malformed("it is empty")
	}
	return errors.Join(s.drain(), x.setTimes())
}

// count takes notice of one more entry and returns its name, which a global
// header does not have.
func (x *extractor) count(h *tar.Header) (name string, err error) {
	x.result.Entries++
	if x.result.Entries > x.opt.Limits.Entries {
		return "", tooLarge("it has more than %d entries", x.opt.Limits.Entries)
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return "", nil
	}
	return cleanName(h.Name, x.opt.Limits)
}

// grow takes notice of a file's size.
func (x *extractor) grow(size int64) error {
	if size > x.opt.Limits.Bytes-x.result.Bytes {
		return tooLarge("its files hold more than %d bytes", x.opt.Limits.Bytes)
	}
	x.result.Bytes += size
	return nil
}

func (x *extractor) checkTarget(name, target string) error {
	if target == "" || len(target) > x.opt.Limits.Link {
		return malformed("link %q has a target of %d bytes; 1 to %d are allowed", name, len(target), x.opt.Limits.Link)
	}
	return nil
}

func (x *extractor) entry(h *tar.Header, body io.Reader) error {
	name, err := x.count(h)
	if err != nil || h.Typeflag == tar.TypeXGlobalHeader {
		return err
	}
	done, err := x.whiteout(name)
	if done || err != nil {
		return err
	}
	m, err := x.metaOf(h, name)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return x.file(name, m, h.Size, body)
	case tar.TypeDir:
		return x.directory(name, m)
	case tar.TypeSymlink:
		return x.symlink(name, m, h.Linkname)
	case tar.TypeLink:
		return x.hardlink(name, h.Linkname)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		if !strings.HasPrefix(name, "dev/") { // every sandbox has its own /dev
			x.result.Skipped++
		}
		return nil
	}
	return malformed("entry %q has the unknown type %q", h.Name, h.Typeflag)
}

// meta is what an entry says of itself, made safe.
type meta struct {
	mode     uint32 // permission bits; set-group-id and sticky for directories
	uid, gid int
	mtime    time.Time
}

func (x *extractor) metaOf(h *tar.Header, name string) (meta, error) {
	if h.Uid < 0 || h.Gid < 0 {
		return meta{}, malformed("entry %q has a negative owner", name)
	}
	if h.Uid > maxID || h.Gid > maxID {
		x.result.Clamped++
	}
	m := meta{
		mode:  uint32(h.Mode) & 0o777,
		uid:   min(h.Uid, maxID),
		gid:   min(h.Gid, maxID),
		mtime: h.ModTime,
	}
	if h.Typeflag == tar.TypeDir {
		m.mode = uint32(h.Mode) & 0o3777
	}
	if m.mtime.After(x.now) {
		m.mtime = x.now
	}
	if m.mtime.Before(time.Unix(0, 0)) {
		m.mtime = time.Unix(0, 0)
	}
	return m, nil
}

func (x *extractor) file(name string, m meta, size int64, body io.Reader) error {
	if err := x.grow(size); err != nil {
		return err
	}
	dir, base, err := x.place(name)
	if err != nil {
		return err
	}
	if _, err := x.vacate(dir, base); err != nil {
		return err
	}
	fd, err := unix.Openat(dir.fd, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	if err := (&holes{ctx: x.ctx, f: f}).fill(body, x.buf); err != nil {
		if _, disk := errors.AsType[*os.PathError](err); !disk {
			err = readError(err)
		}
		return errors.Join(err, f.Close())
	}
	return errors.Join(applyMeta(fd, name, m), f.Close())
}

func (x *extractor) directory(name string, m meta) error {
	if name == "" {
		x.times[""] = m.mtime
		return x.applyDirectory("", m)
	}
	dir, base, err := x.place(name)
	if err != nil {
		return err
	}
	full := join(dir.path, base)
	if err := x.mkdir(dir, base); err != nil {
		return err
	}
	x.times[full] = m.mtime
	return x.applyDirectory(full, m)
}

// mkdir makes base a directory. One that is there already stays, with what is
// in it.
func (x *extractor) mkdir(dir *parent, base string) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	hid, err := x.vacate(dir, base)
	if err != nil {
		return err
	}
	if err := unix.Mkdirat(dir.fd, base, 0o700); err != nil {
		return &os.PathError{Op: "mkdir", Path: join(dir.path, base), Err: err}
	}
	if hid {
		// The whiteout that stood here hid a directory of the layers below; the
		// new directory must go on hiding what was in it.
		return x.setOpaque(join(dir.path, base))
	}
	return nil
}

func (x *extractor) symlink(name string, m meta, target string) error {
	if err := x.checkTarget(name, target); err != nil {
		return err
	}
	dir, base, err := x.place(name)
	if err != nil {
		return err
	}
	if _, err := x.vacate(dir, base); err != nil {
		return err
	}
	if err := unix.Symlinkat(target, dir.fd, base); err != nil {
		return &os.PathError{Op: "symlink", Path: name, Err: err}
	}
	if err := unix.Fchownat(dir.fd, base, m.uid, m.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "chown", Path: name, Err: err}
	}
	times := []unix.Timespec{unix.NsecToTimespec(m.mtime.UnixNano()), unix.NsecToTimespec(m.mtime.UnixNano())}
	return os.NewSyscallError("utimensat", unix.UtimesNanoAt(dir.fd, base, times, unix.AT_SYMLINK_NOFOLLOW))
}

// hardlink gives a file of this archive a second name. A target outside the
// archive, or one that is a link itself, would reach what is not the
// archive's.
func (x *extractor) hardlink(name, target string) error {
	clean, err := cleanName(target, x.opt.Limits)
	if err != nil {
		return err
	}
	from, err := x.statBelowLinks(clean)
	if err != nil || from.layer != 0 || !from.IsRegular() {
		return malformed("hard link %q does not lead to a file that came before it", name)
	}
	dir, base, err := x.place(name)
	if err != nil {
		return err
	}
	if join(dir.path, base) == from.Path {
		return malformed("hard link %q leads to itself", name)
	}
	if _, err := x.vacate(dir, base); err != nil {
		return err
	}
	if err := unix.Linkat(x.tree.fd, from.Path, dir.fd, base, 0); err != nil {
		return &os.PathError{Op: "link", Path: name, Err: err}
	}
	return nil
}

func applyMeta(fd int, name string, m meta) error {
	// Owner before mode: chown clears bits that chmod sets.
	if err := unix.Fchown(fd, m.uid, m.gid); err != nil {
		return &os.PathError{Op: "chown", Path: name, Err: err}
	}
	if err := unix.Fchmod(fd, m.mode); err != nil {
		return &os.PathError{Op: "chmod", Path: name, Err: err}
	}
	tv := []unix.Timeval{unix.NsecToTimeval(m.mtime.UnixNano()), unix.NsecToTimeval(m.mtime.UnixNano())}
	return os.NewSyscallError("futimes", unix.Futimes(fd, tv))
}

func (x *extractor) applyDirectory(p string, m meta) error {
	fd, err := x.tree.open(p, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("open directory %q: %w", p, err)
	}
	return errors.Join(applyMeta(fd, p, m), unix.Close(fd))
}

// setTimes gives directories their times; adding entries changed them.
func (x *extractor) setTimes() error {
	for p, mtime := range x.times {
		fd, err := x.tree.open(p, unix.O_RDONLY|unix.O_DIRECTORY)
		if isAbsent(err) {
			continue // replaced by a later entry
		}
		if err != nil {
			return fmt.Errorf("open directory %q: %w", p, err)
		}
		tv := []unix.Timeval{unix.NsecToTimeval(mtime.UnixNano()), unix.NsecToTimeval(mtime.UnixNano())}
		if err := errors.Join(unix.Futimes(fd, tv), unix.Close(fd)); err != nil {
			return fmt.Errorf("set time of %q: %w", p, err)
		}
	}
	return nil
}
