package images_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/extract"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestImport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir))
	data := rootfs(t, item{name: "bin/bash", body: "x"}, item{name: "etc/environment", body: "PATH=/opt:/bin\nEXTRA='a b'\n"})
	var phases []string
	img, err := s.Import(t.Context(), images.ImportRequest{
		Name: "mine:1", Tar: bytes.NewReader(data), Size: int64(len(data)), Source: "a test",
		Progress: func(p images.Progress) { phases = append(phases, p.Phase) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if img.Shell != "/bin/bash" || img.Source != "a test" || !slices.Equal(img.Names, []string{"mine:1"}) || img.Size == 0 {
		t.Errorf("image %+v", img)
	}
	if !slices.Contains(phases, "unpack") || phases[len(phases)-1] != "store" {
		t.Errorf("phases %q", phases)
	}
	if again := importTar(t, s, "other", data); again.Digest != img.Digest || len(again.Names) != 2 {
		t.Errorf("the same bytes are %+v, want %s with two names", again, img.Digest)
	}

	// Another process sees the same.
	r, err := open(t, inDir(dir)).Rootfs(t.Context(), img.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Layers) != 1 || !r.HasBash || r.Shell != "/bin/bash" {
		t.Errorf("rootfs %+v", r)
	}
	if got, err := os.ReadFile(filepath.Join(r.Layers[0], "bin/bash")); string(got) != "x" || err != nil {
		t.Errorf("the layer has no files: %q, %v", got, err)
	}
	want := []string{"EXTRA=a b", "HOME=/root", "LANG=C.UTF-8", "LOGNAME=root", "PATH=/opt:/bin", "SHELL=/bin/bash", "USER=root"}
	if !slices.Equal(r.Env, want) {
		t.Errorf("Env = %q, want %q", r.Env, want)
	}
	for _, d := range []string{"", "layers", "images", "names", "staging"} {
		if info, err := os.Stat(filepath.Join(dir, d)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%q is %v, %v; others could look in", d, info.Mode(), err)
		}
	}
	if left := entries(t, filepath.Join(dir, "staging")); len(left) > 0 {
		t.Errorf("staging holds %v", left)
	}
	if _, err := s.Rootfs(t.Context(), "sha256:../../etc"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("a digest that is none: %v", err)
	}
}

// What cannot be a sandbox is refused, says why, and leaves nothing.
func TestImportRefuses(t *testing.T) {
	without := func(name string) []item {
		return slices.DeleteFunc(slices.Clone(rootItems), func(i item) bool { return i.name == name })
	}
	tests := map[string]struct {
		items []item
		says  string
	}{
		"no shell":        {without("bin/sh"), "/bin/sh"},
		"shell is link":   {append(without("bin/sh"), item{name: "bin/sh", link: "/nowhere"}), "/bin/sh"},
		"shell leads out": {append(without("bin/sh"), item{name: "bin/sh", link: "../../../../../../bin/dash"}), "/bin/sh"},
		"shell is empty":  {append(without("bin/sh"), item{name: "bin/sh"}), "/bin/sh"},
		"shell is dir":    {append(without("bin/sh"), item{name: "bin/sh/"}), "/bin/sh"},
		// P10
		"proc absolute":     {append(without("proc/"), item{name: "proc", link: "/etc"}), "/proc"},
		"proc relative":     {append(without("proc/"), item{name: "proc", link: "etc"}), "/proc"},
		"dev dangling":      {append(rootItems, item{name: "dev", link: "../../dev"}), "/dev"},
		"sys is file":       {append(rootItems, item{name: "sys", body: "x"}), "/sys"},
		"tmp is link":       {append(without("tmp/"), item{name: "tmp", link: "/var/tmp"}), "/tmp"},
		"workspace is link": {append(rootItems, item{name: "workspace", link: "/"}), "/workspace"},
		"etc is link":       {append(without("etc/"), item{name: "etc", link: "/usr/etc"}), "/etc"},
		"run is link":       {append(rootItems, item{name: "run", link: "/var/run"}), "/run"},
		"hosts is dir":      {append(rootItems, item{name: "etc/hosts/"}), "/etc/hosts"},
		// The extractor's own refusals come through.
		"leads out": {append(rootItems, item{name: "../x", body: "x"}), "leads out"},
		"nothing":   {nil, "empty"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "images")
			s := open(t, inDir(dir))
			_, err := s.Import(t.Context(), images.ImportRequest{Name: "x", Tar: bytes.NewReader(archive(t, tt.items...))})
			if !errdefs.Is(err, errdefs.Unprocessable) || !strings.Contains(errdefs.MessageOf(err), tt.says) {
				t.Errorf("got %v, want a refusal that mentions %s", err, tt.says)
			}
			for _, d := range []string{"names", "images", "staging"} {
				if left := entries(t, filepath.Join(dir, d)); len(left) > 0 {
					t.Errorf("%s holds %v", d, left)
				}
			}
		})
	}
}

// A merged /usr, links that lead to nothing, and files where mounts go that are
// links are ordinary.
func TestImportAccepts(t *testing.T) {
	img := importTar(t, open(t), "debian", archive(t,
		item{name: "./"}, item{name: "./usr/"}, item{name: "./usr/bin/"}, item{name: "./usr/bin/dash", body: "x"},
		item{name: "./usr/bin/sh", link: "dash"}, item{name: "./bin", link: "usr/bin"}, item{name: "./etc/"},
		item{name: "./etc/resolv.conf", link: "../run/systemd/resolve/stub-resolv.conf"},
		item{name: "./etc/mtab", link: "/proc/mounts"}, item{name: "./var/"}, item{name: "./var/run", link: "/run"}))
	if img.Shell != "/bin/sh" || len(img.Warnings) != 1 || !strings.Contains(img.Warnings[0], "resolv.conf") {
		t.Errorf("image %+v", img)
	}
}

func TestImportLimit(t *testing.T) {
	limits := extract.DefaultLimits()
	limits.Bytes = 20 << 10
	s := open(t, func(o *images.Options) { o.Limits = limits })
	_, err := s.Import(t.Context(), images.ImportRequest{Name: "x", Tar: bytes.NewReader(rootfs(t, item{name: "f", body: strings.Repeat("x", 30<<10)}))})
	if !errdefs.Is(err, errdefs.TooLarge) {
		t.Errorf("got %v, want TooLarge", err)
	}
}

func TestImportCanceled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	ctx, cancel := context.WithCancel(t.Context())
	data := rootfs(t, item{name: "f", body: strings.Repeat("x", 100<<10)})
	half := io.MultiReader(bytes.NewReader(data[:50<<10]), readerFunc(func([]byte) (int, error) {
		cancel()
		return 0, io.ErrUnexpectedEOF
	}))
	_, err := open(t, inDir(dir)).Import(ctx, images.ImportRequest{Name: "x", Tar: half})
	if err == nil {
		t.Error("half an archive is an image")
	}
	if left := entries(t, filepath.Join(dir, "staging")); len(left) > 0 {
		t.Errorf("staging holds %v", left)
	}
}

// A process that dies in the middle leaves staging, an image directory without
// its file, and half-written names. The next one works on, and GC sweeps.
func TestCrash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir))
	keep := importTar(t, s, "keep", rootfs(t))
	for _, rubbish := range []string{
		"staging/import-123/layer-1/fs/bin/sh", "staging/import-123/blob-abc",
		"names/.new-123", "images/" + strings.Repeat("ab", 32) + "/.new-1", "trash/123/was/x",
	} {
		p := filepath.Join(dir, rubbish)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte("half"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, inDir(dir))
	if list, err := s.List(t.Context()); err != nil || len(list) != 1 || !slices.Equal(list[0].Names, []string{"keep"}) {
		t.Errorf("List = %+v, %v", list, err)
	}
	importTar(t, s, "more", rootfs(t, item{name: "x", body: "x"}))
	swept, err := s.GC(t.Context(), unused)
	if err != nil || swept.Staging != 1 || swept.Images != 0 || swept.Layers != 0 {
		t.Errorf("GC = %+v, %v", swept, err)
	}
	if left := slices.Concat(entries(t, filepath.Join(dir, "staging")), entries(t, filepath.Join(dir, "trash"))); len(left) > 0 {
		t.Errorf("GC left %v", left)
	}
	if _, err := s.Rootfs(t.Context(), keep.Digest); err != nil {
		t.Error(err)
	}
	if swept, err := s.GC(t.Context(), unused); err != nil || swept != (images.Swept{}) {
		t.Errorf("a second GC = %+v, %v; want nothing to do", swept, err)
	}
}

// Many handles, as of many processes, import, list, remove and sweep at once.
func TestConcurrent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	shared := importTar(t, open(t, inDir(dir)), "shared", rootfs(t))
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			s := open(t, inDir(dir))
			for round := range 5 {
				name := fmt.Sprintf("w%d", worker)
				data := rootfs(t, item{name: "f", body: fmt.Sprint(round % 2)}) // equal ones meet
				img, err := s.Import(t.Context(), images.ImportRequest{Name: name, Tar: bytes.NewReader(data)})
				if err != nil {
					t.Errorf("import: %v", err)
					return
				}
				if problems, err := s.Validate(t.Context(), name); err != nil || len(problems) > 0 {
					t.Errorf("validate %s: %q, %v", img.Digest, problems, err)
				}
				if _, err := s.List(t.Context()); err != nil {
					t.Errorf("list: %v", err)
				}
				if _, err := s.GC(t.Context(), usedBy(shared.Digest)); err != nil {
					t.Errorf("gc: %v", err)
				}
				if err := s.Remove(t.Context(), name, unused); err != nil {
					t.Errorf("remove: %v", err)
				}
			}
		})
	}
	wg.Wait()
	s := open(t, inDir(dir))
	if list, err := s.List(t.Context()); err != nil || len(list) != 1 || list[0].Digest != shared.Digest {
		t.Errorf("List = %+v, %v; want the shared image only", list, err)
	}
	if problems, err := s.Validate(t.Context(), "shared"); err != nil || len(problems) > 0 {
		t.Errorf("the shared image: %q, %v", problems, err)
	}
}

func TestValidate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir))
	img := importTar(t, s, "x", rootfs(t))
	r, err := s.Rootfs(t.Context(), img.Digest)
	if err != nil {
		t.Fatal(err)
	}
	layer := r.Layers[0]
	meta := filepath.Join(dir, "images", strings.TrimPrefix(img.Digest, "sha256:"), "meta.json")
	metaText, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name   string
		change func() error
		says   string // "" is well
	}{
		{"untouched", func() error { return nil }, ""},
		{"file changed", func() error { return os.WriteFile(layer+"/bin/sh", []byte("evil"), 0o755) }, "changed on disk"},
		{"file restored", func() error { return os.WriteFile(layer+"/bin/sh", []byte("#!"), 0o755) }, ""},
		{"meta changed", func() error {
			return os.WriteFile(meta, bytes.Replace(metaText, []byte("LANG=C"), []byte("LANG=D"), 1), 0o600)
		}, "meta.json"},
		{"meta restored", func() error { return os.WriteFile(meta, metaText, 0o600) }, ""},
		{"files gone", func() error { return os.Rename(layer, layer+"-gone") }, "lost its files"},
		{"layer gone", func() error { return os.RemoveAll(filepath.Dir(layer)) }, "missing"},
	}
	for _, step := range steps {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		problems, err := s.Validate(t.Context(), "x")
		if err != nil || (step.says == "") != (len(problems) == 0) || !strings.Contains(strings.Join(problems, "\n"), step.says) {
			t.Errorf("%s: %q, %v; want %q", step.name, problems, err, step.says)
		}
	}
	if _, err := s.Validate(t.Context(), "absent"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("got %v", err)
	}
}

func TestDiskFull(t *testing.T) {
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		testenv.Unsupported(t, "mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s := open(t, inDir(filepath.Join(dir, "images")))
	big := rootfs(t, item{name: "f", body: strings.Repeat("x", 2<<20)})
	_, err := s.Import(t.Context(), images.ImportRequest{Name: "x", Tar: bytes.NewReader(big)})
	if !errdefs.Is(err, errdefs.InsufficientSpace) {
		t.Errorf("got %v, want InsufficientSpace", err)
	}
	// What it had written is gone again, so a smaller one fits.
	importTar(t, s, "small", rootfs(t))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
