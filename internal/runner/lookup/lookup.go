// Package lookup finds what a request names: a program, the user that it is to
// run as, and why it cannot be started. The sandbox wrote everything that is
// read here, so that is bounded and may make no sense.
package lookup

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/spawn"
	"github.com/sandkasten/sandkasten/protocol"
)

// Program looks a program up as execvp does: a name without a slash in the PATH
// of env, whose relative elements begin at dir.
func Program(name string, env []string, dir string) (string, error) {
	if name == "" {
		return "", protocol.Refuse(protocol.CodeUnprocessable, "the program's name is empty").For("cmd")
	}
	if strings.Contains(name, "/") {
		return name, nil
	}
	list, found := "", ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			list = v
		}
	}
	for element := range strings.SplitSeq(list, ":") {
		if !path.IsAbs(element) {
			element = path.Join(dir, element)
		}
		file := path.Join(element, name)
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return file, nil
		}
		found = file
	}
	if found != "" {
		return "", protocol.Refuse(protocol.CodeUnprocessable, "%q is not executable; make it so with chmod +x", found).For("cmd").Because(protocol.ReasonNotExecutable)
	}
	return "", protocol.Refuse(protocol.CodeUnprocessable, "no program %q in the sandbox's PATH (%s); install it, or give its whole path", name, list).For("cmd").Because(protocol.ReasonProgramNotFound)
}

// Env returns base with the variables of extra, NAME=VALUE each, instead
// of its own or beside them.
func Env(base, extra []string) []string {
	env := make([]string, 0, len(base)+len(extra))
	last := make(map[string]int, len(base)+len(extra)) // where a name's value is
	for _, kv := range slices.Concat(base, extra) {
		name, _, _ := strings.Cut(kv, "=")
		if at, ok := last[name]; ok {
			env[at] = kv
			continue
		}
		last[name] = len(env)
		env = append(env, kv)
	}
	return env
}

// Attempt is what could not be started.
type Attempt struct {
	Program string // what was to be executed
	Dir     string // where, an absolute path
	User    string // as whom, in the client's words; "" is the sandbox's own
}

// Explain says what to do about it. err is what package spawn returned.
func Explain(err error, a Attempt) error {
	step, ok := errors.AsType[*spawn.StepError](err)
	if !ok {
		return protocol.Refuse(protocol.CodeUnavailable, "the program cannot be started (%v); the sandbox may be out of memory or processes", err)
	}
	refuse := func(field, format string, args ...any) *protocol.Error {
		return protocol.Refuse(protocol.CodeUnprocessable, format, args...).For(field)
	}
	dir := strings.HasPrefix(step.Step, "chdir ")
	switch {
	case dir && step.Errno == unix.ENOENT:
		return refuse("cwd", "the working directory %q does not exist; make it, or give another cwd", a.Dir).Because(protocol.ReasonNoSuchFile)
	case dir:
		return refuse("cwd", "the working directory %q cannot be entered: %v", a.Dir, step.Errno).Because(dirReason(step.Errno))
	case strings.HasPrefix(step.Step, "set") && a.User != "":
		return refuse("user", "the sandbox may not run programs as %q: %s", a.User, step.Error())
	case !strings.HasPrefix(step.Step, "exec"):
		return protocol.Refuse(protocol.CodeUnavailable, "the program cannot be started (%s)", step.Error())
	case step.Errno == unix.ENOENT && a.exists():
		return refuse("cmd", "%q names an interpreter (its #! line, or its dynamic loader) that the sandbox does not have", a.Program).Because(protocol.ReasonNotExecutable)
	case step.Errno == unix.ENOENT:
		return refuse("cmd", "no program %q in the sandbox", a.Program).Because(protocol.ReasonProgramNotFound)
	case step.Errno == unix.EACCES:
		return refuse("cmd", "%q is not executable, or not for this user; make it so with chmod +x", a.Program).Because(protocol.ReasonNotExecutable)
	case step.Errno == unix.ENOEXEC:
		return refuse("cmd", "%q is neither a program for this machine nor a script with a #! line; run it with its interpreter, as in [\"sh\", %q]", a.Program, a.Program).Because(protocol.ReasonNotExecutable)
	case step.Errno == unix.E2BIG:
		return refuse("cmd", "the arguments and the environment are too long together, or one of them is longer than 128 KiB; pass long input as stdin or in a file")
	}
	return refuse("cmd", "%q cannot be run: %v", a.Program, step.Errno)
}

// dirReason says why a directory cannot be entered.
func dirReason(errno unix.Errno) string {
	switch errno {
	case unix.ENOTDIR:
		return protocol.ReasonNotADirectory
	case unix.EACCES, unix.EPERM:
		return protocol.ReasonNoPermission
	}
	return ""
}

// exists reports whether there is a file, seen from its directory.
func (a Attempt) exists() bool {
	file := a.Program
	if !path.IsAbs(file) {
		file = path.Join(a.Dir, a.Program)
	}
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}
