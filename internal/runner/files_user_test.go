package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// A request with a user has that user's rights, neither more nor less, and what it
// makes is the user's.
func TestFilesOfAUser(t *testing.T) {
	testenv.NeedsRoot(t)
	h := newHost(t, withTool(t))
	p := h.dial()
	for _, dir := range []string{filepath.Dir(h.workspace), filepath.Dir(filepath.Dir(h.workspace))} { // of t.TempDir
		must(t, os.Chmod(dir, 0o755))
	}
	secret, open := filepath.Join(h.workspace, "secret"), filepath.Join(h.workspace, "open")
	must(t, os.WriteFile(secret, []byte("x"), 0o600))
	must(t, os.Mkdir(open, 0o777))
	must(t, os.Chmod(open, 0o777))
	denied := func(what string, err error) {
		t.Helper()
		if e, ok := errors.AsType[*refused](err); !ok || e.e.Code != protocol.CodeDenied || e.e.Reason != protocol.ReasonNoPermission {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, _, err := p.read(protocol.Read{Path: "secret", User: "1234"})
	denied("read", err)
	denied("write", p.write(protocol.Write{Path: "secret", User: "1234"}, []byte("y")))
	_, err = p.fileOp(protocol.TypeRemove, protocol.Remove{Path: "secret", User: "1234"}, nil, protocol.TypeOK, nil)
	denied("remove", err)
	_, err = p.fileOp(protocol.TypeChmod, protocol.Chmod{Path: "secret", Mode: 0o666, User: "1234"}, nil, protocol.TypeOK, nil)
	denied("chmod", err)
	_, err = p.fileOp(protocol.TypeMkdir, protocol.Mkdir{Path: "made", User: "1234"}, nil, protocol.TypeOK, nil)
	denied("mkdir", err)

	must(t, p.write(protocol.Write{Path: "open/a", Mode: 0o600, User: "1234:77"}, []byte("mine")))
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(open, "a"), &st))
	if st.Uid != 1234 || st.Gid != 77 {
		t.Errorf("the file is of %d:%d", st.Uid, st.Gid)
	}
	if _, got, err := p.read(protocol.Read{Path: "open/a", User: "1234"}); err != nil || string(got) != "mine" {
		t.Errorf("%q, %v", got, err)
	}
	_, _, err = p.read(protocol.Read{Path: "open/a", User: "1235:77"})
	denied("another user", err)
	if _, got, err := p.read(protocol.Read{Path: "secret"}); err != nil || string(got) != "x" {
		t.Errorf("the sandbox's own: %q, %v", got, err)
	}
	if _, got, err := p.read(protocol.Read{Path: "secret", User: "0"}); err != nil || string(got) != "x" {
		t.Errorf("root: %q, %v", got, err)
	}
	if _, _, err := p.read(protocol.Read{Path: "secret", User: "nobodyknows"}); err == nil {
		t.Error("a user that is not there may read")
	}
}

// Where all is one user's, a request cannot be somebody else's, root's least of all.
func TestFilesOfOneUserAlone(t *testing.T) {
	testenv.NeedsRoot(t)
	h := newHost(t, withTool(t), func(o *runner.Options) { o.User = &runner.User{UID: 1234, GID: 1234} })
	p := h.dial()
	for _, user := range []string{"0", "0:0", "root", "1234:0", "1235"} {
		_, _, err := p.read(protocol.Read{Path: "/etc/shadow", AllowOutside: true, User: user})
		if e, ok := errors.AsType[*refused](err); !ok || e.e.Code != protocol.CodeUnprocessable || e.e.Field != "user" {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// A runner that lacks the means says so, and does not work with its own rights.
func TestFilesOfAUserWithoutMeans(t *testing.T) {
	h := newHost(t) // without a tool
	p := h.dial()
	err := p.write(protocol.Write{Path: "a", User: "1234"}, []byte("x"))
	if e, ok := errors.AsType[*refused](err); !ok || e.e.Code != protocol.CodeUnprocessable || e.e.Field != "user" {
		t.Error(err)
	}
}
