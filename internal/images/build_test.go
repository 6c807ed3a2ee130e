package images_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// tiny is a recipe that builds fast.
func tiny(t *testing.T) images.Recipe {
	t.Helper()
	r, err := images.ParseRecipe(strings.NewReader(`
suite: bookworm
packages: [less]
env: {FROM_RECIPE: "yes"}
working_dir: /workspace
exclude: [/usr/share/doc/*, /usr/share/man/*]
`))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBuild(t *testing.T) {
	testenv.NeedsRoot(t)
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, inDir(dir))
	var phases []string
	req := images.BuildRequest{
		Name: "tiny", Recipe: tiny(t), IfAbsent: true,
		Progress: func(p images.Progress) { phases = append(phases, p.Phase) },
	}
	img, err := s.Build(t.Context(), req)
	if errdefs.Is(err, errdefs.Unimplemented) {
		testenv.Unsupported(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if img.Shell != "/bin/bash" || img.WorkingDir != "/workspace" || !slices.Contains(img.Env, "FROM_RECIPE=yes") || img.Recipe == "" {
		t.Errorf("image %+v", img)
	}
	if !slices.Contains(phases, "running apt-get update") || phases[len(phases)-1] != "store" {
		t.Errorf("phases %q", phases)
	}
	v := view(t, s, img.Digest)
	conf, err := v.ReadFile("etc/apt/apt.conf.d/99mmdebstrap", 1<<10)
	if err != nil || !strings.Contains(string(conf), `APT::Sandbox::User "root"`) {
		t.Errorf("apt is set up with %q, %v", conf, err)
	}
	if _, err := v.Stat("usr/bin/less"); err != nil {
		t.Errorf("a package of the recipe is not there: %v", err)
	}
	if _, err := v.Stat("usr/share/doc/less"); err == nil {
		t.Error("excluded files are there")
	}
	if problems, err := s.Validate(t.Context(), "tiny"); err != nil || len(problems) > 0 {
		t.Errorf("validate: %q, %v", problems, err)
	}
	if left := entries(t, filepath.Join(dir, "staging")); len(left) > 0 {
		t.Errorf("staging holds %v", left)
	}

	// The same recipe again: nothing is run.
	t.Setenv("PATH", t.TempDir())
	again, err := s.Build(t.Context(), req)
	if err != nil || again.Digest != img.Digest {
		t.Errorf("a second build: %+v, %v", again, err)
	}
	req.Recipe.Packages = append(req.Recipe.Packages, "nano")
	if _, err := s.Build(t.Context(), req); !errdefs.Is(err, errdefs.Unimplemented) || !strings.Contains(err.Error(), "apt-get install mmdebstrap") {
		t.Errorf("without mmdebstrap: %v", err)
	}
}

// The builder's last words reach the person who started it, and nothing stays.
func TestBuildFails(t *testing.T) {
	testenv.NeedsRoot(t)
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for name, tt := range map[string]struct {
		script string
		code   errdefs.Code
		says   string
	}{
		"no network":   {"echo 'E: cannot reach the mirror' >&2; exit 1", errdefs.Unavailable, "cannot reach the mirror"},
		"empty output": {"exit 0", errdefs.Unprocessable, "archive"},
		"garbage":      {"head -c 100000 /dev/urandom; exit 0", errdefs.Unprocessable, "archive"},
		"fails late":   {"head -c 100000 /dev/zero; echo late >&2; exit 7", errdefs.Unavailable, "late"},
		"long line":    {"head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1", errdefs.Unavailable, "mmdebstrap"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(bin, "mmdebstrap"), []byte("#!/bin/sh\n"+tt.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "images")
			_, err := open(t, inDir(dir)).Build(t.Context(), images.BuildRequest{Name: "x", Recipe: tiny(t)})
			if !errdefs.Is(err, tt.code) || !strings.Contains(errdefs.MessageOf(err), tt.says) {
				t.Errorf("got %v (%s), want %s with %q", err, errdefs.CodeOf(err), tt.code, tt.says)
			}
			for _, d := range []string{"names", "images", "staging", "layers"} {
				if left := entries(t, filepath.Join(dir, d)); len(left) > 0 {
					t.Errorf("%s holds %v", d, left)
				}
			}
		})
	}
}

// The builder sees the mount namespace of nobody else, and its options are one
// word each.
func TestBuildArguments(t *testing.T) {
	testenv.NeedsRoot(t)
	bin, seen := t.TempDir(), filepath.Join(t.TempDir(), "seen")
	script := "#!/bin/sh\n{ readlink /proc/self/ns/mnt; echo \"$TMPDIR\"; printf '%s\\n' \"$@\"; } > " + seen + "\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "mmdebstrap"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	dir := filepath.Join(t.TempDir(), "images")
	_, err := open(t, inDir(dir)).Build(t.Context(), images.BuildRequest{Name: "x", Recipe: tiny(t), Mirror: "http://mirror.example/debian"})
	if err == nil {
		t.Fatal("a failed build made an image")
	}
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil || lines[0] == own {
		t.Errorf("the builder's mounts are in the host's namespace %s, %v", own, err)
	}
	if !strings.HasPrefix(lines[1], filepath.Join(dir, "staging")) {
		t.Errorf("the builder works in %s", lines[1])
	}
	if tail := lines[len(lines)-3:]; !slices.Equal(tail, []string{"bookworm", "-", "http://mirror.example/debian"}) {
		t.Errorf("the last arguments are %q", tail)
	}
	if !slices.Contains(lines, "--include=less") || !slices.Contains(lines, "--dpkgopt=path-exclude=/usr/share/doc/*") {
		t.Errorf("arguments %q", lines)
	}
}
