package daemon

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// The daemon examines itself while it works: it is no stranger to its own things, and
// what is wrong has a command.
func TestFindings(t *testing.T) {
	testenv.NeedsRoot(t)
	cfg := testConfig(t)
	cfg.APIKey = "sk_own"
	cfg.Snapshots.Enabled = true
	d, _ := start(t, cfg)
	stray := strings.Repeat("a", 26)
	for _, err := range []error{
		os.MkdirAll(cfg.Snapshots.Dir, 0o700), os.WriteFile(filepath.Join(cfg.Snapshots.Dir, stray), []byte("x"), 0o600), os.Chmod(cfg.DataDir, 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	status, body := get(t, d.URL()+"/v1/host/findings", "sk_own")
	var got struct {
		Findings []struct{ Source, What, Where, Command string }
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	commands := map[string]string{}
	for _, f := range got.Findings {
		commands[f.Source+" "+f.What+" "+f.Where] = f.Command
		if f.Source == "fsck" && f.What != "archive" {
			t.Errorf("a daemon in order has %+v", f)
		}
	}
	if commands["fsck archive "+stray] != "sandkasten recover" || commands["doctor data directory "] != "chmod 0700 "+cfg.DataDir {
		t.Errorf("%v", commands)
	}
}

func TestReadHost(t *testing.T) {
	testenv.NeedsRoot(t)
	d, _ := start(t, testConfig(t))
	all := []session.Session{{State: session.Running}, {State: session.Stopped}, {State: session.Running}}
	r, err := d.readHost(t.Context(), all)
	if err != nil || r.CPULimit < 1 || r.MemoryBytes <= 0 || r.MemoryBytes >= r.MemoryLimit || r.DiskBytes <= 0 || r.DiskBytes >= r.DiskLimit || r.TotalTicks <= 0 || r.Created == nil || r.Sessions["running"] != 2 || r.Sessions["stopped"] != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	get(t, d.URL()+"/v1/info", "")
	later, err := d.readHost(t.Context(), nil)
	if err != nil || later.Answered <= r.Answered || later.Failed != 0 {
		t.Errorf("after a request %+v, %v; before %+v", later, err, r)
	}
}
