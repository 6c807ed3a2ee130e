package attack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// named are images that look like the one that is allowed.
var named = []string{"python:3.12-evil", "evil/python:3.12", "localhost:5000/python:3.12", "python", "python:3.1", "xpython:3.12"}

// I01: with a list of allowed images a client gets those, by whatever name that
// leads to their content, and no other, whatever its name looks like.
func TestI01_AllowList(t *testing.T) {
	t.Parallel()
	st := stage(t, "").store(t)
	allowed := st.marked(t, "python:3.12", "allowed")
	other := ""
	for _, name := range named {
		other = st.marked(t, name, "other")
	}
	st.marked(t, "alias", "allowed")
	s := stageWith(t, blackbox.Options{Images: filepath.Join(st.data, "images")}, allowPython)
	create := func(image string) reply {
		a := s.a.do(t, "POST", "/v1/sessions", map[string]any{"image": image})
		if a.status == 201 {
			var made struct{ ID string }
			a.into(t, &made)
			b := &target{s.a, made.ID}
			if got := b.sh(t, "read x </marker; echo $x"); got != "allowed\n" {
				t.Errorf("%q is an image with %q", image, got)
			}
			b.end(t)
		}
		return a
	}
	short := strings.TrimPrefix(allowed, "sha256:")
	for _, name := range []string{"python:3.12", "docker.io/library/python:3.12", "index.docker.io/library/python:3.12", "python:3.12@" + allowed, allowed, "alias"} {
		create(name).refused(t, name, 201)
	}
	for _, name := range append(named, other, "python:latest", "python:3.12@"+other, "alias@"+other, "python@"+allowed, "absent", "sha256:"+strings.Repeat("0", 64), short[:12]) {
		create(name).refused(t, name, 403, 404)
	}
	for _, name := range []string{
		"PYTHON:3.12", " python:3.12", "python:3.12 ", "python:3.12\n", "python:3.12\x00", "pyth\u043en:3.12", "sha256:" + short[:12], "SHA256:" + short, "allowed/../evil", "../python:3.12", "/python:3.12",
		"python:3.12/", "--privileged", "-v", "", "python:3.12,x", `python\x`, "python:3.12:evil", "http://python", "python:3.12?x", "\u202epython", "../names/python:3.12", "python:3.12@md5:" + short, "${jndi:ldap://127.0.0.1}", "python:3.12#", "python:3.12%00",
	} {
		create(name).refused(t, name, 400)
	}
}

// I02: when a name is given to other content, what is allowed moves with it, and
// who has a session keeps what it began with.
func TestI02_MovedNames(t *testing.T) {
	t.Parallel()
	st := stage(t, "").store(t)
	allowed := st.marked(t, "python:3.12", "allowed")
	st.marked(t, "alias", "allowed")
	s := stageWith(t, blackbox.Options{Images: filepath.Join(st.data, "images")}, allowPython)
	b := s.a.session(t, nil)
	moved := st.marked(t, "python:3.12", "moved")
	for image, want := range map[*target]string{b: allowed, s.a.session(t, nil): moved} {
		var is struct {
			Digest string `json:"image_digest"`
		}
		s.a.do(t, "GET", image.at(""), nil).into(t, &is)
		if is.Digest != want {
			t.Errorf("a session has %s, want %s", is.Digest, want)
		}
	}
	b.do(t, "POST", b.at("/stop"), nil).refused(t, "stop", 200)
	b.do(t, "POST", b.at("/start"), nil).refused(t, "start", 200)
	if got := b.sh(t, "read x </marker; echo $x"); got != "allowed\n" {
		t.Errorf("after a start the session has the image %q", got)
	}
	for _, name := range []string{"alias", allowed, "python:3.12@" + allowed} {
		s.a.do(t, "POST", "/v1/sessions", map[string]any{"image": name}).refused(t, "the old content as "+name, 403, 404)
	}
}

const allowPython = "default_image: python:3.12\nallowed_images: [\"python:3.12\"]"

// marked imports the smallest image that runs, with a file that tells it from
// others, and returns its digest.
func (s *store) marked(t testing.TB, name, content string) (digest string) {
	t.Helper()
	if text, err := s.load(t, name, tarOf(t, append(shellRoot(t), entry{name: "marker", body: content})...)); err != nil {
		t.Fatalf("%s: %v %s", name, err, text)
	}
	text, err := s.image(t, nil, "inspect", name)
	_, rest, ok := strings.Cut(text, `"digest": "sha256:`)
	if err != nil || !ok || len(rest) < 64 {
		t.Fatalf("inspect %s: %v %s", name, err, text)
	}
	return "sha256:" + rest[:64]
}

// shellRoot is a root file system of a shell and its libraries.
func shellRoot(t testing.TB) (root []entry) {
	t.Helper()
	base := testenv.BaseRootfs(t)
	for _, file := range []string{"bin/sh", "lib/x86_64-linux-gnu/libc.so.6", "lib64/ld-linux-x86-64.so.2"} {
		content, err := os.ReadFile(filepath.Join(base, file))
		if err != nil {
			t.Fatal(err)
		}
		root = append(root, entry{name: file, body: string(content), mode: 0o755})
	}
	return root
}
