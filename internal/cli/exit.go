package cli

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Exit codes. run, exec and shell end with the code of what ran inside, so
// their own failures have a code that programs rarely use.
const (
	ExitFailed   = 1
	ExitUsage    = 2   // wrong arguments, whoever sees it, or mistakes in the configuration
	ExitNoDaemon = 3   // nothing answers
	ExitTimeout  = 124 // run, exec: the command's time was up
	ExitNotRun   = 125 // run, exec, shell: the command could not be run
	ExitSignaled = 128 // and the signal's number
)

// Explanation tells users about the exit codes.
const Explanation = `
Exit codes:
  0    it worked
  1    it failed
  2    wrong flags or arguments, or mistakes in the configuration
  3    no daemon answers
  run, exec, wait and shell exit with the code of the command inside;
  124 means that its time was up, and 125 that it could not run.
`

// A SignalError is why a context ended: somebody sent us a signal.
type SignalError syscall.Signal

func (e SignalError) Error() string { return syscall.Signal(e).String() }

// CodeError ends the process with a code and says nothing more.
type CodeError int

func (e CodeError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// notRunError is a failure of run, exec or shell itself.
type notRunError struct{ error }

func (e notRunError) Unwrap() error { return e.error }

// NotRun marks a failure of run, exec or shell itself, which has an exit code of
// its own.
func NotRun(err error) error { return notRunError{err} }

// usageError is about what the user wrote.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Wrong is an error about the arguments of a command, which has an exit code of its own.
func Wrong(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// isUsage reports whether what the user wrote is wrong, as we see it or as the daemon does.
func isUsage(err error) bool {
	_, ours := errors.AsType[usageError](err)
	_, config := errors.AsType[*config.Error](err)
	refused, ok := errors.AsType[*sandkasten.APIError](err)
	return ours || config || ok && refused.Code == "invalid_argument"
}

// Exit tells the user about err and returns the process's exit code.
func (a *App) Exit(err error) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[CodeError](err); ok {
		return int(code)
	}
	if s, ok := errors.AsType[SignalError](err); ok {
		return ExitSignaled + int(s)
	}
	a.Say("sandkasten: %s", a.inFlags(err, Explain(err)))
	if _, ok := errors.AsType[notRunError](err); ok {
		return ExitNotRun
	}
	if isUsage(err) {
		return ExitUsage
	}
	if lost, ok := errors.AsType[*sandkasten.ConnectionError](err); ok && !lost.Sent {
		return ExitNoDaemon
	}
	return ExitFailed
}

// commands says in ours what the API's messages say in routes.
var commands = strings.NewReplacer(
	"GET /v1/sessions lists", "`sandkasten ls` lists",
	"GET /v1/workspaces lists", "`sandkasten workspace ls` lists",
	"GET /v1/secrets lists", "`sandkasten secret ls` lists",
	"GET /v1/snapshots lists", "`sandkasten snapshot ls` lists",
	"list the session's execs for those that it still knows", "`sandkasten logs` and `sandkasten ps` list those that a session still knows",
	"GET contexts lists those that it has", "leave --context out for the default one",
	"GET /docs lists them all", "is the daemon at this URL Sandkasten's, and of this version?",
)

// Explain turns an error into what the user can do about it.
func Explain(err error) string {
	if lost, ok := errors.AsType[*sandkasten.ConnectionError](err); ok && !lost.Sent {
		cause := lost.Err
		if dial, ok := errors.AsType[*net.OpError](cause); ok {
			cause = dial.Err // the address is said before it
		}
		return fmt.Sprintf("no daemon at %s (%v): start one with `sandkasten daemon`, or name another with --url", lost.URL, cause)
	}
	if lost, ok := errors.AsType[*sandkasten.ConnectionError](err); ok {
		return fmt.Sprintf("the connection to %s broke: %v", lost.URL, lost.Err)
	}
	if refused, ok := errors.AsType[*sandkasten.APIError](err); ok {
		text := commands.Replace(show.Visible(err.Error(), "\n")) // a daemon wrote it
		if errors.Is(refused, sandkasten.ErrAuthentication) {
			text += "\nThe key comes from --api-key, SANDKASTEN_API_KEY, or the configuration (api_key, else <data_dir>/api_key)."
		}
		if refused.Code == "method_not_allowed" {
			text = "the daemon does not know what this command asks for: it is probably older than this program. `sandkasten version` shows the versions of both; use the same one (" + text + ")"
		}
		if errors.Is(refused, sandkasten.ErrInternal) && refused.RequestID != "" {
			text += "\nRequest id: " + show.Printable(refused.RequestID)
		}
		return text
	}
	return err.Error()
}
