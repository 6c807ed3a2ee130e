package check

import (
	"path"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
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
		dir := cwd
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
