// Package mcp holds the daemon's /mcp against what others test servers with: the
// conformance suite of the protocol and the command line of its Inspector. `task
// test:mcp` installs these.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// withKey is a daemon that needs no key: the suite has no way to send one.
func withKey(t *testing.T, d *blackbox.Daemon) string {
	t.Helper()
	to, err := url.Parse(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+d.Key)
	}}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL + "/mcp"
}

// run returns what a program of the packages prints, which may fail.
func run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	bin, err := filepath.Abs("node_modules/.bin")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.Dir = t.TempDir() // it writes results
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// scenarios are those of the suite that ask what any server has to do. The others call
// tools, prompts and resources that only a server made for the suite has
// (test_simple_text, test_image_content and so on), or ask for logging, completion,
// sampling, elicitation and sessions, which this one does not offer.
var scenarios = []string{
	"server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection",
}

func TestConformance(t *testing.T) {
	t.Parallel()
	address := withKey(t, blackbox.Start(t, blackbox.Options{}))
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			out, err := run(t, "conformance", "server", "--url", address, "--scenario", scenario)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			t.Log(out)
		})
	}
}

// inspect returns the answer that the Inspector prints.
func inspect(t *testing.T, d *blackbox.Daemon, args ...string) map[string]any {
	t.Helper()
	out, err := run(t, "mcp-inspector", append([]string{
		"--cli", "--transport", "http", "--server-url", d.URL + "/mcp", "--header", "Authorization: Bearer " + d.Key, "Sandkasten-Scope: agent:inspector",
	}, args...)...)
	var answer map[string]any
	if err == nil {
		err = json.Unmarshal([]byte(out[max(0, strings.Index(out, "{")):]), &answer)
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return answer
}

func TestInspector(t *testing.T) {
	t.Parallel()
	d := blackbox.Start(t, blackbox.Options{})
	list, _ := inspect(t, d, "--method", "tools/list", "--strict")["tools"].([]any)
	if len(list) < 15 {
		t.Errorf("%d tools", len(list))
	}
	call := func(tool string, args ...string) map[string]any {
		t.Helper()
		all := []string{"--method", "tools/call", "--tool-name", tool}
		for _, one := range args {
			all = append(all, "--tool-arg", one)
		}
		answer := inspect(t, d, all...)
		said, _ := answer["structuredContent"].(map[string]any)
		if failed, _ := answer["isError"].(bool); failed || said == nil {
			t.Fatalf("%s: %v", tool, answer)
		}
		return said
	}
	id, _ := call("sandbox_open")["sandbox_id"].(string)
	call("sandbox_fs_write", "sandbox_id="+id, "path=a.txt", "contents=seen")
	if out := call("sandbox_exec", "sandbox_id="+id, `cmd=["cat","a.txt"]`); out["stdout"] != "seen" {
		t.Errorf("ran %v", out)
	}
	contents, _ := inspect(t, d, "--method", "resources/read", "--uri", "sandbox://"+id+"/a.txt")["contents"].([]any)
	if len(contents) != 1 || contents[0].(map[string]any)["text"] != "seen" {
		t.Errorf("read %v", contents)
	}
	templates, _ := inspect(t, d, "--method", "resources/templates/list")["resourceTemplates"].([]any)
	if len(templates) != 1 {
		t.Errorf("templates %v", templates)
	}
	out, err := run(t, "mcp-inspector", "--cli", "--transport", "http", "--server-url", d.URL+"/mcp", "--header", "Authorization: Bearer wrong", "--method", "tools/list")
	if err == nil {
		t.Errorf("a wrong key: %s", out)
	}
}
