package daemon

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// TestDockerUser: with docker.user all that a session does is that user's,
// whichever way the session and its files came about.
func TestDockerUser(t *testing.T) {
	testenv.NeedsRoot(t)
	e := testenv.StartEngine(t)
	cfg := testConfig(t)
	cfg.Driver, cfg.Docker.Host = "docker", e.Host
	giveImage(t, cfg)

	// What root of another time left: a workspace, and files that only it reads.
	d, stop := start(t, cfg)
	c := call(t, d, cfg)
	id := c.create(`{"workspace_id": "kept"}`)
	c.exec(id, "echo old > old; chmod 600 old; echo root > /opt/root; chmod 700 /opt/root", "")
	roots, _ := c.do(http.MethodPost, "/"+id+"/snapshots", `{"scope": "sandbox"}`)["id"].(string)
	c.do(http.MethodDelete, "/"+id, "")
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	cfg.Docker.User = "www-data"
	cfg.Files.OutsideWorkspace = true
	cfg.Pool.Enabled, cfg.Pool.Images, cfg.Pool.MemoryReserveMB = true, map[string]int{cfg.DefaultImage: 1}, 1
	d, _ = start(t, cfg)
	c = call(t, d, cfg)
	c.userOfPrograms()
	c.userOfFiles()
	c.userOfSnapshots(roots)

	id = c.create(`{"workspace_id": "kept"}`)
	c.exec(id, "touch new; stat -c '%U %n' . new old; cat old 2>/dev/null || echo refused", "www-data .\nwww-data new\nroot old\nrefused\n")
	c.do(http.MethodDelete, "/"+id, "")
}

// create makes a session and returns its id.
func (c caller) create(body string) string {
	c.t.Helper()
	id, _ := c.do(http.MethodPost, "", body)["id"].(string)
	return id
}

// userOfPrograms: shells, programs and terminals, of a session from the pool.
func (c caller) userOfPrograms() {
	c.t.Helper()
	id := c.create(`{"env": {"A": "1"}}`)
	defer c.do(http.MethodDelete, "/"+id, "")
	c.exec(id, "id -un; pwd; echo $HOME $A", "www-data\n/workspace\n/var/www 1\n")
	run := func(more, want string) {
		c.t.Helper()
		got := c.do(http.MethodPost, "/"+id+"/processes", `{"cmd": ["sh", "-c", "id -un; echo ok > /dev/stdout; echo $HOME"]`+more+`}`)
		if out := fmt.Sprint(got["stdout"], got["output"]); out != want {
			c.t.Errorf("with %q: %q, want %q", more, out, want)
		}
	}
	run("", "www-data\nok\n/var/www\n<nil>")
	run(`, "user": "www-data"`, "www-data\nok\n/var/www\n<nil>")
	run(`, "user": "33:33"`, "www-data\nok\n/var/www\n<nil>")
	run(`, "tty": true`, "www-data\nok\n/var/www\n")
	for _, other := range []string{"root", "0", "games", "www-data:root"} {
		if status, body := c.try(http.MethodPost, "/"+id+"/processes", `{"cmd": ["id"], "user": "`+other+`"}`); status != http.StatusUnprocessableEntity {
			c.t.Errorf("as %s: %d %s", other, status, body)
		}
	}
}

// userOfFiles: what the file calls write and what they may.
func (c caller) userOfFiles() {
	c.t.Helper()
	id := c.create("")
	defer c.do(http.MethodDelete, "/"+id, "")
	c.do(http.MethodPost, "/"+id+"/fs/write", `{"path": "a/b", "text": "x"}`)
	c.do(http.MethodPost, "/"+id+"/fs/mkdir", `{"path": "d"}`)
	c.do(http.MethodPost, "/"+id+"/fs/copy", `{"from": "a", "to": "copy", "recursive": true}`)
	c.do(http.MethodPost, "/"+id+"/exec", `{"cmd": "echo x", "output_file": "out"}`)
	c.exec(id, "stat -c '%U:%G' a a/b d copy copy/b out | sort -u; echo y >> copy/b && rm -r a copy", "www-data:www-data\n")
	for _, path := range []string{"/etc/passwd", "/root/x", "/etc/new"} {
		if status, body := c.try(http.MethodPost, "/"+id+"/fs/write", `{"path": "`+path+`", "text": "x"}`); status/100 != 4 {
			c.t.Errorf("writing %s: %d %s", path, status, body)
		}
	}
	if status, body := c.try(http.MethodGet, "/"+id+"/fs/read?path=/etc/shadow", ""); status/100 != 4 {
		c.t.Errorf("reading /etc/shadow: %d %s", status, body)
	}
}

// userOfSnapshots: what comes back in the workspace is the user's, and in the
// root each owner's. roots is of a session of root's.
func (c caller) userOfSnapshots(roots string) {
	c.t.Helper()
	id := c.create(`{"restore_snapshot_id": "` + roots + `"}`)
	const look = "cat old; stat -c '%U %a %n' . old /opt/root; cat /opt/root 2>/dev/null || echo refused"
	const want = "old\nwww-data 755 .\nwww-data 600 old\nroot 700 /opt/root\nrefused\n"
	c.exec(id, look, want)
	c.exec(id, "echo more >> old; mkdir -m 700 d; touch d/x", "")
	again, _ := c.do(http.MethodPost, "/"+id+"/snapshots", `{"scope": "sandbox"}`)["id"].(string)
	other := c.create(`{"restore_snapshot_id": "` + again + `"}`)
	c.exec(other, "tail -n 1 old; stat -c '%U %a %n' d d/x /opt/root", "more\nwww-data 700 d\nwww-data 644 d/x\nroot 700 /opt/root\n")
	forks, _ := c.do(http.MethodPost, "/"+id+"/fork", `{"count": 1}`)["sessions"].([]any)
	fork, _ := forks[0].(map[string]any)["id"].(string)
	c.exec(fork, "id -un; stat -c '%U %n' old d/x; echo x >> old", "www-data\nwww-data old\nwww-data d/x\n")
	for _, id := range []string{id, other, fork} {
		c.do(http.MethodDelete, "/"+id, "")
	}
}
