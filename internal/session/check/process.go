package check

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/session/ids"
	"github.com/sandkasten/sandkasten/protocol"
)

// maxArgument is what the kernel takes as one argument or variable.
const maxArgument = 128<<10 - 1

// Variables are an environment as a program is given it.
func Variables(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list) // so that one request is one payload
	return list
}

// Args refuses a command that has no program.
func Args(args []string) error {
	if len(args) == 0 || args[0] == "" {
		return errdefs.Invalid("cmd", "must begin with a program, like [\"ls\", \"-l\"]")
	}
	return nil
}

// ProcessEnv refuses variables that no program can be given.
func ProcessEnv(env map[string]string) error {
	for name := range env {
		if !IsEnvName(name) {
			return errdefs.Invalid("env", "must have names of letters, digits and '_' that do not start with a digit")
		}
	}
	return Strings("env", Variables(env))
}

// Strings refuses arguments or variables that no program can be given.
func Strings(field string, list []string) error {
	total := 0
	for _, text := range list {
		total += len(text) + 1
		if strings.ContainsRune(text, 0) {
			return errdefs.Invalid(field, "must not contain a NUL byte")
		}
		if len(text) > maxArgument {
			err := errdefs.New(errdefs.TooLarge, "each entry of %s must be at most %d bytes", field, maxArgument)
			err.Field = field
			return err
		}
	}
	if total > protocol.MaxArguments {
		return errdefs.OverLimit(field, protocol.MaxArguments)
	}
	return nil
}

// Process refuses a program that cannot be asked for.
func Process(id string, args []string, env map[string]string, stdin []byte, cwd, user string) error {
	if err := NewExecID(id); err != nil {
		return err
	}
	if err := Strings("cmd", args); err != nil {
		return err
	}
	if err := ProcessEnv(env); err != nil {
		return err
	}
	switch {
	case len(stdin) > protocol.MaxCommand:
		return errdefs.OverLimit("stdin", protocol.MaxCommand)
	case len(cwd) > protocol.MaxPath || strings.ContainsRune(cwd, 0):
		return errdefs.Invalid("cwd", "must be a path of at most %d bytes without NUL", protocol.MaxPath)
	}
	return User(user)
}

// Command refuses a command that no shell can be asked for.
func Command(id, command string, stdin []byte, shell string) error {
	if err := NewExecID(id); err != nil {
		return err
	}
	switch {
	case command == "":
		return errdefs.Invalid("cmd", "must not be empty")
	case len(command) > protocol.MaxCommand:
		return errdefs.OverLimit("cmd", protocol.MaxCommand)
	case len(stdin) > protocol.MaxCommand:
		return errdefs.OverLimit("stdin", protocol.MaxCommand)
	case strings.ContainsRune(command, 0) && !protection.Off(protection.CommandText):
		return errdefs.Invalid("cmd", "must not contain a NUL byte")
	case shell != "" && !IsName(shell):
		return errdefs.Invalid("shell", "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'")
	}
	return nil
}

// NewExecID refuses what a client cannot choose as the id of an exec. Without one the
// exec gets its own.
func NewExecID(id string) error {
	if id != "" && !ids.Is(id) {
		return errdefs.Invalid("exec_id", "must be 26 of a-z and 2-7, chosen at random")
	}
	return nil
}

// ExecID refuses what is the id of no exec.
func ExecID(id string) error {
	if !ids.Is(id) {
		return errdefs.New(errdefs.NotFound, "no such exec; list the session's execs for those that it still knows").Because(errdefs.NoSuchExec)
	}
	return nil
}

// Timeout is the timeout of an exec that asks for one: the default for 0.
func Timeout(asked, otherwise, most time.Duration) (time.Duration, error) {
	switch {
	case asked < 0:
		return 0, errdefs.Invalid("timeout_ms", "must not be negative")
	case asked > most:
		return 0, overSetting("timeout_ms", "must be at most %d", most.Milliseconds())
	case asked > 0 && asked < time.Millisecond:
		return time.Millisecond, nil // 0 would be no timeout on the wire
	case asked == 0:
		return otherwise, nil
	}
	return asked, nil
}

// CommandLine is a shell's command with the directory and the variables that are asked for
// with it. The command itself stays in quotes, so that it is one word of ours
// whatever is in it.
func CommandLine(command, cwd string, env map[string]string) (string, error) {
	if cwd == "" && len(env) == 0 {
		return command, nil
	}
	if len(cwd) > protocol.MaxPath || strings.ContainsRune(cwd, 0) {
		return "", errdefs.Invalid("cwd", "must be a path of at most %d bytes without NUL", protocol.MaxPath)
	}
	if err := ProcessEnv(env); err != nil {
		return "", err
	}
	var b strings.Builder
	if cwd != "" {
		dir := protocol.UnescapeName(cwd)
		if !path.IsAbs(dir) {
			dir = "./" + dir // neither an option, nor - for the one before, nor looked up in CDPATH
		}
		b.WriteString(`\command cd -- ` + quoted(dir) + " && ")
	}
	for _, kv := range Variables(env) {
		name, value, _ := strings.Cut(kv, "=")
		b.WriteString(name + "=" + quoted(value) + " ")
	}
	b.WriteString(`\command eval ` + quoted(command))
	if b.Len() > protocol.MaxCommand {
		return "", errdefs.OverLimit("cmd", protocol.MaxCommand)
	}
	return b.String(), nil
}

// quoted is one word of any shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
