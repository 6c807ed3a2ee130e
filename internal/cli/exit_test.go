package cli_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func TestExitCodesAndWhatIsSaid(t *testing.T) {
	refused := &sandkasten.APIError{Status: 404, Code: "not_found", Message: "no such session\x1b[2J"}
	away := &sandkasten.ConnectionError{URL: "http://x", Op: "GET /v1/sessions", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}
	broken := &sandkasten.ConnectionError{URL: "http://x", Op: "GET /v1/sessions", Sent: true, Err: io.ErrUnexpectedEOF}
	tests := map[string]struct {
		err  error
		code int
		says string
	}{
		"fine":           {nil, 0, ""},
		"command's code": {cli.CodeError(7), 7, ""},
		"ctrl-c":         {cli.SignalError(syscall.SIGINT), 130, ""},
		"terminated":     {errors.Join(cli.SignalError(syscall.SIGTERM)), 143, ""},
		"refused":        {refused, 1, `no such session\x1b[2J`},
		"no such exec":   {&sandkasten.APIError{Status: 404, Code: "not_found", Message: "no such exec; list the session's execs for those that it still knows"}, 1, "`sandkasten ps` list"},
		"refused in run": {cli.NotRun(refused), 125, `no such session`},
		"a flag":         {&sandkasten.APIError{Code: "invalid_argument", Field: "ttl_seconds", Message: "ttl_seconds must be at most 5400, by the daemon's max_session_ttl_seconds"}, 2, "sandkasten: --ttl must be at most 90m, by the daemon's max_session_ttl_seconds\n"},
		"a flag of time": {cli.NotRun(&sandkasten.APIError{Code: "invalid_argument", Field: "timeout_ms", Message: "timeout_ms must be between 1 and 86400000"}), 125, "sandkasten: --timeout must be between 1ms and 1d\n"},
		"a flag deeper":  {&sandkasten.APIError{Code: "invalid_argument", Field: "limits.memory_mb", Message: "limits.memory_mb must be between 16 and 32, by the daemon's maximum.mem_limit_mb"}, 2, "--memory must be between 16 and 32 MiB, by the daemon's maximum.mem_limit_mb"},
		"no unit":        {&sandkasten.APIError{Code: "invalid_argument", Field: "limits.cpu", Message: "cpu must be at most 4"}, 2, "sandkasten: --cpu must be at most 4\n"},
		"its own name":   {cli.NotRun(&sandkasten.APIError{Code: "invalid_argument", Field: "file_scope", Message: "file_scope must be one of a, b"}), 125, "sandkasten: --file-scope must be one of a, b\n"},
		"no such flag":   {&sandkasten.APIError{Code: "invalid_argument", Field: "cursor", Message: "cursor must be a number"}, 2, "sandkasten: cursor must be a number"},
		"an argument":    {cli.Wrong("name the sessions"), 2, "sandkasten: name the sessions\n"},
		"older daemon":   {&sandkasten.APIError{Status: 405, Code: "method_not_allowed", Message: "this path does not take POST"}, 1, "it is probably older than this program. `sandkasten version`"},
		"no daemon":      {away, 3, "start one with `sandkasten daemon`"},
		"no daemon, run": {cli.NotRun(away), 125, "no daemon at http://x (refused)"},
		"broken off":     {broken, 1, "sandkasten: the connection to http://x broke: unexpected EOF"},
		"bad key":        {&sandkasten.APIError{Code: "unauthenticated", Message: "a key is needed"}, 1, "SANDKASTEN_API_KEY"},
		"internal":       {&sandkasten.APIError{Code: "internal", Message: "internal error", RequestID: "r1"}, 1, "Request id: r1"},
		"configuration":  {&config.Error{Problems: []config.Problem{{Where: "line 1", Key: "x", Message: "unknown key"}}}, 2, "line 1: x: unknown key"},
		"something else": {errors.New("disk is full"), 1, "sandkasten: disk is full"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			a := &cli.App{Err: &said, HasFlag: func(name string) bool { return name != "cursor" }}
			if code := a.Exit(test.err); code != test.code {
				t.Errorf("exit code = %d, want %d", code, test.code)
			}
			if !strings.Contains(said.String(), test.says) || test.says == "" && said.Len() > 0 {
				t.Errorf("said %q, want %q in it", said.String(), test.says)
			}
		})
	}
}
