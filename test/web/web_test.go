// Package web holds the console to what it promises, in a real browser, against a real
// daemon. Each *.test.mjs drives a browser.
package web

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// account is the role of a script's user on a daemon that several scripts share.
type account string

const (
	user  account = "user"
	admin account = "admin" // sees what the other scripts make
)

// shared are the scripts that use one daemon, each with a user of its own. Every other script has a daemon of its own:
// it kills the daemon, measures it, or sees as an admin what there is of all users.
var shared = map[string]account{"charts": user, "docs": user, "files": user, "forms": admin, "screen": user, "session": user}

// timed are the scripts that measure how long the page keeps a user waiting: nothing of the test runs beside them.
var timed = []string{"scale", "screen"}

// changing is the script that imports and deletes images, for which it has a store of its own.
const changing = "places"

// coding is the script that runs code, for which it has images with a kernel.
const coding = "notebook"

// atOnce bounds the scripts that run at one time: each has a browser, which is most of the work.
const atOnce = 2

// TestConsole runs the scripts. Those that measure time come first, one at a time; the others begin when they have ended.
func TestConsole(t *testing.T) {
	scripts := listScripts(t)
	images := blackbox.Images(t)
	together := blackbox.Start(t, blackbox.Options{Images: images})
	slots := make(chan struct{}, atOnce)
	for _, name := range scripts {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(timed, name) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
			}
			switch role, ok := shared[name]; {
			case ok:
				runScript(t, name+".test.mjs", visitor{daemon: together, key: newKey(t, together, name, role)})
			case name == changing:
				runScript(t, name+".test.mjs", ownerOf(blackbox.Start(t, blackbox.Options{DataDir: dataWithImages(t), Images: images})))
			case name == coding:
				runScript(t, name+".test.mjs", ownerOf(blackbox.Start(t, blackbox.Options{Images: blackbox.KernelImages(t)})))
			default:
				runScript(t, name+".test.mjs", ownerOf(blackbox.Start(t, blackbox.Options{Images: images})))
			}
		})
	}
}

// listScripts returns the names of the scripts.
func listScripts(t *testing.T) []string {
	t.Helper()
	const suffix = ".test.mjs"
	names, err := filepath.Glob("*" + suffix)
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for i := range names {
		names[i] = strings.TrimSuffix(names[i], suffix)
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(shared)), timed, []string{changing, coding}) {
		if !slices.Contains(names, name) {
			t.Fatalf("there is no script %s%s", name, suffix)
		}
	}
	return names
}

// newKey makes a user with a name and a role, and returns a key with the rights of the role.
func newKey(t *testing.T, d *blackbox.Daemon, name string, role account) string {
	t.Helper()
	client := d.Client("")
	if _, err := client.CreateUser(t.Context(), name, &sandkasten.UserOptions{Role: string(role)}); err != nil {
		t.Fatal(err)
	}
	scope := "run"
	if role == admin {
		scope = "admin"
	}
	key, err := client.CreateKey(t.Context(), &sandkasten.KeyOptions{User: name, Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	return key.Text
}

// dataWithImages returns a data directory with an image store of its own, which a daemon takes instead of another.
func dataWithImages(t *testing.T) string {
	t.Helper()
	data := testenv.DataDir(t)
	if err := blackbox.ImportImage(t.Context(), testenv.Program(t), testenv.BaseRootfs(t), "base", append(blackbox.Environ(), "SANDKASTEN_DATA_DIR="+data)); err != nil {
		t.Fatal(err)
	}
	return data
}

// picturesVar is the environment variable that says where TestPictures writes.
const picturesVar = "SANDKASTEN_TEST_PICTURES"

// TestPictures makes the pictures of the documentation anew.
func TestPictures(t *testing.T) {
	if os.Getenv(picturesVar) == "" {
		t.Skipf("makes pictures for the documentation where %s says", picturesVar) //nolint:forbidigo // it tests nothing that CI must not skip
	}
	runScript(t, "pictures.mjs", ownerOf(blackbox.Start(t, blackbox.Options{})))
}

// visitor is what a script has: a daemon, and a key for it.
type visitor struct {
	daemon *blackbox.Daemon
	key    string
	alone  bool // the daemon is the script's own
}

func ownerOf(d *blackbox.Daemon) visitor { return visitor{daemon: d, key: d.Key, alone: true} }

// runScript runs a script. It prints the line `daemon kill` or `daemon start` to ask for that, and reads a line as the
// answer.
func runScript(t *testing.T, script string, v visitor) {
	t.Helper()
	d := v.daemon
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Env = append(os.Environ(), "SANDKASTEN_URL="+d.URL, "SANDKASTEN_API_KEY="+v.key, fmt.Sprintf("SANDKASTEN_TEST_PID=%d", d.PID()))
	if os.Getenv("SANDKASTEN_TEST_SHOTS") == "" {
		cmd.Env = append(cmd.Env, "SANDKASTEN_TEST_SHOTS="+t.TempDir())
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if !strings.HasPrefix(line, "daemon ") {
			t.Log(line)
			continue
		}
		if err := obey(v, line); err != nil {
			t.Error(err)
		}
		if _, err := fmt.Fprintln(in, "done"); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, errs.String())
	}
	t.Logf("%s and its browser took %.1f s of the processors", script, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
}

// obey does what a line of a script asks for.
func obey(v visitor, line string) error {
	switch {
	case !v.alone:
		return fmt.Errorf("the script asks for %q, and shares its daemon", line)
	case line == "daemon kill":
		v.daemon.Kill()
	case line == "daemon start":
		v.daemon.Start()
	default:
		return fmt.Errorf("the script asks for %q", line)
	}
	return nil
}
