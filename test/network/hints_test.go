package network

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/agents/tools"
	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// fetches is the arguments of a call that fetches a page.
func fetches(id, url string) map[string]any {
	const program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"
	return map[string]any{"sandbox_id": id, "cmd": []string{"python3", "-c", program, url}}
}

// testHints does what the tools of agents say of a refusal, as their user would, and gets
// another answer each time.
func testHints(t *testing.T, w *world) {
	client, err := sandkasten.New(sandkasten.Options{URL: w.daemon.URL, APIKey: w.daemon.Key})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	set, err := tools.New(tools.Options{Client: client, Scope: tools.Scope{Namespace: "agent", ID: "hints"}})
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		SandboxID string `json:"sandbox_id"`
		ExitCode  int    `json:"exit_code"`
		Stdout    string
		Hint      string
	}
	call := func(tool string, args map[string]any) (a answer) {
		t.Helper()
		text, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if r := set.Call(t.Context(), tool, text); r.IsError || json.Unmarshal(r.JSON, &a) != nil {
			t.Fatalf("%s %s: %s", tool, text, r.JSON)
		}
		return a
	}
	follow := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), testenv.Program(t), args...)
		cmd.Env = append(blackbox.Environ(), "SANDKASTEN_URL="+w.daemon.URL, "SANDKASTEN_API_KEY="+w.daemon.Key)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	id := call("sandbox_open", map[string]any{"network": "none"}).SandboxID
	for _, c := range []struct{ host, says string }{
		{"good.test", `\(sandkasten (network allow ` + id + `) HOST\)`}, // of a sandbox without a network
		{"bad.test", `network's allow list: (\S+)\.`},                   // of one whose network does not have it
	} {
		refused := call("sandbox_exec", fetches(id, "http://"+c.host+"/"))
		said := regexp.MustCompile(c.says).FindStringSubmatch(refused.Hint)
		if refused.ExitCode == 0 || said == nil {
			t.Fatalf("%s: %+v", c.host, refused)
		}
		if strings.HasPrefix(said[1], "network ") {
			follow(append(strings.Fields(said[1]), c.host)...)
		} else {
			follow("network", "allow", id, said[1])
		}
		if opened := call("sandbox_exec", fetches(id, "http://"+c.host+"/")); opened.ExitCode != 0 || !strings.Contains(opened.Stdout, "site "+c.host) {
			t.Errorf("%s, as its hint says: %+v", c.host, opened)
		}
	}
	// The other way of the first hint: another sandbox with a network.
	other := call("sandbox_open", map[string]any{"session_key": "other", "network": "internet"}).SandboxID
	if opened := call("sandbox_exec", fetches(other, "http://good.test/")); opened.ExitCode != 0 || !strings.Contains(opened.Stdout, "site good.test") {
		t.Errorf("in another sandbox: %+v", opened)
	}
	if err := set.Complete(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
