package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/cli"
)

// networkDaemon answers as a daemon does, and remembers what it is asked for.
type networkDaemon struct {
	answers map[string]string // by method and path
	asked   []string          // with the body, in order
}

func (d *networkDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := r.Method + " " + r.URL.Path
	d.asked = append(d.asked, strings.TrimSpace(key+" "+string(body)))
	answer, ok := d.answers[key]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		answer = `{"code":"not_found","error":"no such session"}`
	}
	io.WriteString(w, answer)
}

func startNetworkDaemon(t *testing.T, answers map[string]string) (*console, *networkDaemon) {
	t.Helper()
	d := &networkDaemon{answers: answers}
	srv := httptest.NewServer(d)
	t.Cleanup(srv.Close)
	return &console{t: t, url: srv.URL, key: "x"}, d
}

const policyOfS1 = `{"mode":"allow","allow":["@pip"],"deny":["b.example.org"],"max_mbit":5,"max_connections":9,"secrets":[` +
	`{"name":"TOKEN","hosts":["a.example.org"],"header":"Authorization","placeholder":"placeholder-1"},` +
	`{"name":"GIT","hosts":["git.example.org"],"query":"key","stored":"git","placeholder":"placeholder-2"}]}`

const pathOfS1 = "/v1/sessions/s1/network"

func TestNetworkSet(t *testing.T) {
	const rest = `"allow":["@pip"],"deny":["b.example.org"]`
	for _, tt := range []struct {
		name string
		args []string
		sent string
	}{
		{"a limit", []string{"--max-mbit", "10"}, `{"mode":"allow",` + rest + `,"max_mbit":10,"max_connections":9}`},
		{"a list", []string{"--deny", "x", "--deny", "y"}, `{"mode":"allow","allow":["@pip"],"deny":["x","y"],"max_mbit":5,"max_connections":9}`},
		{"an empty list", []string{"--deny", ""}, `{"mode":"allow","allow":["@pip"],"max_mbit":5,"max_connections":9}`},
		{"a mode", []string{"--network", "none"}, `{"mode":"none","deny":["b.example.org"],"max_mbit":5,"max_connections":9}`},
		{
			"a secret away",
			[]string{"--no-secret", "TOKEN"},
			`{"mode":"allow",` + rest + `,"max_mbit":5,"max_connections":9,"secrets":[{"name":"GIT","stored":"git"}]}`,
		},
		{
			"all secrets away",
			[]string{"--no-secret", "TOKEN", "--no-secret", "GIT"},
			`{"mode":"allow",` + rest + `,"max_mbit":5,"max_connections":9,"secrets":[]}`,
		},
		{
			"secrets",
			[]string{"--secret", "TOKEN,host=c.example.org,header=X-Key", "--secret", "NEW,stored=new"},
			`{"mode":"allow",` + rest + `,"max_mbit":5,"max_connections":9,"secrets":[{"name":"TOKEN","hosts":["c.example.org"],"header":"X-Key"},` +
				`{"name":"GIT","stored":"git"},{"name":"NEW","stored":"new"}]}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tm, d := startNetworkDaemon(t, map[string]string{"GET " + pathOfS1: policyOfS1, "PUT " + pathOfS1: policyOfS1})
			tm.want(append([]string{"network", "set", "s1"}, tt.args...)...)
			if want := []string{"GET " + pathOfS1, "PUT " + pathOfS1 + " " + tt.sent}; !slices.Equal(d.asked, want) {
				t.Errorf("asked %q", d.asked)
			}
		})
	}
}

func TestNetworkSetThatChangesNothing(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		code   int
		errOut string
	}{
		{nil, cli.ExitUsage, "name what is to change"},
		{[]string{"--no-secret", "ABSENT"}, cli.ExitUsage, "there is no secret ABSENT"},
		{[]string{"--secret", "NEW,host=a,header=b"}, cli.ExitUsage, "--secret NEW has no value"},
		{[]string{"--secret", "NEW,value=hunter22"}, cli.ExitUsage, "other users can see flags"},
		{[]string{"--network", "some"}, cli.ExitUsage, "--network: must be one of"},
	} {
		tm, d := startNetworkDaemon(t, map[string]string{"GET " + pathOfS1: policyOfS1})
		r := tm.run(append([]string{"network", "set", "s1"}, tt.args...)...)
		if r.code != tt.code || !strings.Contains(r.errOut, tt.errOut) || strings.Contains(r.errOut, "hunter22") {
			t.Errorf("%v: %+v", tt.args, r)
		}
		if len(d.asked) > 1 {
			t.Errorf("%v: asked %q", tt.args, d.asked)
		}
	}
}

func TestNetworkShowAndAllow(t *testing.T) {
	tm, d := startNetworkDaemon(t, map[string]string{"GET " + pathOfS1: policyOfS1, "POST " + pathOfS1 + "/allow": policyOfS1})
	const want = `mode          allow
allow         @pip
deny          b.example.org
rate          5 Mbit/s
connections   9 at once
secret TOKEN  header Authorization to a.example.org
secret GIT    parameter key to git.example.org, stored as git
`
	if out := tm.want("network", "show", "s1"); out != want {
		t.Errorf("show = %s", out)
	}
	if out := tm.want("network", "show", "--format", "{{.Mode}} {{len .Secrets}}", "s1"); out != "allow 2\n" {
		t.Errorf("show --format = %s", out)
	}
	if out := tm.want("network", "allow", "--json", "s1", "c.example.org:22", "@npm"); !strings.Contains(out, `"placeholder-1"`) {
		t.Errorf("allow --json = %s", out)
	}
	if last := d.asked[len(d.asked)-1]; last != "POST "+pathOfS1+`/allow {"entries":["c.example.org:22","@npm"]}` {
		t.Errorf("asked %s", last)
	}
	if r := tm.run("network", "show", "s2"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "no such session") {
		t.Errorf("show of no session = %+v", r)
	}
}

func TestNetworkLog(t *testing.T) {
	const (
		allowed = `{"seq":5,"time":"2026-11-21T09:00:00Z","op":"connect","name":"a.example.org","port":443,"allowed":true,"why":"@pip","count":1}`
		refused = `{"seq":9,"time":"2026-11-21T09:00:01Z","op":"resolve","name":"b.example.org","allowed":false,"why":"no entry","entry":"b.example.org","count":1}`
		remedy  = "no entry  sandkasten network allow s1 b.example.org\n"
	)
	tm, _ := startNetworkDaemon(t, map[string]string{
		"GET " + pathOfS1 + "/log":                 `{"events":[` + allowed + `,` + refused + `],"next_seq":9}`,
		"GET /v1/sessions/empty/network/log":       `{"events":[],"next_seq":0}`,
		"GET " + pathOfS1 + "/log/stream":          "event: network\nid: 5\ndata: " + allowed + "\n\nevent: network\nid: 9\ndata: " + refused + "\n\nevent: done\ndata: {}\n\n",
		"GET /v1/sessions/gone/network/log/stream": "event: error\ndata: {\"code\":\"not_found\",\"error\":\"no such session\"}\n\n",
	})
	for _, args := range [][]string{{"s1"}, {"-f", "s1"}} {
		out := tm.want(append([]string{"network", "log"}, args...)...)
		if strings.Count(out, "\n") != 2 || !strings.Contains(out, "a.example.org:443") || !strings.HasSuffix(out, remedy) {
			t.Errorf("log %v = %s", args, out)
		}
		if out := tm.want(append([]string{"network", "log", "--denied"}, args...)...); strings.Count(out, "\n") != 1 || !strings.HasSuffix(out, remedy) {
			t.Errorf("log --denied %v = %s", args, out)
		}
		if out := tm.want(append([]string{"network", "log", "--denied", "--format", "{{.Seq}} {{.Name}}"}, args...)...); out != "9 b.example.org\n" {
			t.Errorf("log --format %v = %s", args, out)
		}
	}
	if r := tm.run("network", "log", "empty"); r.code != 0 || r.out != "" || !strings.Contains(r.errOut, "Nothing was decided") {
		t.Errorf("log of nothing = %+v", r)
	}
	if out := tm.want("network", "log", "--json", "empty"); out != "[]\n" {
		t.Errorf("log --json of nothing = %s", out)
	}
	if r := tm.run("network", "log", "-f", "gone"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "no such session") {
		t.Errorf("log -f of no session = %+v", r)
	}
}

func TestSessionsAreMadeWithANetwork(t *testing.T) {
	tm, d := startNetworkDaemon(t, map[string]string{"POST /v1/sessions": `{"id":"s1"}`})
	tm.want("create", "--allow", "@pip", "--max-mbit", "10", "--secret", "TOKEN,stored=github", "base")
	const want = `"network":{"mode":"allow","allow":["@pip"],"max_mbit":10,"secrets":[{"name":"TOKEN","stored":"github"}]}`
	const first = "GET /v1/info" // for what becomes of sessions that ask for nothing
	if len(d.asked) != 2 || d.asked[0] != first || !strings.Contains(d.asked[1], want) {
		t.Errorf("asked %q", d.asked)
	}
	tm.want("create", "base")
	if len(d.asked) != 4 || strings.Contains(d.asked[3], "network") {
		t.Errorf("asked %q", d.asked)
	}
}

func TestRunFailsByItselfForItsNetwork(t *testing.T) {
	tm, d := startNetworkDaemon(t, nil)
	for _, args := range [][]string{{"--deny", "a"}, {"--network", "allow", "--secret", "T,host=a,header=b,env=UNSET_IN_TESTS"}} {
		if r := tm.run(append(append([]string{"run"}, args...), "base", "true")...); r.code != cli.ExitNotRun {
			t.Errorf("run %v = %+v", args, r)
		}
	}
	if len(d.asked) > 0 {
		t.Errorf("asked %q", d.asked)
	}
}

func TestWhatTheNetworkRefusedIsSaid(t *testing.T) {
	const denied = `"network_denied":[{"name":"pypi.example.org","port":443,"why":"no entry","entry":"pypi.example.org"}]`
	end := func(code string) string {
		return `{"exec_id":"e1","exit_code":` + code + `,"cause":"exited",` + denied + `}`
	}
	const said = "sandkasten: the network refused pypi.example.org:443 (no entry); sandkasten "
	for _, tt := range []struct {
		name   string
		args   []string
		code   string
		errOut string
	}{
		{"exec", []string{"exec", "s1", "x"}, "7", said + "network allow s1 pypi.example.org\n"},
		{"a program", []string{"exec", "--argv", "s1", "x"}, "7", said + "network allow s1 pypi.example.org\n"},
		{"run", []string{"run", "base", "x"}, "7", said + "run --allow pypi.example.org\n"},
		{"run that keeps", []string{"run", "--keep", "base", "x"}, "7", "session s1\n" + said + "network allow s1 pypi.example.org\n"},
		{"success", []string{"exec", "s1", "x"}, "0", ""},
		{"JSON", []string{"exec", "--json", "s1", "x"}, "7", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stream := "event: done\nid: e1:end\ndata: " + end(tt.code) + "\n\n"
			tm, _ := startNetworkDaemon(t, map[string]string{
				"POST /v1/sessions": `{"id":"s1"}`, "DELETE /v1/sessions/s1": "", "GET " + pathOfS1: policyOfS1,
				"POST /v1/sessions/s1/exec/stream": stream, "POST /v1/sessions/s1/processes/stream": stream, "POST /v1/sessions/s1/exec": end(tt.code),
			})
			r := tm.run(tt.args...)
			if r.errOut != tt.errOut || strings.HasPrefix(tt.code, "7") != (r.code == 7) {
				t.Errorf("%+v", r)
			}
			if tt.name == "JSON" && !strings.Contains(r.out, `"pypi.example.org"`) {
				t.Errorf("%s", r.out)
			}
		})
	}
}
