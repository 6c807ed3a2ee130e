package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// While another process has the database locked, changes are refused as
// something to try again, and what runs goes on.
func TestF12_DatabaseLocked(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	db := h.db()
	defer db.Close()
	lock, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := lock.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := h.c.CreateSession(t.Context(), nil); code(err) != "unavailable" || time.Since(began) > 20*time.Second {
		t.Errorf("create: %v after %s; want unavailable", err, time.Since(began))
	}
	h.sh(s, "true")
	if _, err := h.c.ListSessions(t.Context(), nil); err != nil {
		t.Errorf("list: %v", err)
	}
	if _, err := lock.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	h.sh(h.create(nil), "true")
	h.oracle()
	h.wantNothing()
}

// A damaged database is refused and left as it is, and so are the sessions: with
// a copy put back they go on.
func TestF12_DatabaseDamaged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func([]byte) []byte
		says   string
	}{
		"a page":     {func(b []byte) []byte { copy(b[4096:8192], strings.Repeat("x", 4096)); return b }, "cannot be used"},
		"all of it":  {func([]byte) []byte { return []byte(strings.Repeat("not a database", 1000)) }, "cannot be used"},
		"cut off":    {func(b []byte) []byte { return b[:len(b)/2] }, "cannot be used"},
		"of another": {nil, "newer version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, "")
			s := h.create(nil)
			h.sh(s, "v=kept")
			h.Stop()
			file := filepath.Join(h.Data, "sandkasten.db")
			good, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if c.damage == nil {
				h.change("INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
			} else if err := os.WriteFile(file, c.damage(append([]byte(nil), good...)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := h.TryStart(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("start: %v; want it to say %q", err, c.says)
				h.Stop()
			}
			if b := h.box(s.ID); !alive(b.Process.PID, b.Process.StartTime) {
				t.Error("the session did not survive")
			}
			for _, old := range []string{file + "-wal", file + "-shm"} {
				os.Remove(old) // it need not be there
			}
			if err := os.WriteFile(file, good, 0o600); err != nil {
				t.Fatal(err)
			}
			h.Start()
			if got := h.sh(s, "echo $v"); got != "kept" {
				t.Errorf("its shell has %q", got)
			}
			h.oracle()
			h.wantNothing()
		})
	}
}

// A database that is gone, or names nothing any more, leaves sandboxes that nothing
// names: neither the daemon nor maintenance removes them, and sessions can be made
// of them again.
func TestF12_DatabaseGone(t *testing.T) {
	t.Parallel()
	for name, pattern := range map[string]string{"all": "sandkasten.db*", "its log": "sandkasten.db-*"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, "")
			for range 3 {
				h.sh(h.create(nil), "sleep 1000 &")
			}
			other := h.Client(strings.TrimSpace(h.Output("user", "add", "bob", "--key")))
			bobs, err := other.CreateSession(t.Context(), &sandkasten.CreateOptions{Labels: map[string]string{"task": "42"}})
			if err != nil {
				t.Fatal(err)
			}
			owner, _ := h.ownerOf(bobs.ID)
			h.Kill()
			files, err := filepath.Glob(filepath.Join(h.Data, pattern))
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			for _, file := range files {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.TryStart(); err == nil || !strings.Contains(err.Error(), "sandkasten recover") {
				t.Errorf("start without the rows: %v", err)
			}
			for _, command := range [][]string{{"gc"}, {"gc", "--archives"}, {"fsck", "--repair"}} {
				if out, err := h.Command(command...).CombinedOutput(); err == nil || !strings.Contains(string(out), "sandkasten recover") {
					t.Errorf("%v without the rows: %v\n%s", command, err, out)
				}
			}
			if got := h.Output("recover"); strings.Count(got, "recovered session") != 4 {
				t.Errorf("recovered are:\n%s", got)
			}
			if now, labels := h.ownerOf(bobs.ID); now != owner || !strings.Contains(labels, `"task":"42"`) {
				t.Errorf("the session of %q is %q's now, with the labels %s", owner, now, labels)
			}
			h.Start()
			h.sh(h.create(nil), "true")
			again := h.Client(strings.TrimSpace(h.Output("user", "add", "bob", "--key")))
			h.sh(again.Session(bobs.ID), "true")
			h.oracle()
			h.Output("user", "rm", "bob")
			h.wantNothing()
		})
	}
}

// ownerOf is whose session it is, and its labels, as the database has them.
func (h *host) ownerOf(session string) (owner, labels string) {
	h.t.Helper()
	db := h.db()
	defer db.Close()
	if err := db.QueryRow("SELECT owner, labels FROM sessions WHERE id = ?", session).Scan(&owner, &labels); err != nil {
		h.t.Fatal(err)
	}
	return owner, labels
}

// A second daemon on the same data is refused and disturbs nothing.
func TestF14_TwoDaemons(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	s := h.create(nil)
	second := blackbox.New(t, blackbox.Options{DataDir: h.Data, Images: images(t), Tags: []string{"failpoint"}})
	if err := second.TryStart(); err == nil || !strings.Contains(err.Error(), fmt.Sprint(h.PID())) {
		t.Errorf("the second daemon: %v; want it refused, with the number of the first", err)
	}
	h.sh(s, "true")
	h.oracle()
	h.wantNothing()
}
