package tools

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/sdk/go"
)

func TestPathsOfOneFile(t *testing.T) {
	for name, want := range map[string]string{
		"a": "/workspace/a", "/workspace/a": "/workspace/a", "workspace/a": "/workspace/a", "./a": "/workspace/a", "a/": "/workspace/a",
		"a//b/./c": "/workspace/a/b/c", "": "/workspace", ".": "/workspace", "/workspace": "/workspace", "workspace": "/workspace",
		"/workspace/workspace/a": "/workspace/workspace/a", "...": "/workspace/...", "a..b": "/workspace/a..b",
		"/": "", "/etc": "", "..": "", "a/../b": "", "/workspacex": "", "/workspace/..": "",
	} {
		got, err := workspacePath("path", name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestShortenKeepsHeadAndTail(t *testing.T) {
	text := "begin" + strings.Repeat("ä", 5000) + "end"
	short, cut := shorten(text, 1000, "read on")
	if !cut || !utf8.ValidString(short) || !strings.HasPrefix(short, "beginä") || !strings.HasSuffix(short, "äend") ||
		!strings.Contains(short, "bytes cut; read on") || len(short) > 1100 {
		t.Errorf("got %d bytes: %s", len(short), short)
	}
	if same, cut := shorten("text", 4, ""); cut || same != "text" {
		t.Errorf("cut %q", same)
	}
}

// Each error that the daemon can have a reason for says what to do.
func TestReasonsHaveNextSteps(t *testing.T) {
	source, err := os.ReadFile("../../sdk/go/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`Reason\w+ +Reason = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(reasons) < 20 {
		t.Fatalf("found %d reasons", len(reasons))
	}
	for _, reason := range reasons {
		if reasonSteps[sandkasten.Reason(reason[1])] == "" {
			t.Errorf("%s has no next step", reason[1])
		}
	}
}

// What ended a command says what to do next.
func TestEndsHaveHints(t *testing.T) {
	for hint, end := range map[string]sandkasten.ExecEnd{
		"":                     {Cause: "exited"},
		"longer timeout":       {Cause: "timeout", TimedOut: true},
		"limits.memory_mb":     {Cause: "oom_killed"},
		"Call sandbox_open":    {Cause: "sandbox_gone"},
		"Delete files":         {Cause: "exited", DiskFull: true},
		"no entry":             {Cause: "exited", NetworkDenied: []sandkasten.NetworkDenial{{Name: "a.test", Why: "denied by a.test"}}},
		"list: @team, b.test.": {Cause: "exited", NetworkDenied: []sandkasten.NetworkDenial{{Name: "a.test", Entry: "@team"}, {Name: "b.test", Entry: "b.test"}, {Name: "b.test", Port: 443, Entry: "b.test"}}},
	} {
		got := newEnded(end)
		if !strings.Contains(got.Hint, hint) || (got.Hint == "") != (hint == "") || (got.Cause == "") != (end.Cause == "exited") {
			t.Errorf("%+v has the cause %q and the hint %q; want %q", end, got.Cause, got.Hint, hint)
		}
	}
}

// A restored sandbox has what the one before had, and the network that is not the model's to
// choose with its secrets, whose values the daemon does not tell.
func TestRestoredAsItWas(t *testing.T) {
	before := sandkasten.SessionInfo{
		Limits: sandkasten.Limits{MemoryMB: 96}, TTLSeconds: 300, NetworkMode: "internet",
		Network: sandkasten.NetworkPolicy{Mode: "internet", Secrets: []sandkasten.NetworkSecret{{Name: "TOKEN"}}},
	}
	own := sandkasten.CreateOptions{Network: &sandkasten.NetworkPolicy{Mode: "allow", Secrets: []sandkasten.NetworkSecret{{Name: "TOKEN", Value: "v"}}}}
	var none sandkasten.CreateOptions
	asOf(&own, before)
	asOf(&none, before)
	if own.MemoryMB != 96 || own.TTL != 300*time.Second || own.NetworkMode != "" || own.Network.Secrets[0].Value != "v" {
		t.Errorf("%+v", own)
	}
	if none.NetworkMode != "internet" || none.Network != nil {
		t.Errorf("%+v", none)
	}
}

// Output is text, whatever its bytes are, with its head and its tail.
func TestOutputIsText(t *testing.T) {
	for _, c := range []struct {
		text, data, want string
		lossy, cut       bool
	}{
		{text: "a\n", want: "a\n"},
		{text: "a\ufffdb", want: "a\ufffdb"}, // which the program printed
		{data: "caf\xe9 is good", want: "caf\ufffd is good", lossy: true},
		{text: "a\x00\x00b", want: "a\ufffdb", lossy: true},
		{data: strings.Repeat("\xff\x00", 3000), want: "\ufffd", lossy: true},
		{data: "\xe9 begin\n" + strings.Repeat("x", 3000) + "\nend", want: "end", lossy: true, cut: true},
	} {
		encoded := ""
		if c.data != "" {
			encoded = base64.StdEncoding.EncodeToString([]byte(c.data))
		}
		text, lossy, cut, err := stream(c.text, encoded, 1000, "")
		if err != nil || lossy != c.lossy || cut != c.cut || !utf8.ValidString(text) || cut && !strings.HasPrefix(text, "\ufffd begin\n") || !cut && text != c.want || !strings.HasSuffix(text, c.want) {
			t.Errorf("%.20q: %.40q, lossy %t, cut %t, %v", c.text+c.data, text, lossy, cut, err)
		}
	}
}

func TestWhatIsReadAsText(t *testing.T) {
	for data, want := range map[string]bool{"": true, "plain": true, "caf\xe9 is good": true, "\xe9\xea\xeb": false, "a\x00bcdefghijklmnop": false, "\ufffd\ufffd": true, "\xff12345678": false, "\xff123456789": false, "\xff1234567890": true} {
		if got := isText([]byte(data)); got != want {
			t.Errorf("%q: %t", data, got)
		}
	}
}

// TestChunksHaveABound reads one long chunk in parts, whose seqs tell how to read on.
func TestChunksHaveABound(t *testing.T) {
	for _, one := range []sandkasten.OutputChunk{
		{Seq: 10_000, Text: strings.Repeat("ä", 3000)},
		{Seq: 10_000, Text: strings.Repeat("\x00", 6000)},
		{Seq: 10_000, Base64: base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\xff", 6000)))},
	} {
		shown, size, cut, err := newChunk(one, 1001, true)
		data, _ := sandkasten.OutputChunk{Text: shown.Text, Base64: shown.TextB64}.Bytes()
		if lossy, _, _, err := newChunk(one, 1001, false); err != nil || lossy.TextB64 != "" || lossy.Text == "" || lossy.Lossy != (shown.TextB64 != "") {
			t.Errorf("%.10q as text: %+v, %v", one.Text, lossy, err)
		}
		if err != nil || !cut || size > 1001 || !utf8.ValidString(shown.Text) || len(data) == 0 || shown.Seq != 4000+int64(len(data)) ||
			strings.ContainsRune(shown.Text, 0) {
			t.Errorf("%.10q: %d bytes to %d, cut %v, %v", one.Text, len(data), shown.Seq, cut, err)
		}
	}
}

func TestGlobPatterns(t *testing.T) {
	for pattern, want := range map[string]string{"/workspace/*.py": "*.py", "workspace/*.py": "*.py", "*.py": "*.py", "../*": "", "a/../*": "", "a..b": "a..b"} {
		if got, err := globPattern(workspace, pattern); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", pattern, got, err, want)
		}
	}
	if got, _ := globPattern(workspace+"/a", "workspace/*"); got != "workspace/*" {
		t.Errorf("below a directory it is %q", got)
	}
}

func TestMatchesAndEntriesHaveABound(t *testing.T) {
	m := match{Path: "a", Text: "b", Before: []string{"cc"}, After: []string{"dd", "e"}}
	if m.size() != 7 {
		t.Errorf("a match has %d bytes", m.size())
	}
	var a listAnswer
	for range 1000 {
		a.add(entry{Path: strings.Repeat("a", 200)}, 10_000)
	}
	if len(a.Entries) != 100 {
		t.Errorf("a list has %d entries", len(a.Entries))
	}
}

func TestWholeRunes(t *testing.T) {
	for in, want := range map[string]string{"aä": "aä", "a\xc3": "a", "\xe2\x82": "", "a": "a", "": "", "\xff": "\xff"} {
		if got := wholeRunes([]byte(in)); string(got) != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

// What the daemon says of routes is for programs that send requests themselves, and no model
// reads it.
func TestErrorsForModelsNameNoRoutes(t *testing.T) {
	for message, want := range map[string]string{
		`no such session: "x"; GET /v1/sessions lists those that there are`:                          `no such session: "x"`,
		"content must be at most 100 bytes; use PUT fs/raw for more":                                 "content must be at most 100 bytes",
		"path must be inside /workspace; a session that is created with file_scope sandbox has more": "path must be inside /workspace; a session that is created with file_scope sandbox has more",
		"GET is no command": "GET is no command",
	} {
		got := failure(Tool{}, "t", &sandkasten.APIError{Code: "not_found", Message: message})
		var answer failed
		if err := json.Unmarshal(got.JSON, &answer); err != nil || answer.Error != "t: "+want {
			t.Errorf("%s (%v)", got.JSON, err)
		}
	}
}

// Half of a surrogate pair is found wherever it is, and only there.
func TestHalfOfASurrogatePair(t *testing.T) {
	for text, want := range map[string]bool{
		`"plain"`: false, `"\ud83d\ude00"`: false, `"\\ud800"`: false, `"\\\\ud800"`: false, `"\ufffd"`: false, `{"a":["\ud83d\ude00\ud83d\ude00"]}`: false,
		`"\ud800"`: true, `"\udc00"`: true, `"\ud800\ud800\udc00"`: true, `"\ud83d\ude00\ude00"`: true, `"\\\ud800"`: true, `"\ud800\n"`: true, `["a",{"\udbffb":1}]`: true,
	} {
		if got := hasHalfPair([]byte(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// A run has its bytes if they are asked for, and only where its output is no text.
func TestBytesOfARun(t *testing.T) {
	a := runAnswer{Limits: runLimits{MaxStdoutBytes: 300}}
	result := sandkasten.ProcessResult{Stdout: "caf\ufffd", StdoutBase64: base64.StdEncoding.EncodeToString([]byte("caf\xe9")), Stderr: "a\x00" + strings.Repeat("x", 400)}
	for asked, c := range map[bool]struct {
		stdout string
		stderr int
	}{false: {"", 0}, true: {"Y2Fm6Q==", 400}} {
		got, err := a.with(result, "", asked)
		if err != nil || got.StdoutB64 != c.stdout || len(got.StderrB64) != c.stderr || !got.Lossy || (got.Hint == "") != asked {
			t.Errorf("asked %t: %+v, %v", asked, got, err)
		}
	}
	if got, err := a.with(sandkasten.ProcessResult{Stdout: "plain"}, "", true); err != nil || got.StdoutB64 != "" || got.Lossy {
		t.Errorf("%+v, %v", got, err)
	}
}
