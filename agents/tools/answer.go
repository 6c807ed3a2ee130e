package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// workspace is where sandboxes have their files.
const workspace = "/workspace"

// workspacePath is where a path of a call leads: /workspace/a, workspace/a and a are
// one file.
func workspacePath(field, name string) (string, error) {
	if strings.ContainsRune(name, 0) || !utf8.ValidString(name) {
		return "", wrongInput("%s must be text without NUL bytes", field)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", wrongInput("%s must not contain ..: write it from the workspace's root, as src/main.py", field)
		}
	}
	clean := path.Clean(name)
	switch {
	case name == "" || clean == "." || clean == "/workspace" || clean == "workspace":
		return workspace, nil
	case strings.HasPrefix(clean, "/workspace/"):
		return clean, nil
	case strings.HasPrefix(clean, "/"):
		return "", wrongInput("%s is %s, outside of /workspace: use a path such as src/main.py, or sandbox_exec with cat or cp for other places", field, name)
	}
	return workspace + "/" + strings.TrimPrefix(clean, "workspace/"), nil
}

// relative is a path as calls and answers show it.
func relative(name string) string {
	if name == workspace {
		return "."
	}
	return strings.TrimPrefix(name, workspace+"/")
}

// shorten keeps the head and the tail of a text that is longer than most bytes, and
// says in between what is cut and how to read it.
func shorten(text string, most int, how string) (short string, cut bool) {
	if len(text) <= most {
		return text, false
	}
	head, tail := most*2/3, most/3
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	from := len(text) - tail
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return fmt.Sprintf("%s\n[... %d bytes cut; %s ...]\n%s", text[:head], from-head, how, text[from:]), true
}

// stream is one output of a command as a model reads it: text, with U+FFFD in place of
// what is none (lossy).
func stream(text, encoded string, most int, how string) (shown string, lossy, cut bool, err error) {
	data := []byte(text)
	if encoded != "" {
		if data, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return "", false, false, fmt.Errorf("decode output: %w", err)
		}
	}
	text, lossy = readable(data)
	shown, cut = shorten(text, most, how)
	return shown, lossy, cut, nil
}

// exactBytes is base64 of an output that is not shown as it is, and else empty.
func exactBytes(text, encoded string) string {
	if encoded == "" && strings.ContainsRune(text, 0) {
		return base64.StdEncoding.EncodeToString([]byte(text))
	}
	return encoded
}

// readable is text with one U+FFFD for each run of bytes that are none. NUL is none: JSON
// writes six characters for it.
func readable(data []byte) (text string, lossy bool) {
	if utf8.Valid(data) && !bytes.ContainsRune(data, 0) {
		return string(data), false
	}
	data = bytes.ReplaceAll(data, []byte{0}, []byte{0xff})
	return strings.ToValidUTF8(string(data), string(utf8.RuneError)), true
}

// failed is the answer of a call that could not be done.
type failed struct {
	Error  string            `json:"error"`
	Code   string            `json:"code,omitempty"`
	Reason sandkasten.Reason `json:"reason,omitempty"`
}

// Refusal is the answer of a call that could not be made: what Call answers with an
// error of its own.
func Refusal(name string, err error) Result { return failure(Tool{}, name, err) }

func failure(tool Tool, name string, err error) Result {
	answer := failed{Error: name + ": " + withoutRoutes(err.Error()), Code: "invalid_argument"}
	var refused *sandkasten.APIError
	var input *InputError
	switch {
	case errors.As(err, &input):
	case errors.As(err, &refused):
		answer.Code, answer.Reason = refused.Code, refused.Reason
	case errors.Is(err, context.Canceled):
		answer.Code = "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		answer.Code = "timeout"
	case errors.Is(err, fs.ErrNotExist):
		answer.Code = "not_found"
	default:
		answer.Code = "unavailable"
	}
	if refused != nil && !tool.hasField(refused.Field) && fieldSteps[refused.Field] != "" {
		answer.Error += ". " + fieldSteps[refused.Field]
	}
	if next := nextStep(answer, err); next != "" {
		answer.Error += ". " + next
	}
	return Result{JSON: encode(answer), IsError: true}
}

// route is in what the daemon says to programs that send requests themselves.
var route = regexp.MustCompile(`\b(GET|POST|PUT|PATCH|DELETE) (/|fs/)`)

// withoutRoutes leaves out the parts of a message that send its reader to a route, where a
// model has tools.
func withoutRoutes(message string) string {
	kept := ""
	for i, part := range strings.Split(message, "; ") {
		switch {
		case i == 0:
			kept = part
		case !route.MatchString(part):
			kept += "; " + part
		}
	}
	return kept
}

// fieldSteps says what the daemon's fields are in tools, where the names differ.
var fieldSteps = map[string]string{
	"timeout_ms":     "It is timeout_seconds, times 1000. A program that needs more: sandbox_exec with stream true and without timeout_seconds.",
	"ttl_seconds":    "It is limits.timeout_seconds.",
	"limits.cpu":     "It is limits.cpu_millicores, by 1000.",
	"limits.disk_mb": "It is limits.workspace_mb.",
	"workspace_id":   "It is the field workspace.",
	"network_mode":   "It is the field network.",
	"network.mode":   "It is the field network.",
	"cmd":            "It is the field command.",
}

// reasonSteps says what to do about an error of the daemon.
var reasonSteps = map[sandkasten.Reason]string{
	sandkasten.ReasonNoSuchFile:       "See what is there with sandbox_fs_list or sandbox_fs_glob, or make it with sandbox_fs_write.",
	sandkasten.ReasonFileChanged:      "Read it again with sandbox_fs_read and send the change anew.",
	sandkasten.ReasonFileExists:       "Send overwrite true to replace it, or take another path.",
	sandkasten.ReasonIsADirectory:     "See what is in it with sandbox_fs_list.",
	sandkasten.ReasonNotADirectory:    "A part of the path is a file: read it with sandbox_fs_read, or list the directory that it is in.",
	sandkasten.ReasonDirNotEmpty:      "Send recursive true to delete all that is in it.",
	sandkasten.ReasonNotRegular:       "Use it with sandbox_exec.",
	sandkasten.ReasonNoPermission:     "See who may with sandbox_exec and ls -l.",
	sandkasten.ReasonReadOnly:         "Write below /workspace or /tmp.",
	sandkasten.ReasonOutsideWorkspace: "Use a path below /workspace, or sandbox_exec.",
	sandkasten.ReasonProgramNotFound:  "Find it with sandbox_exec and [\"sh\", \"-c\", \"command -v NAME\"], or open a sandbox with another session_key and an image that has it.",
	sandkasten.ReasonNotExecutable:    "Run it by its interpreter, as [\"python3\", \"main.py\"], or chmod +x it.",
	sandkasten.ReasonTextNotFound:     "Read the file with sandbox_fs_read and send the text exactly as it is there, spaces and \\r\\n included.",
	sandkasten.ReasonTextNotUnique:    "Send more lines around it until it is there once, or count with the number of places.",
	sandkasten.ReasonNoSuchSession:    "Call sandbox_open first and use the sandbox_id that it returns; files of an ended sandbox are gone.",
	sandkasten.ReasonNoSuchUser:       "Leave it out: programs run as the sandbox's own user.",
	sandkasten.ReasonNoSuchImage:      "Use one of these, or leave image out for the default one.",
	sandkasten.ReasonNoSuchWorkspace:  "Leave workspace out, or ask the user for the name of one.",
	sandkasten.ReasonNoSuchSecret:     "Tell the user, who stores secrets with sandkasten secret set.",
	sandkasten.ReasonQuotaExceeded:    "Close sandboxes that are not needed with sandbox_close, or tell the user.",
	sandkasten.ReasonNoSuchSnapshot:   "Use a snapshot_id that sandbox_snapshot has returned.",
	sandkasten.ReasonNoSuchExec:       "Use an exec_id of this sandbox; old ones are forgotten. Run the command again with sandbox_exec.",
	sandkasten.ReasonNoSuchShell:      "Leave shell out for the default one.",
	sandkasten.ReasonNoSuchContext:    "Run the code with sandbox_run_code, which makes one.",
	sandkasten.ReasonNoSuchRun:        "Run the code again with sandbox_run_code.",
	sandkasten.ReasonNoKernel:         "Write the code to a file and run it with sandbox_exec, or open a sandbox with another session_key and an image that has a kernel, as python.",
}

var codeSteps = map[string]string{
	"unauthenticated":    "The API key is not valid: tell the user.",
	"permission_denied":  "The API key may not do this: tell the user, or do without.",
	"conflict":           "Call sandbox_open and use the sandbox_id that it returns.",
	"too_large":          "Send or read less in one call, or move it in the sandbox with sandbox_exec.",
	"already_exists":     "Send overwrite true to replace it, or take another path.",
	"resource_exhausted": "Close sandboxes that are not needed with sandbox_close, or wait and try again.",
	"unimplemented":      "This daemon cannot do it: do without.",
	"unavailable":        "Wait some seconds and try again.",
	"insufficient_space": "Delete files that are not needed and try again.",
	"internal":           "Try again; if it fails again, tell the user.",
	"timeout":            "Try again with a longer timeout_seconds, or stream true.",
	"canceled":           "The call was cancelled, and its command was ended.",
}

// mostImages bounds how many images an answer names.
const mostImages = 30

// withImages adds which images there are to an error that is about them. A model cannot
// know them otherwise.
func (c *call) withImages(ctx context.Context, err error) error {
	if reason := reasonOf(err); reason != sandkasten.ReasonNoSuchImage && reason != sandkasten.ReasonProgramNotFound {
		return err
	}
	images, listErr := c.set.opts.Client.ListImages(ctx)
	var names []string
	for _, image := range images {
		names = append(names, image.Names...)
	}
	if listErr != nil || len(names) == 0 {
		return err
	}
	return fmt.Errorf("%w; the daemon's images are %s", err, strings.Join(names[:min(len(names), mostImages)], ", "))
}

func nextStep(f failed, err error) string {
	var input *InputError
	if errors.As(err, &input) {
		return "" // it says it itself
	}
	if next := reasonSteps[f.Reason]; next != "" {
		return next
	}
	return codeSteps[f.Code]
}

// reasonOf is the daemon's reason for an error, if it has one.
func reasonOf(err error) sandkasten.Reason {
	var refused *sandkasten.APIError
	if errors.As(err, &refused) {
		return refused.Reason
	}
	return ""
}

// decodeBase64 reads bytes that a model has sent.
func decodeBase64(field, text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, wrongInput("%s must be standard base64 with padding: %v; send text as contents", field, err)
	}
	return data, nil
}

func hasReason(err error, reason sandkasten.Reason) bool {
	var refused *sandkasten.APIError
	return errors.As(err, &refused) && refused.Reason == reason
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}
