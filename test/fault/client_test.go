package fault

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// metric is a value of the daemon's /metrics.
func (h *host) metric(name string) (float64, error) {
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.URL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+h.Key)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("/metrics has no %s (%s)", name, resp.Status)
}

// Clients that go away in the middle of any call leave no goroutine and no
// descriptor in the daemon, and no session that nobody asked for.
func TestF25_Disconnects(t *testing.T) {
	t.Parallel()
	const times = 25
	h := start(t, "terminal: {detach_seconds: 0}\nadmission: {memory_reserve_mb: 0}")
	s := h.create(nil)
	h.sh(s, "head -c 8000000 /dev/urandom > big; sleep 0.1")
	calls := map[string]func(context.Context){
		"create": func(ctx context.Context) { h.c.CreateSession(ctx, nil) },
		"exec":   func(ctx context.Context) { s.Exec(ctx, "sleep 0.3", nil) },
		"process": func(ctx context.Context) {
			s.RunProcess(ctx, []string{"sleep", "0.3"}, nil)
		},
		"stream": func(ctx context.Context) {
			for range s.ExecStream("seq 100000; sleep 0.3", nil).Chunks(ctx) {
			}
		},
		"upload": func(ctx context.Context) {
			s.Write(ctx, "/workspace/up", &slow{left: 20 << 20}, &sandkasten.WriteOptions{Size: 20 << 20})
		},
		"download": func(ctx context.Context) {
			if r, err := s.Read(ctx, "/workspace/big", nil); err == nil {
				r.Read(make([]byte, 100))
				r.Close()
			}
		},
		"archive": func(ctx context.Context) {
			if r, err := s.DownloadArchive(ctx, "/workspace", ""); err == nil {
				r.Read(make([]byte, 100))
				r.Close()
			}
		},
		"snapshot": func(ctx context.Context) { s.Snapshot(ctx, nil) },
		"terminal": func(ctx context.Context) {
			if term, err := s.OpenTerminal(ctx, nil); err == nil {
				<-ctx.Done()
				term.Close()
			}
		},
	}
	// Once each to have what is made for the first use.
	for _, call := range calls {
		ctx, cancel := contextFor(t, 200*time.Millisecond)
		call(ctx)
		cancel()
	}
	h.quiet(s)
	h.steadyFiles()
	goroutines, files := h.footprint()
	for name, call := range calls {
		var all sync.WaitGroup
		for i := range times {
			all.Go(func() {
				ctx, cancel := contextFor(t, time.Duration(1+i*8)*time.Millisecond)
				defer cancel()
				call(ctx)
			})
		}
		all.Wait()
		h.quiet(s)
		err := patiently(settle, func() error {
			g, f := h.footprint()
			if g > goroutines+8 || f > files+8 {
				return fmt.Errorf("%s: %v goroutines and %v descriptors, before %v and %v", name, g, f, goroutines, files)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	h.sh(s, "true")
	h.oracle()
	h.wantNothing()
}

// quiet ends what clients that went away have begun.
func (h *host) quiet(keep *sandkasten.Session) {
	h.t.Helper()
	h.eventually(settle, func() error {
		all, err := h.c.ListSessions(h.t.Context(), nil)
		for _, s := range all {
			if s.ID != keep.ID {
				err = errors.Join(err, s.Destroy(h.t.Context()))
			}
		}
		snapshots, listErr := h.c.ListSnapshots(h.t.Context(), nil)
		for _, s := range snapshots {
			err = errors.Join(err, h.c.DeleteSnapshot(h.t.Context(), s.ID))
		}
		if err = errors.Join(err, listErr); err == nil && len(all) > 1 {
			err = fmt.Errorf("%d sessions", len(all))
		}
		return err
	})
	h.c.Close()
}

func (h *host) footprint() (goroutines, files float64) {
	h.t.Helper()
	goroutines, err := h.metric("go_goroutines")
	if err != nil {
		h.t.Fatal(err)
	}
	if files, err = h.metric("process_open_fds"); err != nil {
		h.t.Fatal(err)
	}
	return goroutines, files
}

// Of a thousand creates at once as many succeed as the maximum says, and the
// others are refused; nothing is left of them when all is destroyed.
func TestF26_Storm(t *testing.T) {
	const creates, most = 1000, 100
	h := start(t, fmt.Sprintf("max_sessions: %d\nadmission: {memory_reserve_mb: 0}", most))
	var made, refused atomic.Int64
	var all sync.WaitGroup
	for range creates {
		all.Go(func() {
			_, err := h.c.CreateSession(t.Context(), nil)
			switch {
			case err == nil:
				made.Add(1)
			case code(err) == "resource_exhausted":
				refused.Add(1)
			default:
				t.Errorf("create: %v (%s)", err, code(err))
			}
		})
	}
	all.Wait()
	if made.Load() != most || refused.Load() != creates-most {
		t.Errorf("%d were made and %d refused, want %d and %d", made.Load(), refused.Load(), most, creates-most)
	}
	if p := h.inOrder(); len(p.sessions()) != most {
		t.Errorf("there are %d sandboxes", len(p.sessions()))
	}
	list, err := h.c.ListSessions(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		for range 10 {
			all.Go(func() {
				if err := s.Destroy(t.Context()); err != nil {
					t.Errorf("destroy: %v", err)
				}
			})
		}
	}
	all.Wait()
	h.oracle()
	h.wantNothing()
}

// Creates with one key and destroys of what they give, all at once, leave one
// session or none.
func TestF26_CreateAndDestroyOfOneKey(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	for i := range 10 {
		request := &sandkasten.CreateOptions{IdempotencyKey: fmt.Sprint("key-", i)}
		var ids sync.Map
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				s, err := h.c.CreateSession(t.Context(), request)
				if err != nil {
					if code(err) != "conflict" {
						t.Errorf("create: %v", err)
					}
					return
				}
				ids.Store(s.ID, true)
				if err := s.Destroy(t.Context()); err != nil {
					t.Errorf("destroy: %v", err)
				}
			})
		}
		all.Wait()
		n := 0
		ids.Range(func(any, any) bool { n++; return true })
		if n > 1 {
			t.Errorf("one key gave %d sessions", n)
		}
	}
	h.oracle()
	h.wantNothing()
}

// A daemon that dies while it restores a snapshot leaves no session; a damaged
// archive, or one that is larger than the session, gives none either.
func TestF29_Restore(t *testing.T) {
	t.Parallel()
	h := start(t, "", at("create.restored"))
	s := h.create(&sandkasten.CreateOptions{DiskMB: 128})
	h.sh(s, "echo kept > f; head -c 40000000 /dev/urandom > big")
	saved, err := s.Snapshot(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	request := &sandkasten.CreateOptions{RestoreSnapshotID: saved.ID, IdempotencyKey: "again"}
	_, err = h.c.CreateSession(t.Context(), request)
	h.wantKilled(err)
	h.oracle()
	if got := h.sh(h.create(request), "cat f"); got != "kept" {
		t.Errorf("restored is %q", got)
	}
	small := &sandkasten.CreateOptions{RestoreSnapshotID: saved.ID, DiskMB: 16}
	if _, err := h.c.CreateSession(t.Context(), small); err == nil || code(err) == "internal" {
		t.Errorf("restore to a disk that is too small: %v (%s)", err, code(err))
	}
	h.inOrder()
	for name, damage := range map[string]func([]byte) []byte{
		"changed": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"cut off": func(b []byte) []byte { return b[:len(b)/2] },
		"gone":    nil,
	} {
		files, err := filepath.Glob(filepath.Join(h.Data, "snapshots", "[^.]*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		good, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if damage == nil {
			err = os.Remove(files[0])
		} else {
			err = os.WriteFile(files[0], damage(append([]byte(nil), good...)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if made, err := h.c.CreateSession(t.Context(), &sandkasten.CreateOptions{RestoreSnapshotID: saved.ID}); err == nil {
			t.Errorf("from an archive that is %s session %s was made", name, made.ID)
		}
		h.inOrder()
		if err := os.WriteFile(files[0], good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.sh(s, "true")
	h.oracle()
	h.wantNothing()
}

// A session's time ends in the moment of other calls: one of them wins, and who
// was told that it lives on finds it alive.
func TestF30_ExpiryRaces(t *testing.T) {
	t.Parallel()
	const sessions = 60
	h := start(t, "admission: {memory_reserve_mb: 0}")
	var all sync.WaitGroup
	for i := range sessions {
		all.Go(func() {
			s, err := h.c.CreateSession(t.Context(), &sandkasten.CreateOptions{TTL: 2 * time.Second})
			if err != nil {
				t.Errorf("create: %v", err)
				return
			}
			ends := time.Until(s.Info.ExpiresAt)
			time.Sleep(ends + time.Duration(rand.IntN(1500)-500)*time.Millisecond)
			switch i % 3 {
			case 0:
				info, err := s.Update(t.Context(), &sandkasten.UpdateOptions{TTL: time.Hour})
				if err == nil && info.Status == "running" {
					time.Sleep(2 * time.Second)
					if _, err := s.Exec(t.Context(), "true", nil); err != nil {
						t.Errorf("a session whose extension was acknowledged: %v", err)
					}
				} else if err != nil && code(err) != "conflict" {
					t.Errorf("extend: %v", err)
				}
			case 1:
				if r, err := s.Exec(t.Context(), "echo said", nil); err == nil && strings.TrimSpace(r.Output) != "said" {
					t.Errorf("a command of a session that expires: %+v", r)
				} else if err != nil && code(err) != "conflict" {
					t.Errorf("exec: %v", err)
				}
			case 2:
				if err := s.Destroy(t.Context()); err != nil {
					t.Errorf("destroy: %v", err)
				}
				if info, err := s.Refresh(t.Context()); err != nil || info.Status != "destroyed" && info.Status != "expired" {
					t.Errorf("after a destroy it is %s: %v", info.Status, err)
				}
			}
		})
	}
	all.Wait()
	h.eventually(settle, func() error { // or some end while the oracle looks
		left, err := h.c.ListSessions(t.Context(), nil)
		for _, s := range left {
			if s.Info.Status == "running" && time.Until(s.Info.ExpiresAt) < time.Minute {
				return fmt.Errorf("session %s has not expired yet", s.ID)
			}
		}
		return err
	})
	h.oracle()
	h.wantNothing()
}

const pooled = "pool: {enabled: true, images: {base: 4}, cpu: 1, memory_reserve_mb: 0}\nadmission: {memory_reserve_mb: 0}\n"

// ready waits until a pool has so many sandboxes, and returns their names.
func (h *host) ready(n int) []string {
	h.t.Helper()
	var names []string
	h.eventually(settle, func() error {
		status, err := h.c.PoolStatus(h.t.Context())
		if err != nil {
			return err
		}
		found, err := filepath.Glob(filepath.Join(h.Data, "sandboxes", warm+"*"))
		names = nil
		for _, dir := range found {
			if name := filepath.Base(dir); h.box(name).Process.PID != 0 { // it is no longer being made
				names = append(names, name)
			}
		}
		if err == nil && len(names) < n {
			err = fmt.Errorf("%d are ready, want %d: %+v", len(names), n, status)
		}
		return err
	})
	return names
}

// No two sessions get the same ready sandbox, and none a dead one.
func TestF31_PoolIsHandedOutOnce(t *testing.T) {
	t.Parallel()
	h := start(t, pooled)
	for range 5 {
		for _, name := range h.ready(4)[:2] {
			h.kill(h.box(name).Process.PID, 9)
		}
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				s, err := h.c.CreateSession(t.Context(), nil)
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				mark := fmt.Sprint("session ", i)
				r, err := s.Exec(t.Context(), "ls -A; echo "+mark+" > mine; sleep 0.2; cat mine", nil)
				if err != nil || strings.TrimSpace(r.Output) != mark {
					t.Errorf("session %d has %q: %v", i, r.Output, err)
				}
			})
		}
		all.Wait()
		h.inOrder()
		h.destroyAll()
	}
	h.oracle()
	h.SetEnv("SANDKASTEN_POOL__ENABLED=false")
	h.Restart()
	h.wantNothing()
}

// A daemon that dies at any step of a claim leaves a ready sandbox or a session
// that failed; the same request then succeeds.
func TestF31_CrashInClaim(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"attached", "renamed", "state", "limits", "workspace", "settled"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			h := start(t, pooled, at("linux.claim."+step))
			h.ready(4)
			request := &sandkasten.CreateOptions{IdempotencyKey: "again", WorkspaceID: "w", MemoryMB: 64}
			_, err := h.c.CreateSession(t.Context(), request)
			h.wantKilled(err)
			if got := h.sh(h.create(request), "ls -A; echo usable"); got != "usable" {
				t.Errorf("the session prints %q", got)
			}
			h.oracle()
			h.SetEnv("SANDKASTEN_POOL__ENABLED=false")
			h.Restart()
			h.wantNothing()
		})
	}
}
