package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/blob/s3/s3test"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// A monkey of the orchestrator's API: a few sessions that are written to, stopped,
// deleted and begun again, while disks are full or read-only, stores fail, engines
// start again and the daemon is killed. What was acknowledged is there whenever its
// session can be used again; what was not, or an older one, is not.
func TestF38_OrchestratedMonkey(t *testing.T) {
	n := seedOf()
	r := rand.New(rand.NewPCG(n, 38))
	places := slices.Sorted(maps.Keys(tenantPlaces))
	place := places[n%uint64(len(places))]
	m := &landlord{r: r, t: t, seed: n, faults: tenantPlaces[place](t)}
	m.host = m.faults.host
	for i := range 4 {
		m.tenants = append(m.tenants, &tenant{id: fmt.Sprintf("6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a%02d", i), files: map[string]string{}, perhaps: map[string][]string{}})
	}
	span := spanOf(t)
	t.Logf("seed %d, for %s, %s", n, span, place)
	t.Cleanup(m.tell)
	for end := time.Now().Add(span); time.Now().Before(end); m.done++ {
		m.act()
		if m.done%40 == 39 {
			m.mend()
			m.checkAll()
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	m.mend()
	m.checkAll()
	t.Logf("%d actions: %v; answers: %v", m.done, m.count, m.answers)
	for _, one := range m.tenants {
		m.patiently("end "+one.id, func() (int, error) { return m.ask(http.MethodDelete, one.id+"/?force=true", "") }, http.StatusNoContent)
	}
}

// tenantFaults is a host with what can befall it.
type tenantFaults struct {
	*host

	faults []tenantFault
	blows  []func(one *tenant) // that are over at once
}

// tenantFault lasts until it is mended.
type tenantFault struct {
	begin func() (mend func())

	// losesWrites says that what was acknowledged in the fault may be lost: on a disk that
	// is full, without a reserve, the kernel has no place for what it took.
	losesWrites bool
}

// tenantPlaces are where the sandboxes and the archives are.
var tenantPlaces = map[string]func(*testing.T) *tenantFaults{
	"native, archives on a small disk": func(t *testing.T) *tenantFaults {
		disk := newSmall(t, 700)
		f := &tenantFaults{host: disk.on("orchestrator: {enabled: true, reaper_interval_seconds: 1}\n")}
		fill := func() func() {
			unix.Sync() // the kernel loses what it has not written when there is no place for it
			disk.fill()
			return disk.empty
		}
		f.faults = []tenantFault{{begin: fill, losesWrites: true}, {begin: f.readOnlyArchives}, {begin: f.noArchives}}
		f.blows = []func(*tenant){f.killRunnerOf}
		return f
	},
	"native, archives in a bucket": func(t *testing.T) *tenantFaults {
		b := s3test.StartBreakable(t)
		f := &tenantFaults{host: start(t, "orchestrator: {enabled: true, reaper_interval_seconds: 1}\n"+b.Config())}
		f.faults = bucketFaults(b)
		f.blows = []func(*tenant){f.killRunnerOf}
		return f
	},
	"on an engine": func(t *testing.T) *tenantFaults {
		f := onEngine(t, "")
		f.faults = []tenantFault{{begin: f.readOnlyArchives}, {begin: f.noArchives}}
		return f
	},
	"on an engine, archives in a bucket": func(t *testing.T) *tenantFaults {
		b := s3test.StartBreakable(t)
		f := onEngine(t, b.Config())
		f.faults = bucketFaults(b)
		return f
	},
}

// onEngine has an engine of its own, which starts again, and whose containers are killed.
func onEngine(t *testing.T, config string) *tenantFaults {
	t.Helper()
	testenv.NeedsRoot(t)
	e := testenv.StartEngine(t)
	h := newHost(t, blackbox.Options{Config: fmt.Sprintf("%sdriver: docker\ndocker: {host: %q}\norchestrator: {enabled: true, reaper_interval_seconds: 1}\n%s", quick, e.Host, config)})
	h.Start()
	return &tenantFaults{host: h, blows: []func(*tenant){
		func(*tenant) { e.Stop(t, syscall.SIGTERM); e.Start(t) },
		func(one *tenant) {
			label := "label=astraforge.sandbox.session=" + one.id
			out, err := exec.CommandContext(t.Context(), "docker", "--host", e.Host, "ps", "--quiet", "--filter", label).Output()
			if id := strings.TrimSpace(string(out)); err == nil && id != "" {
				_ = exec.CommandContext(t.Context(), "docker", "--host", e.Host, "kill", id).Run() // it may have ended
			}
		},
	}}
}

// bucketFaults are all that befalls a bucket.
func bucketFaults(b *s3test.Breakable) (faults []tenantFault) {
	for _, name := range slices.Sorted(maps.Keys(s3test.Ways)) { // in the same order for the same seed
		faults = append(faults, tenantFault{begin: func() func() { return b.Break("", s3test.Ways[name]) }})
	}
	return faults
}

// readOnlyArchives has the archives on a file system that takes nothing.
func (f *tenantFaults) readOnlyArchives() func() {
	dir := filepath.Join(f.Data, "snapshots")
	return f.covered(dir, errors.Join(unix.Mount(dir, dir, "", unix.MS_BIND, ""), unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")))
}

// noArchives has their file system not mounted.
func (f *tenantFaults) noArchives() func() {
	dir := filepath.Join(f.Data, "snapshots")
	return f.covered(dir, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
}

func (f *tenantFaults) covered(dir string, err error) (uncover func()) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	return func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			f.t.Error(err)
		}
	}
}

// killRunnerOf kills the runner of a session that is ready.
func (f *tenantFaults) killRunnerOf(one *tenant) {
	if one.ref == "" {
		return
	}
	if pid := f.box(one.ref).Process.PID; pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// tenant is a session as it must be.
type tenant struct {
	id      string
	ref     string              // its sandbox, as far as that is known
	files   map[string]string   // as acknowledged last; "" is none
	perhaps map[string][]string // what may be there instead
}

// landlord is the monkey.
type landlord struct {
	*host

	t       *testing.T
	r       *rand.Rand
	seed    uint64
	faults  *tenantFaults
	mending []func()
	losing  bool // a fault that loses writes lasts
	tenants []*tenant

	done    int
	history []string
	count   map[string]int
	answers map[string]int
}

// tenantDeeds are what the monkey does, and how often in comparison.
var tenantDeeds = []struct {
	name   string
	weight int
	do     func(*landlord, *tenant)
}{
	{"write", 30, (*landlord).write},
	{"read", 12, func(m *landlord, one *tenant) { m.read(one, false) }},
	{"create", 8, (*landlord).create},
	{"stop", 10, func(m *landlord, one *tenant) { m.end(one, http.MethodPost, "stop/") }},
	{"delete", 6, func(m *landlord, one *tenant) { m.end(one, http.MethodDelete, "") }},
	{"snapshot", 5, (*landlord).snapshot},
	{"a fault begins", 5, (*landlord).breakSomething},
	{"faults end", 7, func(m *landlord, _ *tenant) { m.mend() }},
	{"a blow", 4, func(m *landlord, one *tenant) { m.faults.blows[m.r.IntN(len(m.faults.blows))](one) }},
	{"kill the daemon", 3, func(m *landlord, _ *tenant) { m.Kill(); m.begin() }},
	{"kill the daemon at work", 6, (*landlord).killAtWork},
	{"time is up", 4, (*landlord).expire},
	{"a while", 4, func(m *landlord, _ *tenant) { time.Sleep(time.Duration(m.r.IntN(1500)) * time.Millisecond) }},
}

func (m *landlord) act() {
	total := 0
	for _, d := range tenantDeeds {
		total += d.weight
	}
	n := m.r.IntN(total)
	one := m.tenants[m.r.IntN(len(m.tenants))]
	for _, d := range tenantDeeds {
		if n -= d.weight; n < 0 {
			m.note("%s, %s", d.name, one.id[len(one.id)-2:])
			if m.count == nil {
				m.count, m.answers = map[string]int{}, map[string]int{}
			}
			m.count[d.name]++
			d.do(m, one)
			return
		}
	}
}

const again = "the same, once or more often"

// note keeps what was done. What is asked again and again is one line.
func (m *landlord) note(format string, args ...any) {
	line := fmt.Sprintf("%d: ", m.done) + fmt.Sprintf(format, args...)
	if n := len(m.history); n > 1 && line == m.history[n-2] && m.history[n-1] == again {
		return
	} else if n > 0 && line == m.history[n-1] {
		line = again
	}
	m.history = append(m.history, line)
}

func (m *landlord) tell() {
	if m.t.Failed() {
		m.t.Logf("to do it again: go tool task test:monkey:orchestrator -- -seed %d\nthe last actions:\n\t%s\n%s", m.seed,
			strings.Join(m.history[max(0, len(m.history)-300):], "\n\t"), m.Log())
	}
}

// ask makes a request below the sessions and returns the status of its answer, and notes
// it: a success is an acknowledgement.
func (m *landlord) ask(method, path, body string) (status int, err error) {
	status, _, err = m.fetch(method, path, body)
	return status, err
}

var tenantClient = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

// request is one below the sessions, of JSON if there is a body.
func (m *landlord) request(method, path, body string) *http.Request {
	m.t.Helper()
	r, err := http.NewRequestWithContext(m.t.Context(), method, m.URL+"/api/sandbox/sessions/"+path, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", m.Key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (m *landlord) fetch(method, path, body string) (status int, answer []byte, err error) {
	response, err := tenantClient.Do(m.request(method, path, body))
	if err == nil {
		status = response.StatusCode
		answer, err = io.ReadAll(response.Body)
		err = errors.Join(err, response.Body.Close())
	}
	m.note("  %s %s %s: %d, %v", method, path, body, status, err)
	m.answers[fmt.Sprintf("%s %d", method, status)]++
	if status == http.StatusInternalServerError {
		m.t.Fatalf("%s %s: %s", method, path, answer)
	}
	return status, answer, err
}

// must makes a request that has to be answered with a status, and returns the answer.
func (m *landlord) must(want int, method, path, body string) string {
	m.t.Helper()
	status, answer, err := m.fetch(method, path, body)
	if err != nil || status != want {
		m.t.Fatalf("%s %s: %d %s, %v", method, path, status, answer, err)
	}
	return string(answer)
}

// patiently asks until the answer is one of these.
func (m *landlord) patiently(what string, ask func() (int, error), want ...int) {
	m.t.Helper()
	err := patiently(settle, func() error {
		status, err := ask()
		if err == nil && !slices.Contains(want, status) {
			err = fmt.Errorf("%d", status)
		}
		return err
	})
	if err != nil {
		m.t.Fatalf("%s: %v", what, err)
	}
}

func (m *landlord) write(one *tenant) {
	name, text := fmt.Sprintf("f%d", m.r.IntN(5)), fmt.Sprintf("%d-%d", m.seed, m.done)
	m.note("  %s is to be %s", name, text)
	before := one.files[name]
	status, err := m.ask(http.MethodPost, one.id+"/upload/", fmt.Sprintf(`{"path":%q,"content":%q}`, name, text))
	if err != nil || status/100 != 2 {
		one.perhaps[name] = append(one.perhaps[name], text)
		return
	}
	one.files[name] = text
	if !m.losing {
		delete(one.perhaps, name)
	} else {
		one.perhaps[name] = append(one.perhaps[name], before, strings.Repeat("\x00", len(text)))
	}
}

func (m *landlord) create(one *tenant) {
	status, answer, err := m.fetch(http.MethodPost, "", fmt.Sprintf(`{"id":%q}`, one.id))
	if err == nil && status/100 == 2 {
		one.heed(answer)
	}
}

// heed notes where a session runs.
func (one *tenant) heed(answer []byte) {
	var x struct{ Ref string }
	if json.Unmarshal(answer, &x) == nil && x.Ref != "" {
		one.ref = x.Ref[strings.LastIndexByte(x.Ref, '/')+1:]
	}
}

// read compares all files of a session, which begins for that if it has to. Where
// something is broken no answer is one, too, unless it has to be.
func (m *landlord) read(one *tenant, must bool) {
	m.t.Helper()
	for _, name := range []string{"f0", "f1", "f2", "f3", "f4"} {
		var status int
		var content []byte
		look := func() (int, error) {
			var err error
			if status, content, err = m.fetch(http.MethodPost, "", fmt.Sprintf(`{"id":%q}`, one.id)); err == nil && status/100 == 2 {
				one.heed(content)
				status, content, err = m.fetch(http.MethodGet, one.id+"/files/content/?path="+name, "")
			}
			if status == http.StatusBadRequest && bytes.Contains(content, []byte("start it first")) {
				status = http.StatusConflict // it is the first to notice that a runner has died
			}
			return status, err
		}
		if must {
			m.patiently("read "+name+" of "+one.id, look, http.StatusOK, http.StatusBadRequest)
		} else if _, err := look(); err != nil || status != http.StatusOK && status != http.StatusBadRequest {
			return
		}
		if status == http.StatusBadRequest {
			if !bytes.Contains(content, []byte("no such file")) && !bytes.Contains(content, []byte("does not exist")) && !bytes.Contains(content, []byte("not found")) {
				m.t.Errorf("read %s of %s: %s", name, one.id, content)
			}
			content = nil
		}
		got := string(content)
		if got != one.files[name] && !slices.Contains(one.perhaps[name], got) {
			m.t.Errorf("%s of %s is %q; %q was acknowledged, perhaps it is one of %q", name, one.id, got, one.files[name], one.perhaps[name])
		}
		one.files[name] = got
		delete(one.perhaps, name)
	}
}

func (m *landlord) end(one *tenant, method, path string) { m.ask(method, one.id+"/"+path, "") }

func (m *landlord) snapshot(one *tenant) { m.ask(http.MethodPost, one.id+"/snapshot/", "{}") }

func (m *landlord) breakSomething(*tenant) {
	if len(m.mending) > 0 {
		return // one at a time, so that a fault says what it was
	}
	n := m.r.IntN(len(m.faults.faults))
	m.note("  fault %d", n)
	m.losing = m.faults.faults[n].losesWrites
	m.mending = append(m.mending, m.faults.faults[n].begin())
}

func (m *landlord) mend() {
	for _, mend := range m.mending {
		mend()
	}
	m.mending, m.losing = nil, false
}

// begin starts the daemon. On a disk that is full it may need the disk mended.
func (m *landlord) begin() {
	if len(m.mending) > 0 {
		if err := m.TryStart(); err == nil {
			return
		}
		m.note("  the daemon does not start in a fault")
		m.mend()
	}
	m.Start()
}

// killAtWork kills the daemon somewhere in a request.
func (m *landlord) killAtWork(one *tenant) {
	name, text := "f0", fmt.Sprintf("%d-%d", m.seed, m.done)
	way := m.r.IntN(4)
	after := time.Duration(m.r.IntN(150)) * time.Millisecond
	m.note("  way %d, after %s", way, after)
	if way == 0 {
		one.perhaps[name] = append(one.perhaps[name], text)
	}
	asked := make(chan struct{})
	path := []string{one.id + "/upload/", one.id + "/stop/", one.id + "/snapshot/", ""}[way]
	body := []string{fmt.Sprintf(`{"path":%q,"content":%q}`, name, text), "", "{}", fmt.Sprintf(`{"id":%q}`, one.id)}[way]
	request := m.request(http.MethodPost, path, body)
	go func() {
		defer close(asked)
		if response, err := tenantClient.Do(request); err == nil {
			response.Body.Close()
		}
	}()
	time.Sleep(after)
	m.Kill()
	<-asked
	m.begin()
}

// expire lets a session's time be up.
func (m *landlord) expire(one *tenant) {
	db := m.db()
	defer db.Close()
	if _, err := db.ExecContext(m.t.Context(), "UPDATE orchestrator_sessions SET expires_at = 1 WHERE id = ?", one.id); err != nil {
		m.note("  %v", err) // the disk is full
	}
}

func (m *landlord) checkAll() {
	m.t.Helper()
	for _, one := range m.tenants {
		m.read(one, true)
	}
}

// A database that is lost, or older than the disks, does not have sessions of the
// orchestrator begin with less than is there: a sandbox that was not saved goes on, and an
// archive that cannot be read keeps nothing else back. What was saved after a backup is what
// its session begins with, and what its row names.
func TestF12_OrchestratedRecovery(t *testing.T) {
	t.Parallel()
	const one, other, saved = "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0b01", "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0b02", "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0b03"
	for name, lose := range map[string]func(h *host, backup string){
		"lost": func(h *host, _ string) {
			files, err := filepath.Glob(filepath.Join(h.Data, "sandkasten.db*"))
			for _, file := range files {
				err = errors.Join(err, os.Remove(file))
			}
			if err != nil || len(files) == 0 {
				h.t.Fatal(files, err)
			}
		},
		"of before": func(h *host, backup string) {
			if out := h.Output("restore", backup); !strings.Contains(out, "recovered session of the orchestrator "+one) {
				h.t.Errorf("restore: %s", out)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, "orchestrator: {enabled: true, reaper_interval_seconds: 1}\n")
			f := &tenantFaults{host: h}
			m := &landlord{host: h, t: t, answers: map[string]int{}, faults: f}
			for _, id := range []string{one, other, saved} {
				m.must(http.StatusCreated, http.MethodPost, "", fmt.Sprintf(`{"id":%q}`, id))
				m.must(http.StatusOK, http.MethodPost, id+"/upload/", `{"path":"f","content":"old"}`)
				m.must(http.StatusNoContent, http.MethodPost, id+"/stop/", "")
			}
			backup := filepath.Join(t.TempDir(), "backup.tar")
			h.Output("backup", backup)
			m.must(http.StatusOK, http.MethodPost, saved+"/upload/", `{"path":"f","content":"new"}`)
			m.must(http.StatusNoContent, http.MethodPost, saved+"/stop/", "")
			latest := m.latestSnapshot(saved)
			m.must(http.StatusOK, http.MethodPost, one+"/upload/", `{"path":"f","content":"new"}`)
			mend := f.readOnlyArchives()
			m.must(http.StatusNoContent, http.MethodPost, one+"/stop/", "")
			h.Kill()
			mend()
			lose(h, backup)
			archives, err := filepath.Glob(filepath.Join(h.Data, "snapshots", "*"+other+"*"))
			if err != nil || len(archives) != 1 {
				t.Fatalf("the archives are %q, %v", archives, err)
			}
			if name == "lost" {
				if err := os.Truncate(archives[0], 100); err != nil {
					t.Fatal(err)
				}
				out, err := h.Command("recover").CombinedOutput()
				if err == nil || !strings.Contains(string(out), "not recovered: the archive") || !strings.Contains(string(out), "recovered session of the orchestrator "+one) {
					t.Errorf("recover: %v\n%s", err, out)
				}
			}
			h.Start()
			if got := m.latestSnapshot(saved); got != latest {
				t.Errorf("the row of what was saved later names the snapshot %s, want %s", got, latest)
			}
			m.must(http.StatusCreated, http.MethodPost, "", fmt.Sprintf(`{"id":%q,"restore_snapshot_id":%q}`, saved, m.latestSnapshot(saved))) // as the toolkit does
			if got := m.must(http.StatusOK, http.MethodGet, saved+"/files/content/?path=f", ""); got != "new" {
				t.Errorf("what was saved later began with %q", got)
			}
			m.must(http.StatusNoContent, http.MethodDelete, saved+"/?force=true", "")
			if got := m.must(http.StatusOK, http.MethodGet, one+"/files/content/?path=f", ""); got != "new" {
				t.Errorf("the session began with %q", got)
			}
			m.must(http.StatusNoContent, http.MethodPost, one+"/stop/", "")
			if got := m.must(http.StatusOK, http.MethodGet, one+"/files/content/?path=f", ""); got != "new" {
				t.Errorf("after another end it has %q", got)
			}
			m.must(http.StatusNoContent, http.MethodDelete, one+"/?force=true", "")
			if name != "lost" {
				m.must(http.StatusNoContent, http.MethodDelete, other+"/?force=true", "")
			}
		})
	}
}

// latestSnapshot is the one that the row of a session names.
func (m *landlord) latestSnapshot(id string) string {
	m.t.Helper()
	var x struct {
		Metadata struct {
			Latest string `json:"latest_snapshot_id"`
		}
	}
	if err := json.Unmarshal([]byte(m.must(http.StatusOK, http.MethodGet, id+"/", "")), &x); err != nil || x.Metadata.Latest == "" {
		m.t.Fatalf("the session %s has no snapshot: %+v, %v", id, x, err)
	}
	return x.Metadata.Latest
}

// A host that has no room for another session has room to end one: that is what frees it.
func TestF10_ReserveLetsSessionsEnd(t *testing.T) {
	t.Parallel()
	const one = "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0c01"
	h := start(t, "orchestrator: {enabled: true, reaper_interval_seconds: 1}\n")
	m := &landlord{host: h, t: t, answers: map[string]int{}}
	m.must(http.StatusCreated, http.MethodPost, "", fmt.Sprintf(`{"id":%q}`, one))
	m.must(http.StatusOK, http.MethodPost, one+"/upload/", `{"path":"f","content":"kept"}`)
	h.SetEnv("SANDKASTEN_ADMISSION__DISK_RESERVE_MB=1000000000")
	h.Restart()
	m.must(http.StatusNoContent, http.MethodPost, one+"/stop/", "")
	if row := m.must(http.StatusOK, http.MethodGet, one+"/", ""); strings.Contains(row, "unsaved") || !strings.Contains(row, "latest_snapshot") {
		t.Errorf("the session is %s", row)
	}
	m.must(http.StatusServiceUnavailable, http.MethodPost, "", fmt.Sprintf(`{"id":%q}`, one))
	h.SetEnv("SANDKASTEN_ADMISSION__DISK_RESERVE_MB=0")
	h.Restart()
	if got := m.must(http.StatusOK, http.MethodGet, one+"/files/content/?path=f", ""); got != "kept" {
		t.Errorf("it has %q", got)
	}
	m.must(http.StatusNoContent, http.MethodDelete, one+"/?force=true", "")
}
