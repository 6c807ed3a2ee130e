package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// What the monkey does.

func (m *monkey) create() {
	n, use := m.r.IntN(100), m.r.IntN(1<<20)
	if len(m.subjects) >= crowd {
		return
	}
	m.add(m.planCreate(n, use))
}

// plan is a create and what is to be in the session.
type plan struct {
	options sandkasten.CreateOptions
	volume  *volume
	shared  bool
}

func (m *monkey) planCreate(n, use int) plan {
	p := plan{options: sandkasten.CreateOptions{IdempotencyKey: m.key()}, volume: &volume{files: map[string]string{}}}
	switch {
	case n < 25:
		if len(m.workspaces) < 5 {
			m.workspaces = append(m.workspaces, &volume{id: fmt.Sprint("w", len(m.workspaces)), files: map[string]string{}})
		}
		p.volume, p.shared = m.workspaces[use%len(m.workspaces)], true
		p.options.WorkspaceID = p.volume.id
	case n < 45 && len(m.snapshots) > 0:
		from := m.snapshots[use%len(m.snapshots)]
		p.options.RestoreSnapshotID, p.volume.files = from.id, maps.Clone(from.files)
	}
	return p
}

// add makes a session, with as many requests as it takes.
func (m *monkey) add(p plan) {
	var s *sandkasten.Session
	m.must("create", func() (err error) {
		s, err = m.h.c.CreateSession(m.t.Context(), &p.options)
		return err
	})
	m.note("  session %s with %+v", s.ID, p.options)
	m.subjects = append(m.subjects, &subject{Session: s, volume: p.volume, shared: p.shared, state: "running"})
}

// fact is a file that is about to be written.
func (m *monkey) fact() (name, text string) {
	return fmt.Sprint("f", m.r.IntN(6)), fmt.Sprintf("%d-%s", m.done, strings.Repeat("x", m.r.IntN(3000)))
}

// wrote notes what came of a write.
func (m *monkey) wrote(s *subject, name, text string, err error) {
	if err != nil {
		m.note("  not acknowledged: %v", err)
		m.judge("write", err)
		delete(s.volume.files, name) // it may be there or not
		return
	}
	s.volume.files[name] = text
}

func (m *monkey) writeByCommand() {
	name, text := m.fact()
	s := m.any("running", "paused")
	if s == nil {
		return
	}
	s.state = "running" // a command wakes it
	m.wrote(s, name, text, m.command(m.t.Context(), s, "printf %s "+text+" > /workspace/"+name))
}

// command is an error unless it was done.
func (m *monkey) command(ctx context.Context, s *subject, cmd string) error {
	r, err := s.Exec(ctx, cmd, &sandkasten.ExecOptions{Timeout: 10 * time.Second})
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("exit code %d (%s): %s", r.ExitCode, r.Cause, r.Output)
	}
	return err
}

func (m *monkey) writeByAPI() {
	name, text := m.fact()
	if s := m.any("running", "paused"); s != nil {
		s.state = "running" // as does an operation on its files
		m.wrote(s, name, text, s.Write(m.t.Context(), "/workspace/"+name, strings.NewReader(text), nil))
	}
}

func (m *monkey) read() {
	if s := m.any("running", "paused"); s != nil {
		m.check(s)
	}
}

// check compares a session with what it must have. One that is paused wakes.
func (m *monkey) check(s *subject) {
	m.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.volume.files)) {
		s.state = "running"
		var got []byte
		m.must("read "+name+" of "+s.ID, func() (err error) {
			got, err = s.ReadAll(m.t.Context(), "/workspace/"+name, nil)
			return err
		})
		if want := s.volume.files[name]; string(got) != want {
			m.t.Fatalf("%s of session %s is %.80q, want %.80q", name, s.ID, got, want)
		}
	}
}

// checkAll compares everything with what must be.
func (m *monkey) checkAll() {
	m.t.Helper()
	m.note("check everything")
	m.h.inOrder()
	var all []*sandkasten.Session
	m.must("list", func() (err error) { all, err = m.h.c.ListSessions(m.t.Context(), nil); return err })
	status := map[string]string{}
	for _, s := range all {
		status[s.ID] = s.Info.Status
	}
	for _, s := range m.subjects {
		if got := status[s.ID]; got != s.state {
			m.t.Errorf("session %s is %q, want %s", s.ID, got, s.state)
		}
		delete(status, s.ID)
		if s.state != "stopped" && !m.t.Failed() {
			m.check(s)
		}
	}
	if len(status) > 0 {
		m.t.Errorf("there are sessions that nobody made, or that were destroyed: %v", status)
	}
	var kept []sandkasten.Snapshot
	m.must("list snapshots", func() (err error) { kept, err = m.h.c.ListSnapshots(m.t.Context(), nil); return err })
	if len(kept) != len(m.snapshots) {
		m.t.Errorf("there are %d snapshots, want %d", len(kept), len(m.snapshots))
	}
}

func (m *monkey) late() {
	s := m.any("running")
	if s == nil {
		return
	}
	r, err := s.Exec(m.t.Context(), "sleep 100", &sandkasten.ExecOptions{Timeout: 200 * time.Millisecond})
	m.judge("a late command", err)
	if err == nil && !r.TimedOut && r.Cause != "shell_exited" && r.Cause != "oom_killed" {
		m.t.Errorf("a command of 100 s was not late: %+v", r)
	}
}

// leave begins a call and goes away.
func (m *monkey) leave() {
	wait, what := time.Duration(m.r.IntN(60))*time.Millisecond, m.r.IntN(4)
	s := m.any("running")
	if s == nil {
		return
	}
	ctx, cancel := contextFor(m.t, wait)
	defer cancel()
	var err error
	switch what {
	case 0:
		_, err = s.Exec(ctx, "sleep 0.5", &sandkasten.ExecOptions{Shell: "left"})
	case 1:
		err = s.Write(ctx, "/workspace/left", &slow{left: 4 << 20}, &sandkasten.WriteOptions{Size: 4 << 20})
	case 2:
		_, err = s.ExecStream("seq 10000", &sandkasten.ExecOptions{Shell: "left"}).Copy(ctx, new(strings.Builder), new(strings.Builder))
	case 3:
		if terminal, openErr := s.OpenTerminal(ctx, nil); openErr == nil {
			terminal.Close()
		}
	}
	m.judge("a call that was left", err)
}

// hostilities end by themselves, or with their time.
var hostilities = []string{
	"bomb() { bomb | bomb & }; bomb",
	"python3 -c 'a = bytearray(1 << 30)'",
	"yes | head -c 5000000",
	"kill -9 -1",
	"kill -9 $$",
	"exec true",
	"head -c 100000000 /dev/zero > /tmp/full; rm -f /tmp/full",
	"for i in $(seq 30); do sleep 2 & done",
	"ulimit -n 10; exec 3<&- 4<&-; exit 7",
	"trap '' TERM INT HUP; while :; do :; done",
	"python3 -c 'import os\nfor i in range(200): os.open(\"/tmp\", 0)\nos.abort()'",
}

func (m *monkey) hostile() {
	cmd := hostilities[m.r.IntN(len(hostilities))]
	s := m.any("running")
	if s == nil {
		return
	}
	m.note("  %s", cmd)
	_, err := s.Exec(m.t.Context(), cmd, &sandkasten.ExecOptions{Timeout: time.Second, Shell: "hostile"})
	m.judge("a hostile command", err)
	// Whoever watches over it ends what goes on.
	m.h.killWorkload(s.Session)
}

func (m *monkey) snapshot() {
	s := m.any("running", "paused", "stopped")
	if s == nil || len(m.snapshots) >= 10 {
		return
	}
	options := &sandkasten.SnapshotOptions{IdempotencyKey: m.key()}
	var made sandkasten.Snapshot
	m.must("snapshot", func() (err error) {
		made, err = s.Snapshot(m.t.Context(), options)
		return err
	})
	m.snapshots = append(m.snapshots, saved{made.ID, maps.Clone(s.volume.files)})
}

func (m *monkey) fork() {
	count := 1 + m.r.IntN(2)
	s := m.any("running", "stopped")
	if s == nil || s.shared || len(m.subjects)+count > crowd {
		return
	}
	options := &sandkasten.ForkOptions{IdempotencyKey: m.key()}
	var made sandkasten.Forked
	m.must("fork", func() (err error) {
		made, err = s.Fork(m.t.Context(), count, options)
		return err
	})
	for _, f := range made.Sessions {
		m.note("  fork %s", f.ID)
		m.subjects = append(m.subjects, &subject{Session: f, volume: &volume{files: maps.Clone(s.volume.files)}, state: "running"})
	}
}

// turn brings a session to another state.
func (m *monkey) turn(to string) {
	from := []string{"running"}
	if to == "running" {
		from = []string{"paused", "stopped"}
	}
	s := m.any(from...)
	if s == nil {
		return
	}
	m.must(to, func() error {
		var err error
		switch {
		case to == "paused":
			_, err = s.Pause(m.t.Context(), nil)
		case to == "stopped":
			_, err = s.Stop(m.t.Context())
		case s.state == "paused":
			_, err = s.Resume(m.t.Context())
		default:
			_, err = s.Start(m.t.Context())
		}
		return err
	})
	s.state = to
	if to == "running" {
		m.check(s)
	}
}

func (m *monkey) destroy() {
	s := m.any("running", "paused", "stopped")
	if s == nil {
		return
	}
	m.must("destroy", func() error { return s.Destroy(m.t.Context()) })
	m.forget(s)
	info, err := s.Refresh(m.t.Context())
	if err == nil && info.Status != "destroyed" {
		m.t.Errorf("after its destroy session %s is %s", s.ID, info.Status)
	}
}

func (m *monkey) forget(s *subject) {
	m.subjects = slices.DeleteFunc(m.subjects, func(other *subject) bool { return other == s })
}

func (m *monkey) killRunner() {
	s := m.any("running", "paused")
	if s == nil {
		return
	}
	m.h.kill(m.h.runner(s.Session), syscall.SIGKILL)
	m.h.wantStatus(s.Session, "stopped", settle)
	s.state = "stopped"
}

func (m *monkey) stopRunner() {
	wait := time.Duration(m.r.IntN(500)) * time.Millisecond
	s := m.any("running")
	if s == nil {
		return
	}
	pid := m.h.runner(s.Session)
	m.h.kill(pid, syscall.SIGSTOP)
	ctx, cancel := contextFor(m.t, wait)
	_, err := s.Exec(ctx, "true", nil)
	cancel()
	m.judge("a command for a runner that stands still", err)
	m.h.kill(pid, syscall.SIGCONT)
}

func (m *monkey) killDaemon() {
	m.h.Kill()
	m.h.Start()
}

func (m *monkey) restart() { m.h.Restart() }

// killAtWork kills the daemon while it does some things, and has them done
// again.
func (m *monkey) killAtWork() {
	wait := time.Duration(m.r.IntN(80)) * time.Millisecond
	n, use := m.r.IntN(100), m.r.IntN(1<<20)
	name, text := m.fact()
	writer, goes := m.any("running"), m.any("running", "stopped")
	var work sync.WaitGroup
	ctx := m.t.Context()
	p := m.planCreate(n, use)
	room := len(m.subjects) < crowd
	if room {
		work.Go(func() { m.h.c.CreateSession(ctx, &p.options) })
	}
	var wrote error
	if writer != nil {
		work.Go(func() { wrote = writer.Write(ctx, "/workspace/"+name, strings.NewReader(text), nil) })
	}
	if goes != nil && goes != writer {
		work.Go(func() { goes.Destroy(ctx) })
	}
	time.Sleep(wait)
	m.h.Kill()
	work.Wait()
	m.h.Start()
	if writer != nil {
		if _, lost := errors.AsType[*sandkasten.ConnectionError](wrote); lost {
			wrote = errors.New("the daemon was killed")
		}
		m.wrote(writer, name, text, wrote)
	}
	if goes != nil && goes != writer {
		m.must("destroy again", func() error { return goes.Destroy(ctx) })
		m.forget(goes)
	}
	if room {
		m.add(p)
	}
}
