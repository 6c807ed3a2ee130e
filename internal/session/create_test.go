package session_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/check"
)

// creator is a Creator made of a function.
type creator func(context.Context, runtime.ID, runtime.Spec) (runtime.Sandbox, error)

func (c creator) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	return c(ctx, id, spec)
}

func withCreator(c creator) func(*session.Options) {
	return func(o *session.Options) { o.Creator = c }
}

// faultyStore fails those Puts that refuse says.
type faultyStore struct {
	session.Store
	refuse func(session.Session) error
}

func (f faultyStore) Put(ctx context.Context, s session.Session) error {
	if err := f.refuse(s); err != nil {
		return err
	}
	return f.Store.Put(ctx, s)
}

func withPut(refuse func(session.Session) error) func(*session.Options) {
	return func(o *session.Options) { o.Store = faultyStore{o.Store, refuse} }
}

var errBroken = errors.New("broken for the test")

func TestCreate(t *testing.T) {
	h := newHost(t)
	d := h.start(t, func(o *session.Options) {
		o.Defaults.TTL = 5 * time.Minute
		o.Maxima.Lifetime = time.Hour
	})
	readonly := true
	before := time.Now()
	s := d.createAs(t, as("alice"), session.CreateRequest{
		Image: "python", Limits: runtime.Limits{CPU: 2}, ReadonlyRoot: &readonly,
		Labels: map[string]string{"a": "b"}, Hostname: "box",
	})
	if s.State != session.Running || s.Image != "python" || s.ImageDigest != runtimetest.LocalImage || s.Cwd != "/workspace" ||
		!s.ReadonlyRoot || s.Hostname != "box" || s.Owner != "alice" || !maps.Equal(s.Labels, map[string]string{"a": "b"}) {
		t.Errorf("%+v", s)
	}
	if want := (runtime.Limits{CPU: 2, MemoryMB: 512, Pids: 256, DiskMB: 2048}); s.Limits != want {
		t.Errorf("limits %+v, want %+v", s.Limits, want)
	}
	if s.CreatedAt.Before(before) || s.ExpiresAt().Sub(s.LastActivity) != 5*time.Minute || s.MaxLifetime != time.Hour {
		t.Errorf("created %v, expires %v", s.CreatedAt, s.ExpiresAt())
	}
	h.driver.WantSandboxes(t, s.Sandbox)
	row, err := d.store.Get(t.Context(), s.ID)
	if err != nil || row.State != session.Running || row.Sandbox != s.Sandbox {
		t.Errorf("row %+v, %v", row, err)
	}
	all, err := d.Sessions.List(t.Context(), everyone, session.ListRequest{})
	if err != nil || len(all) != 1 || all[0].ID != s.ID {
		t.Errorf("list %+v, %v", all, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	d := newHost(t).start(t, func(o *session.Options) {
		o.Maxima.TTL = time.Hour
		o.Maxima.Limits.CPU = 4
	})
	many := make(map[string]string)
	for i := range check.MaxEnv + 1 {
		many[fmt.Sprint("K", i)] = "v"
	}
	for _, c := range []struct {
		name  string
		req   session.CreateRequest
		code  errdefs.Code
		field string
	}{
		{"image with a newline", session.CreateRequest{Image: "a\nb"}, errdefs.InvalidArgument, "image"},
		{"long image", session.CreateRequest{Image: strings.Repeat("a", check.MaxImage+1)}, errdefs.InvalidArgument, "image"},
		{"ttl too long", session.CreateRequest{TTL: 2 * time.Hour}, errdefs.InvalidArgument, "ttl_seconds"},
		{"ttl too short", session.CreateRequest{TTL: time.Millisecond}, errdefs.InvalidArgument, "ttl_seconds"},
		{"ttl negative", session.CreateRequest{TTL: -time.Second}, errdefs.InvalidArgument, "ttl_seconds"},
		{"workspace", session.CreateRequest{WorkspaceID: "w"}, errdefs.Unimplemented, "workspace_id"},
		{"workspace is a path", session.CreateRequest{WorkspaceID: "../w"}, errdefs.InvalidArgument, "workspace_id"},
		{"workspace is the parent", session.CreateRequest{WorkspaceID: ".."}, errdefs.InvalidArgument, "workspace_id"},
		{"workspace is long", session.CreateRequest{WorkspaceID: strings.Repeat("w", 65)}, errdefs.InvalidArgument, "workspace_id"},
		{"cpu over the maximum", session.CreateRequest{Limits: runtime.Limits{CPU: 5}}, errdefs.InvalidArgument, "limits.cpu"},
		{"cpu negative", session.CreateRequest{Limits: runtime.Limits{CPU: -1}}, errdefs.InvalidArgument, "limits.cpu"},
		{"cpu not a number", session.CreateRequest{Limits: runtime.Limits{CPU: math.NaN()}}, errdefs.InvalidArgument, "limits.cpu"},
		{"little memory", session.CreateRequest{Limits: runtime.Limits{MemoryMB: 1}}, errdefs.InvalidArgument, "limits.memory_mb"},
		{"much memory", session.CreateRequest{Limits: runtime.Limits{MemoryMB: math.MaxInt64}}, errdefs.InvalidArgument, "limits.memory_mb"},
		{"few pids", session.CreateRequest{Limits: runtime.Limits{Pids: 1}}, errdefs.InvalidArgument, "limits.pids"},
		{"negative disk", session.CreateRequest{Limits: runtime.Limits{DiskMB: -5}}, errdefs.InvalidArgument, "limits.disk_mb"},
		{"network", session.CreateRequest{NetworkMode: "full"}, errdefs.Unimplemented, "network.mode"},
		{"network mode", session.CreateRequest{NetworkMode: "bridge"}, errdefs.InvalidArgument, "network_mode"},
		{"env name", session.CreateRequest{Env: map[string]string{"A=B": "x"}}, errdefs.InvalidArgument, "env"},
		{"env name with a digit", session.CreateRequest{Env: map[string]string{"1A": "x"}}, errdefs.InvalidArgument, "env"},
		{"env value with NUL", session.CreateRequest{Env: map[string]string{"A": "x\x00"}}, errdefs.InvalidArgument, "env"},
		{"env too large", session.CreateRequest{Env: map[string]string{"A": strings.Repeat("x", 70<<10)}}, errdefs.InvalidArgument, "env"},
		{"env too many", session.CreateRequest{Env: many}, errdefs.InvalidArgument, "env"},
		{"hostname", session.CreateRequest{Hostname: "a.b"}, errdefs.InvalidArgument, "hostname"},
		{"hostname ends in a hyphen", session.CreateRequest{Hostname: "a-"}, errdefs.InvalidArgument, "hostname"},
		{"label key", session.CreateRequest{Labels: map[string]string{"": "x"}}, errdefs.InvalidArgument, "labels"},
		{"label value", session.CreateRequest{Labels: map[string]string{"a": "\x1b[31m"}}, errdefs.InvalidArgument, "labels"},
		{"labels too many", session.CreateRequest{Labels: many}, errdefs.InvalidArgument, "labels"},
		{"idempotency key", session.CreateRequest{IdempotencyKey: "a\tb"}, errdefs.InvalidArgument, "Idempotency-Key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := d.Sessions.Create(t.Context(), everyone, c.req)
			wantCode(t, err, c.code)
			var e *errdefs.Error
			if !errors.As(err, &e) || e.Field != c.field || !strings.HasPrefix(e.Message, c.field) {
				t.Errorf("error %+v, want it to name %s", e, c.field)
			}
		})
	}
	all, err := d.store.List(t.Context(), session.ListFilter{IncludeEnded: true})
	if err != nil || len(all) != 0 {
		t.Errorf("refused requests left rows: %v, %v", all, err)
	}
}

func TestCreateUnknownImage(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	_, err := d.Sessions.Create(t.Context(), everyone, session.CreateRequest{Image: "missing"})
	wantCode(t, err, errdefs.NotFound)
	all, err := d.Sessions.List(t.Context(), everyone, session.ListRequest{IncludeEnded: true})
	if err != nil || len(all) != 0 {
		t.Errorf("left %v, %v", all, err)
	}
	h.driver.WantSandboxes(t)
}

// TestCreateUndone makes create fail at each of its steps.
func TestCreateUndone(t *testing.T) {
	h := newHost(t)
	for _, c := range []struct {
		name   string
		option func(*session.Options)
		code   errdefs.Code
		state  session.State // of the row; "" is no row
	}{
		{"first row", withPut(func(s session.Session) error {
			return map[session.State]error{session.Creating: errBroken}[s.State]
		}), errdefs.Internal, ""},
		{"driver refuses", withCreator(func(context.Context, runtime.ID, runtime.Spec) (runtime.Sandbox, error) {
			return nil, errdefs.New(errdefs.InsufficientSpace, "the host's disk is full")
		}), errdefs.InsufficientSpace, session.Failed},
		{"driver leaves a sandbox", withCreator(func(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
			_, err := h.driver.Create(ctx, id, spec)
			return nil, errors.Join(err, errBroken)
		}), errdefs.Internal, session.Failed},
		{"second row", withPut(func(s session.Session) error {
			return map[session.State]error{session.Running: errBroken}[s.State]
		}), errdefs.Internal, session.Failed},
		{"out of time", func(o *session.Options) {
			o.CreateTimeout = 10 * time.Millisecond
			o.Creator = creator(func(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
		}, errdefs.Unavailable, session.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := h.start(t, c.option)
			_, err := d.Sessions.Create(t.Context(), everyone, session.CreateRequest{Labels: map[string]string{"test": c.name}})
			wantCode(t, err, c.code)
			h.driver.WantSandboxes(t)
			all, err := d.Sessions.List(t.Context(), everyone, session.ListRequest{IncludeEnded: true})
			if err != nil {
				t.Fatal(err)
			}
			var states []session.State
			for _, s := range all {
				if s.Labels["test"] == c.name {
					states = append(states, s.State)
				}
			}
			if c.state == "" && len(states) > 0 || c.state != "" && (len(states) != 1 || states[0] != c.state) {
				t.Errorf("rows in states %v, want %q", states, c.state)
			}
			if alive, err := d.Sessions.List(t.Context(), everyone, session.ListRequest{}); err != nil || len(alive) > 0 {
				t.Errorf("alive: %v, %v", alive, err)
			}
		})
	}
}

func TestCreateTakesTheSandboxItGets(t *testing.T) {
	h := newHost(t)
	pool := withCreator(func(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
		return h.driver.Create(ctx, "warm", spec)
	})
	d := h.start(t, pool)
	s := d.create(t, session.CreateRequest{})
	if s.Sandbox != "warm" {
		t.Errorf("sandbox %q", s.Sandbox)
	}
	d.stop()

	d = h.start(t)
	d.want(t, s.ID, session.Running)
	if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	h.driver.WantSandboxes(t)
}

func TestIdempotencyAtOnce(t *testing.T) {
	h := newHost(t)
	d := h.start(t, func(o *session.Options) { o.Maxima.Sessions = 1 })
	req := session.CreateRequest{IdempotencyKey: "k"}
	ids := make([]session.ID, 100)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			s, err := d.Sessions.Create(t.Context(), as("alice"), req)
			if err != nil {
				t.Error(err)
			}
			if s.State != session.Running {
				t.Errorf("state %s", s.State)
			}
			ids[i] = s.ID
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("two sessions: %s and %s", id, ids[0])
		}
	}
	h.driver.WantSandboxes(t, runtime.ID(ids[0]))
}

func TestIdempotency(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	req := session.CreateRequest{IdempotencyKey: "k", Env: map[string]string{"A": "1"}}
	first := d.createAs(t, as("alice"), req)

	other := req
	other.Env = map[string]string{"A": "2"}
	_, err := d.Sessions.Create(t.Context(), as("alice"), other)
	wantCode(t, err, errdefs.Unprocessable)

	if s := d.createAs(t, as("bob"), req); s.ID == first.ID {
		t.Error("bob got alice's session")
	}

	d.stop()
	d = h.start(t)
	if s := d.createAs(t, as("alice"), req); s.ID != first.ID {
		t.Errorf("after a restart: session %s, want %s", s.ID, first.ID)
	}
	_, err = d.Sessions.Create(t.Context(), as("alice"), other)
	wantCode(t, err, errdefs.Unprocessable)

	if err := d.Sessions.Destroy(t.Context(), everyone, first.ID); err != nil {
		t.Fatal(err)
	}
	if s := d.createAs(t, as("alice"), req); s.ID != first.ID || s.State != session.Destroyed {
		t.Errorf("after its end: session %s in state %s", s.ID, s.State)
	}
	_, err = d.Sessions.Create(t.Context(), as("alice"), other)
	wantCode(t, err, errdefs.Unprocessable)
}

func TestIdempotencyKeyOfAFailedCreateIsFree(t *testing.T) {
	h := newHost(t)
	fail := true
	d := h.start(t, withCreator(func(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
		if fail {
			return nil, errBroken
		}
		return h.driver.Create(ctx, id, spec)
	}))
	req := session.CreateRequest{IdempotencyKey: "k"}
	if _, err := d.Sessions.Create(t.Context(), as("alice"), req); err == nil {
		t.Fatal("created")
	}
	fail = false
	d.create(t, req)
}

func TestCreateWhenTheClientGoes(t *testing.T) {
	h := newHost(t)
	for _, c := range []struct {
		name, key string
		goesOn    bool
	}{{"without a key it is undone", "", false}, {"with a key it goes on", "k", true}} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			d := h.start(t, withCreator(func(making context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
				cancel()
				return h.driver.Create(making, id, spec)
			}))
			_, err := d.Sessions.Create(ctx, everyone, session.CreateRequest{IdempotencyKey: c.key})
			if (err == nil) != c.goesOn {
				t.Errorf("error %v", err)
			}
			alive, err := d.Sessions.List(t.Context(), everyone, session.ListRequest{})
			if err != nil || (len(alive) == 1) != c.goesOn {
				t.Errorf("alive %v, %v", alive, err)
			}
			for _, s := range alive {
				if err := d.Sessions.Destroy(t.Context(), everyone, s.ID); err != nil {
					t.Error(err)
				}
			}
			h.driver.WantSandboxes(t)
		})
	}
}

// An owner may have a maximum of their own, above or below that of all others.
func TestMaxSessionsOfOneOwner(t *testing.T) {
	t.Parallel()
	d := newHost(t).start(t, func(o *session.Options) {
		o.Quotas = auth.FixedQuotas{General: auth.Quota{Sessions: 2}, Of: map[string]auth.Quota{"alice": {Sessions: 1}, "bob": {Sessions: 3}}}
	})
	for owner, most := range map[string]int{"alice": 1, "bob": 3, "carol": 2} {
		for range most {
			d.createAs(t, as(owner), session.CreateRequest{})
		}
		_, err := d.Sessions.Create(t.Context(), as(owner), session.CreateRequest{})
		wantCode(t, err, errdefs.ResourceExhausted)
		if want := fmt.Sprintf("max_sessions does not suffice: %d of %[1]d are used", most); err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", owner, err)
		}
		if _, _, quota := d.Sessions.Limits(as(owner)); quota.Sessions != most {
			t.Errorf("%s may have %d", owner, quota.Sessions)
		}
	}
}

func TestMaxSessions(t *testing.T) {
	d := newHost(t).start(t, func(o *session.Options) {
		o.Maxima.Sessions = 3
		o.Quotas = quota(auth.Quota{Sessions: 2})
	})
	var mu sync.Mutex
	made := make(map[string][]session.ID)
	var all sync.WaitGroup
	for i := range 12 {
		owner := []string{"alice", "bob"}[i%2]
		all.Go(func() {
			s, err := d.Sessions.Create(t.Context(), as(owner), session.CreateRequest{})
			if err != nil {
				wantCode(t, err, errdefs.ResourceExhausted)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			made[owner] = append(made[owner], s.ID)
		})
	}
	all.Wait()
	if n := len(made["alice"]) + len(made["bob"]); n != 3 || len(made["alice"]) > 2 || len(made["bob"]) > 2 {
		t.Fatalf("made %v", made)
	}
	for owner, ids := range made {
		if err := d.Sessions.Destroy(t.Context(), everyone, ids[0]); err != nil {
			t.Fatal(err)
		}
		d.createAs(t, as(owner), session.CreateRequest{})
		break
	}
}
