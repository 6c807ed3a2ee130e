package attack

import (
	"encoding/base64"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

// kernelScene is a session whose contexts are attacked.
type kernelScene struct {
	*sandkasten.Session
	*caller

	t *testing.T
}

func stageKernel(t *testing.T) *kernelScene {
	t.Helper()
	d := blackbox.Start(t, blackbox.Options{Images: blackbox.KernelImages(t), Config: configuration})
	s, err := d.Client("").CreateSession(t.Context(), &sandkasten.CreateOptions{Image: "python", MemoryMB: 512, Pids: 128})
	if err != nil {
		t.Fatal(err)
	}
	return &kernelScene{s, as(t, d, d.Key), t}
}

func (k *kernelScene) run(code string) sandkasten.CodeRun {
	k.t.Helper()
	r, err := k.RunCode(k.t.Context(), code, &sandkasten.RunCodeOptions{Timeout: paced(time.Minute)})
	if err != nil {
		k.t.Fatalf("%s: %v", code, err)
	}
	return r
}

// as runs a program as a user of the sandbox.
func (k *kernelScene) asUser(user string, args ...string) sandkasten.ProcessResult {
	k.t.Helper()
	r, err := k.RunProcess(k.t.Context(), args, &sandkasten.ProcessOptions{User: user})
	if err != nil {
		k.t.Fatal(err)
	}
	return r
}

// X01: the key and the sockets of a kernel are its user's.
func TestX01_AnotherUsersProcess(t *testing.T) {
	t.Parallel()
	k := stageKernel(t)
	file := strings.TrimSpace(k.run("import ipykernel.connect as c; print(c.get_connection_file())").Stdout)
	dir := path.Dir(file)
	reach := fmt.Sprintf(`import glob, os, socket, sys
found = []
for name in ["%s", "%s", "%s"]:
    try:
        os.listdir(name) if name != "%s" else open(name).read()
        found.append(name)
    except OSError:
        pass
for n in range(1, 6):
    try:
        socket.socket(socket.AF_UNIX).connect("%s/s-%%d" %% n)
        found.append(n)
    except OSError:
        pass
for pid in [%s]:
    for of in ("mem", "fd", "environ"):
        try:
            os.listdir(f"/proc/{pid}/{of}") if of == "fd" else open(f"/proc/{pid}/{of}", "rb").read(0)
            found.append((pid, of))
        except OSError:
            pass
    try:
        os.kill(pid, 0)
        found.append((pid, "kill"))
    except OSError:
        pass
print(found)`, path.Dir(dir), dir, file, file, dir, k.run("import os; print(os.getpid(), ',', os.getppid())").Stdout)
	if r := k.asUser("1000:1000", "python3", "-c", reach); strings.TrimSpace(r.Stdout) != "[]" || r.ExitCode != 0 {
		t.Errorf("another user reaches %s %s", r.Stdout, r.Stderr)
	}
	// The control: its own user reaches all of it, so that the attack is one.
	if r := k.asUser("", "python3", "-c", reach); strings.Count(r.Stdout, "(") < 6 || !strings.Contains(r.Stdout, file) || !strings.Contains(r.Stdout, " 1,") {
		t.Errorf("its own user reaches %s %s", r.Stdout, r.Stderr)
	}
}

// X02: what code writes where the bridge writes becomes no answer to another question,
// no event and no context.
func TestX02_ForgedFrames(t *testing.T) {
	t.Parallel()
	k := stageKernel(t)
	k.run("x = 41")
	forge := `import os, json
out = os.open("/proc/%d/fd/1" % os.getppid(), os.O_WRONLY)
def forge(data): os.write(out, data)
for tag in ("", "x", "A" * 26, None, 5, ["x"]):
    for kind in ("end", "ready", "refused", "event", "failed", 7):
        forge(json.dumps({"tag": tag, "kind": kind, "seq": 1, "reason": "no_run", "status": {"state": "idle", "pid": 1},
            "answer": {"cause": "completed", "results": [{"data": {"text/plain": "FORGED"}, "is_main_result": True}]},
            "event": {"type": "stdout", "text": "FORGED"}}).encode() + b"\n")
forge(b"{" * 5000 + b"\n" + b"\0\xff\xfe\n" + b"[" * 100_000 + b"\n")
forge(b'{"tag": ' * 3000 + b"\n")
`
	shown := ""
	r, err := k.RunCode(t.Context(), forge+"x + 1", &sandkasten.RunCodeOptions{OnStdout: func(text string) { shown += text }, OnResult: func(r sandkasten.CodeResult) { shown += r.Text() }})
	if err != nil || r.Text() != "42" || shown != "42" || r.Cause != "completed" {
		t.Errorf("%+v, %v, %q", r, err, shown)
	}
	if r := k.run("x"); r.Text() != "41" {
		t.Errorf("behind it: %+v", r)
	}
	if info, err := k.Context(r.ContextID).Refresh(t.Context()); err != nil || info.PID == 1 || info.State != "idle" {
		t.Errorf("%+v, %v", info, err)
	}
	// The control: what was forged did come to the daemon.
	var output struct{ Chunks []struct{ Base64 string } }
	k.do(t, "GET", "/v1/sessions/"+k.ID+"/execs/"+r.ContextID+"/output", nil).into(t, &output)
	written := ""
	for _, chunk := range output.Chunks {
		text, err := base64.StdEncoding.DecodeString(chunk.Base64)
		if err != nil {
			t.Fatal(err)
		}
		written += string(text)
	}
	if strings.Count(written, "FORGED") < 10 {
		t.Errorf("nothing was forged: %.300q", written)
	}
	// A line without an end is not kept.
	if r := k.run(forge + "for n in range(64): forge(b'y' * (1 << 20))\nforge(b'\\n'); x"); r.Text() != "41" {
		t.Errorf("a long line: %+v", r)
	}
	// A process that says that it is a context is none that has an answer.
	p, err := k.StartProcess(t.Context(), []string{"python3", "-c", "import time; time.sleep(60)", "sandkasten-context", "1", "python", "default-python"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := k.ListContexts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.ContextID == p.ID {
			t.Errorf("it is a context: %+v", c)
		}
	}
}

// X03: a result that says that it is a file names none, and what is too long for an
// answer stays in the sandbox.
func TestX03_ResultsThatClaimToBeFiles(t *testing.T) {
	t.Parallel()
	k := stageKernel(t)
	r := k.run(`display({"text/plain": "p", "file_paths": {"image/png": "/etc/shadow"}, "stdout_file": "/etc/shadow", "dropped_bytes": 5, "is_main_result": True, "display_id": "d"}, raw=True)`)
	if len(r.Results) != 1 || len(r.Results[0].FilePaths) > 0 || r.Results[0].DroppedBytes != 0 || r.Results[0].IsMainResult || r.StdoutFile != "" {
		t.Errorf("%+v", r)
	}
	const long = "print(('z' * 99 + '\\n') * 40_000)"
	if r := k.run(long); !strings.HasPrefix(r.StdoutFile, "/workspace/.sandkasten-outputs/") { // the control
		t.Errorf("%+v", r.StdoutFile)
	}
	k.run("!rm -rf /workspace/.sandkasten-outputs; ln -s /proc/1/root/etc /workspace/.sandkasten-outputs")
	if r := k.run(long); r.Cause != "completed" || r.StdoutDroppedBytes == 0 {
		t.Errorf("%+v", r)
	}
	// A MIME type is no path.
	k.run("!rm -rf /workspace/.sandkasten-outputs")
	r = k.run(`display({"text/../../../tmp/x": "w" * (9 << 20)}, raw=True)`)
	for _, file := range r.Results[0].FilePaths {
		if path.Dir(path.Clean(file)) != "/workspace/.sandkasten-outputs" {
			t.Errorf("it lies at %s", file)
		}
	}
	if len(r.Results[0].FilePaths) != 1 {
		t.Errorf("%+v", r.Results[0].FilePaths)
	}
}

// X04: HTML and SVG of a kernel are text in JSON, of which no browser makes a page.
func TestX04_PagesOfKernels(t *testing.T) {
	t.Parallel()
	k := stageKernel(t)
	const page = `<html><script>alert("X04")</script><svg onload="alert(4)"></svg></html>`
	const drawing = `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(4)</script></svg>`
	code := map[string]any{"code": "from IPython.display import HTML, SVG, display\nprint('" + page + "'); display(SVG('" + drawing + "')); HTML('" + page + "')"}
	html := func(r reply, what string) {
		t.Helper()
		kind := r.header.Get("Content-Type")
		if !strings.HasPrefix(kind, "application/json") && !strings.HasPrefix(kind, "text/event-stream") || r.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s is %q with %q", what, kind, r.header.Get("X-Content-Type-Options"))
		}
		if strings.Count(r.body, "alert") < 3 || strings.Contains(r.body, "Traceback") { // the control
			t.Errorf("%s lacks what the code shows: %.300s", what, r.body)
		}
	}
	base := "/v1/sessions/" + k.ID
	answer := k.do(t, "POST", base+"/run-code", code)
	html(answer, "the answer")
	var run struct {
		ContextID string `json:"context_id"`
		RunID     string `json:"run_id"`
	}
	answer.into(t, &run)
	at := base + "/contexts/" + run.ContextID + "/runs/" + run.RunID
	html(k.do(t, "GET", at, nil), "the run")
	html(k.do(t, "GET", at+"/stream", nil), "its events")
	html(k.do(t, "POST", base+"/run-code/stream", code), "a stream")
}
