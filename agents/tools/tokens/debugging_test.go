package tokens

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tiktoken-go/tokenizer"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// What the task is made of: a small program with faults, of which each run of its tests
// shows the next one.
const (
	modules   = 6
	functions = 12 // in each
	faults    = 6
)

// project returns the files of the program, in which the first faults are mended.
func project(mended int) map[string]string {
	files := map[string]string{}
	var check strings.Builder
	for i := range modules {
		var text strings.Builder
		fmt.Fprintf(&text, "\"\"\"Conversions of group %d.\"\"\"\n\nOFFSET = %d\n", i, i*7)
		fmt.Fprintf(&check, "import group%d\n", i)
		for j := range functions {
			factor := j + 2
			if j == 5 && i >= mended {
				factor++ // the fault
			}
			fmt.Fprintf(&text, "\n\ndef convert_%d(value: int) -> int:\n    \"\"\"Converts a value of kind %d to one of group %d.\"\"\"\n    if value < 0:\n        raise ValueError(f\"convert_%d needs a value that is not negative, not {value}\")\n    return value * %d + OFFSET\n",
				j, j, i, j, factor)
			fmt.Fprintf(&check, "got = group%d.convert_%d(10)\nassert got == %d, f\"group%d.convert_%d(10) is {got} and not %d\"\n", i, j, 10*(j+2)+i*7, i, j, 10*(j+2)+i*7)
		}
		files[fmt.Sprintf("group%d.py", i)] = text.String()
	}
	check.WriteString("print(\"all is well\")\n")
	files["check.py"] = check.String()
	return files
}

// conversation counts what a model writes and reads in the course of a task.
type conversation struct {
	t     *testing.T
	set   *tools.Set
	codec tokenizer.Codec

	calls, written, answered, read, context int
}

// call makes a call and counts it. For its next step a model reads all that was said.
func (c *conversation) call(tool string, args map[string]any) map[string]any {
	c.t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		c.t.Fatal(err)
	}
	result := c.set.Call(c.t.Context(), tool, text)
	if result.IsError {
		c.t.Fatalf("%s: %s", tool, result.Text())
	}
	wrote, got := c.count(tool+string(text)), c.count(result.Text())
	c.calls, c.written, c.answered = c.calls+1, c.written+wrote, c.answered+got
	c.read += c.context
	c.context += wrote + got
	var answer map[string]any
	if err := json.Unmarshal(result.JSON, &answer); err != nil {
		c.t.Fatal(err)
	}
	return answer
}

func (c *conversation) count(text string) int {
	c.t.Helper()
	n, err := c.codec.Count(text)
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// kept does the task with files that stay.
func (c *conversation) kept() {
	id := c.call("sandbox_open", nil)["sandbox_id"]
	for _, name := range names(project(0)) {
		c.call("sandbox_fs_write", map[string]any{"sandbox_id": id, "path": name, "contents": project(0)[name]})
	}
	for n := 0; ; n++ {
		// Without the cache of compiled modules, which tells changes within a second apart by their size alone.
		ran := c.call("sandbox_exec", map[string]any{"sandbox_id": id, "cmd": []string{"python3", "-B", "check.py"}})
		if c.done(n, ran["exit_code"], ran["stderr"]) {
			return
		}
		const ahead = "convert_5 needs a value that is not negative, not {value}\")\n    return value * "
		c.call("sandbox_fs_edit", map[string]any{"sandbox_id": id, "path": fmt.Sprintf("group%d.py", n), "old": ahead + "8", "new": ahead + "7"})
	}
}

// sent does the task with all files in each call.
func (c *conversation) sent() {
	for n := 0; ; n++ {
		files := project(n)
		code := files["check.py"]
		delete(files, "check.py")
		ran := c.call("sandbox_run", map[string]any{"runtime": "python", "code": code, "files": files})
		if c.done(n, ran["exit_code"], ran["stderr"]) {
			return
		}
	}
}

// done reports whether the program is right. Until then a run shows the fault that is
// to be mended.
func (c *conversation) done(n int, code, stderr any) bool {
	c.t.Helper()
	if code == float64(0) {
		if n != faults {
			c.t.Fatalf("it is right after %d faults", n)
		}
		return true
	}
	if text, _ := stderr.(string); !strings.Contains(text, fmt.Sprintf("group%d.convert_5(10)", n)) {
		c.t.Fatalf("run %d: %v", n, stderr)
	}
	return false
}

func names(files map[string]string) []string {
	all := make([]string, 0, len(files))
	for i := range modules {
		all = append(all, fmt.Sprintf("group%d.py", i))
	}
	return append(all, "check.py")
}

// TestDebuggingTask compares what a task costs with files that stay and with files that
// are sent each time, with a real daemon. docs/agents.md has the table.
func TestDebuggingTask(t *testing.T) {
	if os.Getenv("SANDKASTEN_FLAKY_URL") == "" {
		t.Skip("no daemon: see sdk/contract/README.md")
	}
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	client, err := sandkasten.New(sandkasten.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	begin := func(kind string) *conversation {
		scope := tools.Scope{Namespace: "agent", ID: fmt.Sprintf("tokens-%s-%d", kind, time.Now().UnixNano())}
		t.Cleanup(func() {
			if _, err := client.CompleteScope(t.Context(), scope.String(), nil); err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
		})
		set, err := tools.New(tools.Options{Client: client, Scope: scope, Images: map[string]string{"python": "python"}, Session: sandkasten.CreateOptions{Image: "python"}})
		if err != nil {
			t.Fatal(err)
		}
		return &conversation{t: t, set: set, codec: codec}
	}
	kept, sent := begin("kept"), begin("sent")
	kept.kept()
	sent.sent()
	t.Logf("one version of the files: %d tokens", kept.count(fmt.Sprint(project(0))))
	for name, c := range map[string]*conversation{"kept": kept, "sent": sent} {
		t.Logf("%s: calls %d, written %d, answered %d, read %d", name, c.calls, c.written, c.answered, c.read)
	}
	if kept.written*3 > sent.written || kept.context*2 > sent.context {
		t.Errorf("files that stay save too little: %d of %d tokens written", kept.written, sent.written)
	}
}
