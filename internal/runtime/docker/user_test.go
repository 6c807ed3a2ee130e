package docker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
)

func TestChooseUser(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\nbig:x:70000:70000::/:\nlost:x:5:5::nowhere:\n",
		"group":  "app:x:1001:\nstaff:x:50:app\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "etc", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	app := &stage.User{UID: 1000, GID: 1001, Groups: []int{50}}
	for name, c := range map[string]struct {
		asked, image string
		want         *stage.User
		env          []string
		refused      bool
	}{
		"root":                  {},
		"root by name":          {asked: "root"},
		"root by number":        {asked: "0:0"},
		"a name":                {asked: "app", want: app, env: []string{"HOME=/home/app", "USER=app", "LOGNAME=app"}},
		"its number":            {asked: "1000", want: app, env: []string{"HOME=/home/app", "USER=app", "LOGNAME=app"}},
		"with a group":          {asked: "app:staff", want: &stage.User{UID: 1000, GID: 50}, env: []string{"HOME=/home/app", "USER=app", "LOGNAME=app"}},
		"numbers":               {asked: "77:78", want: &stage.User{UID: 77, GID: 78}, env: []string{"HOME=/workspace", "USER=77", "LOGNAME=77"}},
		"without a home":        {asked: "lost", want: &stage.User{UID: 5, GID: 5}, env: []string{"HOME=/workspace", "USER=5", "LOGNAME=5"}},
		"the image's":           {asked: ImageUser, image: "app", want: app, env: []string{"HOME=/home/app", "USER=app", "LOGNAME=app"}},
		"the image's, none":     {asked: ImageUser},
		"the image's, nonsense": {asked: ImageUser, image: "a:b:c", refused: true},
		"not in the image":      {asked: "nobody", refused: true},
		"no such group":         {asked: "app:none", refused: true},
		"too high":              {asked: "big", refused: true},
		"too high a number":     {asked: "1:65535", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := offline(t, func(o *Options) { o.User = c.asked })
			plan := creation{rootfs: Rootfs{Layers: []string{dir}, Env: []string{"HOME=/root", "IMAGE=x", "USER=root"}, User: c.image}}
			err := d.chooseUser(&plan)
			if c.refused {
				if !errdefs.Is(err, errdefs.Unprocessable) || !strings.Contains(err.Error(), "docker.user") {
					t.Errorf("%v", err)
				}
				return
			}
			env := append(c.env, "IMAGE=x")
			if c.want == nil {
				env = []string{"HOME=/root", "IMAGE=x", "USER=root"}
			}
			if err != nil || !reflect.DeepEqual(plan.user, c.want) || !slices.Equal(plan.rootfs.Env, env) || plan.userLabel != c.asked {
				t.Errorf("%+v, %q, %q, %v", plan.user, plan.rootfs.Env, plan.userLabel, err)
			}
		})
	}
}

// TestPlanUser: the engine starts the runner as root, which is told of the user
// in what nobody inside can change.
func TestPlanUser(t *testing.T) {
	d := offline(t)
	spec := testSpec()
	got, err := d.plan(creation{id: "s1", try: "t", spec: spec, image: "i", volume: "v", user: &stage.User{UID: 7, GID: 8}, userLabel: "7:8"})
	if err != nil {
		t.Fatal(err)
	}
	checkHardened(t, d, spec, got.Config, got.HostConfig)
	var boot stage.ContainerBoot
	text, _ := strings.CutPrefix(got.Config.Env[0], stage.ContainerBootVar+"=")
	if err := json.Unmarshal([]byte(text), &boot); err != nil || boot.User == nil || boot.User.UID != 7 || boot.User.GID != 8 || got.Config.Labels[labelUser] != "7:8" {
		t.Errorf("%+v, %v, %v", boot.User, got.Config.Labels, err)
	}
	if got.Config.User != "0:0" {
		t.Errorf("the runner is %s", got.Config.User)
	}
}

// asUser is a driver of the same engine whose programs are a user's.
func asUser(t *testing.T, d *Driver, user string) *Driver {
	t.Helper()
	o := d.opts
	o.User = user
	return open(t, o)
}

// testUser: programs are the user who was asked for, without any capability, and
// own what they make; nobody inside becomes another.
func testUser(t *testing.T, d *Driver) {
	readonly := func(s *runtime.Spec) { s.ReadonlyRoot = true }
	for name, make := range map[string]func(*testing.T) *box{
		"writable": func(t *testing.T) *box { return newBox(t, asUser(t, d, "www-data"), "user") },
		"readonly": func(t *testing.T) *box { return newBox(t, asUser(t, d, "www-data"), "user", readonly) },
		"image":    func(t *testing.T) *box { return newBox(t, asUser(t, d, ImageUser), "user") },
	} {
		t.Run(name, func(t *testing.T) { checkUser(t, make(t)) })
	}
}

// checkUser looks at the programs of a box of www-data.
func checkUser(t *testing.T, x *box) {
	t.Helper()
	other := open(t, x.d.opts) // which has a relay beside the runner
	if again, err := other.Open(t.Context(), x.ID()); err != nil {
		t.Fatal(err)
	} else if conn, err := again.DialRunner(t.Context()); err != nil {
		t.Fatal(err)
	} else {
		defer conn.Close()
	}
	for _, c := range []struct{ command, want string }{
		{"id -u; id -g; id -G", "33\n33\n33"},
		{"echo $HOME $USER $LOGNAME $PWD", "/var/www www-data www-data /workspace"},
		{"echo x > file; mkdir d; stat -c '%u:%g' . file d", "33:33\n33:33\n33:33"},
		{"grep -E 'Cap(Prm|Eff|Inh|Amb)' /proc/self/status | cut -f2 | sort -u", "0000000000000000"},
		{"grep -E 'NoNewPrivs|Seccomp:' /proc/self/status | cut -f2 | tr '\\n' ' '", "1 2 "},
		{"grep -h ^Uid: /proc/[0-9]*/status | sort -u | tr '\\t' ' '", "Uid: 0 0 0 0\nUid: 0 0 0 33\nUid: 33 33 33 33"},
		{"cat /proc/self/oom_score_adj", "500"},
		{"echo out > /dev/stdout; echo err > /dev/stderr", "out\nerr"},
	} {
		if got, _ := x.try(t, c.command); strings.Trim(got, "\n") != strings.Trim(c.want, "\n") {
			t.Errorf("%s: %q, want %q", c.command, got, c.want)
		}
	}
	for _, command := range []string{
		"echo x > /etc/x", "cat /etc/shadow", "chown 0 file", "su -c true", "kill -0 1",
		"cp /bin/sh s && chmod 4755 s && chown 0 s", "python3 -c 'import os; os.setuid(0)'", "cat /proc/1/environ",
		"kill -9 $(pgrep -f '[r]unner relay')",
	} {
		if out, record := x.try(t, "("+command+") 2>&1"); record.ExitCode == 0 {
			t.Errorf("%s: it worked: %q", command, out)
		}
	}
	if got := x.run(t, "echo fine"); got != "fine" {
		t.Errorf("afterwards %q", got)
	}
}

// testUserKept: a sandbox keeps its user through a stop, whatever the daemon is
// told meanwhile, and its forks have it, too. A ready one is not for another's.
func testUserKept(t *testing.T, d *Driver) {
	u := asUser(t, d, "games:mail")
	x := newBox(t, u, "keeps")
	x.run(t, "echo mine > file")
	if err := u.Stop(t.Context(), x.ID()); err != nil {
		t.Fatal(err)
	}
	again, err := d.Start(t.Context(), x.ID())
	if err != nil {
		t.Fatal(err)
	}
	y := use(d, again)
	defer y.client.Close()
	if got := y.run(t, "id -un; id -gn; cat file; echo more >> file"); got != "games\nmail\nmine" {
		t.Errorf("after a restart: %q", got)
	}
	fork := forkBoxes(t, d, x.ID(), testSpec(), "keepsfork")[0]
	if got := fork.run(t, "id -un; cat file; stat -c %U:%G . file; echo x >> file; echo $HOME"); got != "games\nmine\nmore\ngames:mail\ngames:mail\n/usr/games" {
		t.Errorf("the fork: %q", got)
	}
	newBox(t, d, "forroot")
	if _, err := u.Claim(t.Context(), "forroot", "foruser", testSpec()); !errdefs.Is(err, errdefs.Conflict) {
		t.Errorf("a ready sandbox of root for a user: %v", err)
	}
}

// testNoUser: an image without the user makes no sandbox, and leaves nothing.
func testNoUser(t *testing.T, d *Driver) {
	u := asUser(t, d, "nosuchuser")
	_, err := u.Create(t.Context(), "nouser", testSpec())
	if !errdefs.Is(err, errdefs.Unprocessable) || !strings.Contains(err.Error(), `"nosuchuser"`) {
		t.Errorf("%v", err)
	}
	if _, err := d.Open(t.Context(), runtime.ID("nouser")); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("afterwards: %v", err)
	}
}
