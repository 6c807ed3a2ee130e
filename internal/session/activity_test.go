package session_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// countingStore counts writes.
type countingStore struct {
	session.Store
	puts, touches *atomic.Int32
	fail          *atomic.Bool // Touch
}

func (c countingStore) Put(ctx context.Context, s session.Session) error {
	c.puts.Add(1)
	return c.Store.Put(ctx, s)
}

func (c countingStore) Touch(ctx context.Context, a []session.Activity) error {
	c.touches.Add(1)
	if c.fail.Load() {
		return errBroken
	}
	return c.Store.Touch(ctx, a)
}

func TestActivityIsWrittenInBatches(t *testing.T) {
	h := newHost(t)
	synctest.Test(t, func(t *testing.T) {
		var puts, touches atomic.Int32
		var fail atomic.Bool
		d := h.start(t, func(o *session.Options) {
			o.Store = countingStore{o.Store, &puts, &touches, &fail}
			o.FlushEvery = 15 * time.Second
		})
		s := d.create(t, session.CreateRequest{})
		made := puts.Load()
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			d.output(t, s.ID, "cd /usr")
		}
		if n := puts.Load() - made + touches.Load(); n != 0 {
			t.Errorf("50 execs made %d writes", n)
		}
		last := d.want(t, s.ID, session.Running).LastActivity
		row := func() session.Session {
			t.Helper()
			row, err := d.store.Get(t.Context(), s.ID)
			if err != nil {
				t.Fatal(err)
			}
			return row
		}
		fail.Store(true)
		time.Sleep(16 * time.Second)
		if got := row(); got.LastActivity.After(s.LastActivity) {
			t.Error("written in spite of the store's failure")
		}
		fail.Store(false)
		time.Sleep(16 * time.Second)
		if got := row(); !got.LastActivity.Equal(last.Truncate(time.Microsecond)) || got.Cwd != "/usr" {
			t.Errorf("row has %v in %q, want %v", got.LastActivity, got.Cwd, last)
		}
		quiet := touches.Load()
		time.Sleep(time.Minute)
		if touches.Load() != quiet {
			t.Error("writes without activity")
		}

		d.output(t, s.ID, "cd /tmp")
		d.stop()
		d = h.prepare(t)
		if got := d.want(t, s.ID, session.Running); got.Cwd != "/tmp" {
			t.Errorf("cwd %q after the daemon has stopped", got.Cwd)
		}
		d.stop()
	})
}

func TestOpenFileIsUse(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	synctest.Test(t, func(t *testing.T) {
		d := h.start(t, func(o *session.Options) { o.Defaults.TTL = time.Minute })
		s := d.create(t, session.CreateRequest{})
		if _, err := d.Files.Write(t.Context(), everyone, string(s.ID), protocol.Write{Path: "f"}, 5, strings.NewReader("hello")); err != nil {
			t.Fatal(err)
		}
		_, r, err := d.Files.Read(t.Context(), everyone, string(s.ID), protocol.Read{Path: "f"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if err := d.Upkeep.Expire(t.Context(), part, s.ID); err != nil {
			t.Fatal(err)
		}
		d.want(t, s.ID, session.Running)
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(59 * time.Second)
		if err := d.Upkeep.Expire(t.Context(), part, s.ID); err != nil {
			t.Fatal(err)
		}
		d.want(t, s.ID, session.Running)
		time.Sleep(time.Second)
		if err := d.Upkeep.Expire(t.Context(), part, s.ID); err != nil {
			t.Fatal(err)
		}
		d.want(t, s.ID, session.Expired)
		d.stop()
	})
}

// TestClockSetBack adopts a session whose last activity is in the future.
func TestClockSetBack(t *testing.T) {
	h := newHost(t)
	d := h.start(t, func(o *session.Options) { o.Defaults.TTL = time.Minute })
	s := d.create(t, session.CreateRequest{})
	d.stop()
	d = h.prepare(t)
	s.CreatedAt, s.LastActivity = s.CreatedAt.Add(time.Hour), s.LastActivity.Add(time.Hour)
	if err := d.store.Put(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	d.run()
	d.waitReady()
	if left := time.Until(d.want(t, s.ID, session.Running).ExpiresAt()); left > time.Minute {
		t.Errorf("it lives for another %v", left)
	}
}

// Times in memory have a reading of the monotonic clock, without which a wall clock
// that jumps would end sessions.
func TestTimesAreMonotonic(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{})
	check := func(d *daemon) {
		t.Helper()
		got := d.want(t, s.ID, session.Running)
		for name, at := range map[string]time.Time{"created": got.CreatedAt, "used": got.LastActivity, "expires": got.ExpiresAt()} {
			if !strings.Contains(at.String(), " m=") {
				t.Errorf("%s: %s has only the wall clock's reading", name, at)
			}
		}
	}
	check(d)
	d.output(t, s.ID, "true")
	check(d)
	d.ClockSet()
	check(d)
	d.stop()
	d = h.start(t)
	d.waitReady()
	check(d)
}
