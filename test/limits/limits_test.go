package limits

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// small is a session that is soon at its limits.
var small = sandkasten.CreateOptions{CPU: 0.2, MemoryMB: 64, Pids: 64, DiskMB: 32}

// TestLimits runs into each limit of a session, all with one daemon.
func TestLimits(t *testing.T) {
	d := blackbox.Start(t, blackbox.Options{Config: "requests: {max_waiting_per_key: 200}\n"})
	client := d.Client("")
	for name, test := range map[string]func(*testing.T, *blackbox.Daemon, *sandkasten.Session){
		"memory": testMemory, "shared memory": testSharedMemory, "processes": testProcesses, "cpu": testCPU, "disk": testDisk, "files": testFiles,
		"open files": testOpenFiles, "terminals": testTerminals, "shells": testShells, "programs": testPrograms, "output": testOutput, "request sizes": testRequestSizes,
	} {
		t.Run(name, func(t *testing.T) {
			s := create(t, client, &small)
			test(t, d, s)
			if err := s.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func create(t *testing.T, client *sandkasten.Client, o *sandkasten.CreateOptions) *sandkasten.Session {
	t.Helper()
	s, err := client.CreateSession(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exec(t *testing.T, s *sandkasten.Session, command string) sandkasten.ExecResult {
	t.Helper()
	result, err := s.Exec(t.Context(), command, nil)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return result
}

func stats(t *testing.T, s *sandkasten.Session) sandkasten.Stats {
	t.Helper()
	st, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// wantRefused checks that an error says which limit it is about and what to do.
func wantRefused(t *testing.T, err error, status int, code string, words ...string) {
	t.Helper()
	refused, ok := errors.AsType[*sandkasten.APIError](err)
	if !ok || refused.Status != status || refused.Code != code {
		t.Errorf("%v, want %d %s", err, status, code)
		return
	}
	for _, word := range words {
		if !strings.Contains(refused.Message, word) {
			t.Errorf("%q does not say %q", refused.Message, word)
		}
	}
	if status == http.StatusTooManyRequests && refused.RetryAfter == 0 {
		t.Errorf("%q comes without Retry-After", refused.Message)
	}
}

// wantMetric checks that the daemon shows a metric of at least one.
func wantMetric(t *testing.T, d *blackbox.Daemon, beginning string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.URL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.Key)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, beginning) && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
			return
		}
	}
	t.Errorf("/metrics has no %s that is more than 0", beginning)
}

func testMemory(t *testing.T, d *blackbox.Daemon, s *sandkasten.Session) {
	result := exec(t, s, `python3 -c 'b = bytearray(b"x" * (200 << 20)); print("held")'`)
	if result.Cause != "oom_killed" || result.ExitCode != 137 {
		t.Errorf("200 MiB of 64: %+v", result)
	}
	st := stats(t, s)
	if st.OOMKills == 0 || st.MemoryLimit != 64<<20 || st.MemoryPeak < 32<<20 || st.MemoryPeak > 65<<20 { // the kernel lets what it ends take some pages more
		t.Errorf("stats: %+v", st)
	}
	wantMetric(t, d, `sandkasten_exec_duration_seconds_count{cause="oom_killed"}`)
	if result := exec(t, s, "echo on"); result.Output != "on\n" {
		t.Errorf("afterwards: %+v", result)
	}
}

func testSharedMemory(t *testing.T, _ *blackbox.Daemon, s *sandkasten.Session) {
	result := exec(t, s, `head -c 100M /dev/zero >/dev/shm/f; stat -c %s /dev/shm/f; rm /dev/shm/f`)
	if !strings.Contains(result.Output, "No space left on device") || !strings.Contains(result.Output, fmt.Sprint(32<<20)) {
		t.Errorf("100 MiB of 32: %+v", result)
	}
}

func testProcesses(t *testing.T, _ *blackbox.Daemon, s *sandkasten.Session) {
	result := exec(t, s, `python3 -c '
import os, time
made = 0
try:
    for made in range(1000):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
except OSError as e:
    print(made, e.strerror)
'`)
	var made int
	if _, err := fmt.Sscan(result.Output, &made); err != nil || made >= 64 || made < 50 || !strings.Contains(result.Output, "Resource temporarily unavailable") {
		t.Errorf("1000 processes of 64: %+v", result)
	}
	if st := stats(t, s); st.PidsLimit != 64 || st.Pids < 50 || st.Pids > 64 {
		t.Errorf("stats: %+v", st)
	}
}

func testCPU(t *testing.T, _ *blackbox.Daemon, s *sandkasten.Session) {
	exec(t, s, "true")
	before, start := stats(t, s), time.Now()
	exec(t, s, "timeout 2 sh -c 'while :; do :; done'")
	used, took := stats(t, s).CPUUsageUsec-before.CPUUsageUsec, time.Since(start)
	if share := float64(used) / float64(took.Microseconds()); used == 0 || share > 0.3 {
		t.Errorf("%.2f cores, with a limit of 0.2", share)
	}
	if before.CPULimit != 0.2 {
		t.Errorf("stats: %+v", before)
	}
}

// A client learns of a full disk by how a command ended, by the status of a file
// call, and by stats.
func testDisk(t *testing.T, d *blackbox.Daemon, s *sandkasten.Session) {
	if result := exec(t, s, "(exit 1)"); result.ExitCode != 1 || result.DiskFull {
		t.Errorf("with room on the disk: %+v", result)
	}
	result := exec(t, s, `dd if=/dev/zero of=f bs=2M; r=$?; rm f; (exit $r)`)
	if result.ExitCode != 1 || result.DiskFull {
		t.Errorf("what it could not write is removed: %+v", result)
	}
	if result := exec(t, s, `dd if=/dev/zero of=f bs=2M`); !result.DiskFull {
		t.Errorf("a program that writes much at a time: %+v", result)
	}
	result = exec(t, s, `head -c 100M /dev/zero >f`)
	if result.Cause != "exited" || result.ExitCode == 0 || !result.DiskFull || !strings.Contains(result.Output, "No space left on device") {
		t.Errorf("100 MiB of 32: %+v", result)
	}
	wantFull(t, s, result.ExecID)
	wantMetric(t, d, `sandkasten_exec_disk_full_total `)
	result, err := s.Exec(t.Context(), "head -c 1M /dev/zero", &sandkasten.ExecOptions{OutputFile: "all"})
	if err != nil || result.ExitCode != 0 || result.DiskFull || !strings.Contains(result.OutputFileError, "no space left in the sandbox") {
		t.Errorf("a success: %q, %+v, %v", result.OutputFileError, result.ExecEnd, err)
	}
	program, err := s.RunProcess(t.Context(), []string{"head", "-c", "1M", "/dev/zero"}, &sandkasten.ProcessOptions{OutputFile: "all"})
	if err != nil || program.OutputFileError == "" {
		t.Errorf("a program: %+v, %v", program.ExecEnd, err)
	}
	if record, err := s.Process(result.ExecID).Wait(t.Context()); err != nil || record.OutputFileError != result.OutputFileError {
		t.Errorf("the record: %+v, %v", record, err)
	}
	err = s.Files.Write(t.Context(), "g", bytes.NewReader(make([]byte, 4<<20)), nil)
	wantRefused(t, err, http.StatusInsufficientStorage, "insufficient_space", "no space left in the sandbox", "remove files or ask for a larger disk")
	if st := stats(t, s); st.DiskLimit != 32<<20 || st.DiskBytes < st.DiskLimit/2 {
		t.Errorf("stats: %+v", st)
	}
	wantMetric(t, d, `sandkasten_http_requests_total{route="PUT /v1/sessions/{id}/fs/raw",status="507"}`)
	if result := exec(t, s, "rm f one-more && echo on >f && cat f"); result.Output != "on\n" {
		t.Errorf("afterwards: %+v", result)
	}
}

// wantFull checks that all that tells how a command ended says that its disk was
// full, which it is now.
func wantFull(t *testing.T, s *sandkasten.Session, execID string) {
	t.Helper()
	record, err := s.Process(execID).Wait(t.Context())
	if err != nil || !record.DiskFull {
		t.Errorf("the record: %+v, %v", record, err)
	}
	if page, err := s.Process(execID).Output(t.Context(), nil); err != nil || !page.DiskFull {
		t.Errorf("the output: %+v, %v", page, err)
	}
	end, err := s.ExecStream("(exit 1)", nil).Copy(t.Context(), io.Discard, io.Discard)
	if err != nil || !end.DiskFull {
		t.Errorf("a stream: %+v, %v", end, err)
	}
	fails := []string{"sh", "-c", ": >one-more || exit 1; head -c 1M /dev/zero >one-more"}
	process, err := s.RunProcess(t.Context(), fails, nil)
	if err != nil || process.ExitCode == 0 || !process.DiskFull {
		t.Errorf("a process: %+v, %v", process, err)
	}
	all, err := s.ListExecs(t.Context())
	if err != nil || len(all) < 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, one := range all[len(all)-3:] {
		if !one.DiskFull {
			t.Errorf("in the list: %+v", one)
		}
	}
}

// TestFullDisk is of what may be full: the root's disk, a workspace that stays,
// one of a read-only root, of which only that can be written. Memory is no disk.
func TestFullDisk(t *testing.T) {
	d := blackbox.Start(t, blackbox.Options{})
	client := d.Client("")
	if _, err := client.CreateWorkspace(t.Context(), &sandkasten.WorkspaceOptions{ID: "small", SizeMB: 16}); err != nil {
		t.Fatal(err)
	}
	readonly, kept := small, small
	readonly.ReadonlyRootfs, kept.WorkspaceID = new(true), "small"
	for _, c := range []struct {
		name    string
		options sandkasten.CreateOptions
		fill    string
		want    bool
	}{
		{"the root", small, "/opt/f", true},
		{"the root beside a workspace", kept, "/opt/f", true},
		{"a workspace", kept, "/workspace/f", true},
		{"the workspace of a read-only root", readonly, "/workspace/f", true},
		{"memory", readonly, "/tmp/f", false},
		{"memory for sharing", small, "/dev/shm/f", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := create(t, client, &c.options)
			if result := exec(t, s, "(exit 1)"); result.DiskFull {
				t.Errorf("before: %+v", result)
			}
			result := exec(t, s, "head -c 100M /dev/zero >"+c.fill)
			if result.DiskFull != c.want || !strings.Contains(result.Output, "No space left on device") {
				t.Errorf("%+v", result)
			}
			if result := exec(t, s, "rm "+c.fill+"; (exit 1)"); result.DiskFull {
				t.Errorf("afterwards: %+v", result)
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func testFiles(t *testing.T, _ *blackbox.Daemon, s *sandkasten.Session) {
	result := exec(t, s, `mkdir many && cd many && python3 -c '
for i in range(100000): open(str(i), "w").close()' 2>&1 | tail -n 1`)
	if !strings.Contains(result.Output, "No space left on device") {
		t.Errorf("100000 files: %+v", result)
	}
	if result := exec(t, s, ": >one-more"); result.ExitCode == 0 || !result.DiskFull {
		t.Errorf("without a file left: %+v", result)
	}
	err := s.Files.Write(t.Context(), "one-more", strings.NewReader("x"), nil)
	wantRefused(t, err, http.StatusInsufficientStorage, "insufficient_space", "no space left in the sandbox")
	if st := stats(t, s); st.FilesLimit == 0 || st.FilesLimit > 10000 || st.Files < st.FilesLimit-20 {
		t.Errorf("stats: %+v", st)
	}
}

func testOpenFiles(t *testing.T, _ *blackbox.Daemon, s *sandkasten.Session) {
	result := exec(t, s, `ulimit -n; python3 -c '
import os
held = 0
try:
    while True:
        os.open("/dev/null", 0)
        held += 1
except OSError as e:
    print(held, e.strerror)'`)
	if !strings.HasPrefix(result.Output, "16384\n163") || !strings.Contains(result.Output, "Too many open files") {
		t.Errorf("%+v", result)
	}
}

func testTerminals(t *testing.T, _ *blackbox.Daemon, s *sandkasten.Session) {
	sleep := []string{"sleep", "600"}
	for i := range 33 {
		_, err := s.StartProcess(t.Context(), sleep, &sandkasten.ProcessOptions{TTY: true})
		if i < 32 && err != nil {
			t.Fatalf("terminal %d: %v", i, err)
		}
		if i == 32 {
			wantRefused(t, err, http.StatusTooManyRequests, "resource_exhausted", "32 terminals, which is the limit", "close one")
		}
	}
	if _, err := s.RunProcess(t.Context(), []string{"true"}, nil); err != nil {
		t.Errorf("beside the terminals: %v", err)
	}
}

// testPrograms needs a session with room for so many.
func testPrograms(t *testing.T, d *blackbox.Daemon, _ *sandkasten.Session) {
	s := create(t, d.Client(""), nil)
	for i := range 129 {
		_, err := s.StartProcess(t.Context(), []string{"sleep", "600"}, nil)
		if i < 128 && err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
		if i == 128 {
			wantRefused(t, err, http.StatusTooManyRequests, "resource_exhausted", "128 programs, which is the limit", "cancel one")
		}
	}
	for i := range 64 { // and the shell "default"
		_, err := s.Exec(t.Context(), "true", &sandkasten.ExecOptions{Shell: fmt.Sprint("s", i)})
		if i < 63 && err != nil {
			t.Fatalf("shell %d: %v", i, err)
		}
		if i == 63 {
			wantRefused(t, err, http.StatusTooManyRequests, "resource_exhausted", "64 shells, which is the limit", "use one of them")
		}
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

func testShells(t *testing.T, _ *blackbox.Daemon, s *sandkasten.Session) {
	var wg sync.WaitGroup
	defer wg.Wait()
	refused := make(chan error, 100)
	for range 80 {
		wg.Go(func() {
			_, err := s.Exec(t.Context(), "sleep 3", &sandkasten.ExecOptions{Timeout: 2 * time.Second})
			if _, over := errors.AsType[*sandkasten.APIError](err); over {
				refused <- err
			}
		})
	}
	select {
	case err := <-refused:
		wantRefused(t, err, http.StatusTooManyRequests, "resource_exhausted", "64 execs wait for this shell", "use another shell")
	case <-time.After(30 * time.Second):
		t.Error("80 commands wait for one shell")
	}
	if err := s.Destroy(t.Context()); err != nil { // or all would have their turn
		t.Error(err)
	}
}

func testOutput(t *testing.T, d *blackbox.Daemon, s *sandkasten.Session) {
	result := exec(t, s, "head -c 3M /dev/zero | tr '\\0' x")
	if !result.Truncated || result.OutputBytes != 3<<20 || len(result.Output) < 1<<19 || len(result.Output) > 1<<20+200 {
		t.Errorf("%d of %d bytes, truncated %v", len(result.Output), result.OutputBytes, result.Truncated)
	}
	slow, err := s.Exec(t.Context(), "sleep 60", &sandkasten.ExecOptions{Timeout: 100 * time.Millisecond})
	if err != nil || slow.Cause != "timeout" || !slow.TimedOut {
		t.Errorf("out of time: %+v, %v", slow, err)
	}
	wantMetric(t, d, `sandkasten_exec_duration_seconds_count{cause="timeout"}`)
	_, err = s.Exec(t.Context(), "true", &sandkasten.ExecOptions{Timeout: time.Hour})
	wantRefused(t, err, http.StatusBadRequest, "invalid_argument", "600000")
}

func testRequestSizes(t *testing.T, _ *blackbox.Daemon, s *sandkasten.Session) {
	_, err := s.Exec(t.Context(), "true "+strings.Repeat("x", 1<<20), nil)
	wantRefused(t, err, http.StatusBadRequest, "invalid_argument", "1048576")
	_, err = s.Exec(t.Context(), "true "+strings.Repeat("x", 9<<20), nil)
	wantRefused(t, err, http.StatusRequestEntityTooLarge, "too_large", "8388608 bytes")
}

// TestRequestsUnderWay: what waits has a limit of its own, and calls that do not
// wait go on, for the same key as for others.
func TestRequestsUnderWay(t *testing.T) {
	d := blackbox.Start(t, blackbox.Options{Config: "requests: {max_waiting_per_key: 2}\napi_keys: [{owner: alice, key: sk_alice_key_of_16}, {owner: bob, key: sk_bob_key_of_16_c}]\n"})
	alice, bob := create(t, d.Client("sk_alice_key_of_16"), nil), create(t, d.Client("sk_bob_key_of_16_c"), nil)
	defer func() {
		for _, s := range []*sandkasten.Session{alice, bob} { // the daemon's own key does not see them
			if err := s.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		if err := alice.Write(t.Context(), "/workspace/go", strings.NewReader(""), nil); err != nil {
			t.Error(err)
		}
	}()
	for i := range 2 {
		wg.Go(func() {
			if _, err := alice.Exec(t.Context(), "until [ -e /workspace/go ]; do sleep 0.1; done", &sandkasten.ExecOptions{Shell: fmt.Sprint("s", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	deadline := time.Now().Add(30 * time.Second)
	for stats(t, alice).Pids < 5 && time.Now().Before(deadline) { // two shells with a sleep each
		time.Sleep(10 * time.Millisecond)
	}
	_, err := alice.Exec(t.Context(), "true", nil)
	wantRefused(t, err, http.StatusTooManyRequests, "resource_exhausted", "2 requests that wait or stream of this key are under way")
	if _, err := alice.Stats(t.Context()); err != nil {
		t.Errorf("a call that does not wait: %v", err)
	}
	if result := exec(t, bob, "echo hello"); result.Output != "hello\n" {
		t.Errorf("bob: %+v", result)
	}
	wantMetric(t, d, `sandkasten_http_requests_in_flight{class="long"}`)
	wantMetric(t, d, `sandkasten_http_requests_refused_total{limit="key"}`)
}
