package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/protocol"
)

// settle sends a request with these variables and returns the answer's error.
func (p *peer) settle(req protocol.Settle, env ...string) error {
	p.t.Helper()
	var payload strings.Builder
	for _, kv := range env {
		payload.WriteString(kv + "\x00")
	}
	must(p.t, p.out.Send(protocol.TypeSettle, req, []byte(payload.String())))
	head, err := p.in.Next()
	must(p.t, err)
	if head.Type == protocol.TypeOK {
		return nil
	}
	var refusal protocol.Error
	must(p.t, head.Decode(&refusal))
	return &refused{refusal}
}

// What is in an environment counts for some shells only when they start, so
// some of it is what a shell treats in its own way.
func TestSettle(t *testing.T) {
	var renamed []string
	h := newHost(t, func(o *runner.Options) {
		o.Rename = func(hostname, hosts string) error {
			renamed = append(renamed, hostname, hosts)
			return nil
		}
	})
	p := h.dial()
	must(t, os.WriteFile(filepath.Join(h.workspace, "old"), nil, 0o600))
	must(t, os.Rename(h.workspace, h.workspace+"-old"))
	must(t, os.Mkdir(h.workspace, 0o755))
	must(t, p.settle(protocol.Settle{Hostname: "box", HostsFile: "hosts", Moved: true}, "A=it's", "B=two\nlines", "HOME=/tmp", "a.b=c", "IFS=x"))
	if strings.Join(renamed, " ") != "box hosts" {
		t.Errorf("renamed to %q", renamed)
	}
	p.sh(`printf '%s|' "$A" "$B" ~ "$(env | grep -c '^LANG=')" "$(printenv a.b)"; pwd; ls`).
		want(t, "it's|two\nlines|/tmp|1|c|"+h.workspace+"\n", 0, protocol.CauseExited)
	must(t, os.WriteFile(filepath.Join(h.workspace, "new"), []byte("text"), 0o600))
	p.sh("cat new").want(t, "text", 0, protocol.CauseExited)
	must(t, p.out.Send(protocol.TypeStat, protocol.Stat{Path: "new"}, nil))
	if head, err := p.in.Next(); err != nil || head.Type != protocol.TypeInfo {
		t.Errorf("the file calls: %s, %v", head.Type, err)
	}
	wantRestarts(t, p, 0)
}

// wantRestarts looks at the default shell, which is the only one.
func wantRestarts(t *testing.T, p *peer, want int) {
	t.Helper()
	must(t, p.out.Send(protocol.TypeShells, nil, nil))
	head, err := p.in.Next()
	must(t, err)
	var list protocol.ShellList
	must(t, head.Decode(&list))
	if len(list.Shells) != 1 || list.Shells[0].Restarts != want {
		t.Errorf("shells: %+v", list.Shells)
	}
}

// Who wants nothing of his own gets the shell that is there.
func TestSettlePlain(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	must(t, p.settle(protocol.Settle{}))
	p.sh("echo works").want(t, "works\n", 0, protocol.CauseExited)
}

// A sandbox is given away once, and never after it was used.
func TestSettleOnce(t *testing.T) {
	for name, use := range map[string]func(*peer){
		"settled":  func(p *peer) { must(p.t, p.settle(protocol.Settle{})) },
		"executed": func(p *peer) { p.sh("true") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newHost(t).dial()
			use(p)
			if err := p.settle(protocol.Settle{}, "A=1"); codeOf(err) != protocol.CodeConflict {
				t.Errorf("error %v", err)
			}
			p.sh("echo still $A").want(t, "still\n", 0, protocol.CauseExited)
		})
	}
}

func TestSettleRefusals(t *testing.T) {
	failing := func(o *runner.Options) {
		o.Rename = func(string, string) error { return errors.New("broken for the test") }
	}
	for name, c := range map[string]struct {
		req  protocol.Settle
		env  []string
		code string
	}{
		"no name":       {env: []string{"=x"}, code: protocol.CodeInvalid},
		"no value":      {env: []string{"A"}, code: protocol.CodeInvalid},
		"empty":         {env: []string{""}, code: protocol.CodeInvalid},
		"cannot rename": {req: protocol.Settle{Hostname: "x"}, code: protocol.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			p := newHost(t, failing).dial()
			if err := p.settle(c.req, c.env...); codeOf(err) != c.code {
				t.Errorf("error %v", err)
			}
		})
	}
}
