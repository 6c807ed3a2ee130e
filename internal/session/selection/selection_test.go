package selection_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/selection"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var begin = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func sessions() []session.Session {
	return []session.Session{
		{ID: "aaa", Name: "Web", Image: "base", State: session.Running, Owner: "alice", Labels: map[string]string{"task": "42"}, CreatedAt: begin, LastActivity: begin.Add(9)},
		{ID: "bbb", Name: "db", Image: "python", ImageDigest: "sha256:1", State: session.Stopped, Owner: "bob", CreatedAt: begin.Add(1), LastActivity: begin.Add(8)},
		{ID: "ccc", Image: "python", State: session.Running, Owner: "bob", Labels: map[string]string{"task": "7", "keep": ""}, CreatedAt: begin.Add(1), LastActivity: begin.Add(7)},
	}
}

func ids(all []session.Session) string {
	var names []string
	for _, s := range all {
		names = append(names, string(s.ID))
	}
	return strings.Join(names, " ")
}

// A cursor may be of a session that is alive, whose times are finer than those of rows.
func TestEndedBehindWhatIsAlive(t *testing.T) {
	alive := session.Session{ID: "mmm", CreatedAt: begin.Add(1500)}
	for order, want := range map[selection.Order]session.EndedPage{
		"created":  {After: "~", At: begin.UnixMicro() + 1},
		"-created": {After: "~", At: begin.UnixMicro() + 1, Down: true},
	} {
		page := selection.Page{Order: order, Limit: 1}
		page.After = page.Cursor(alive)
		got, err := page.Ended(selection.Filter{})
		if err != nil || got.After != want.After || got.At != want.At || got.Down != want.Down || got.By != "created_at" {
			t.Errorf("%s: %+v, %v", order, got, err)
		}
	}
	if _, err := (selection.Page{Limit: 1, After: "x"}).Ended(selection.Filter{}); !errdefs.Is(err, errdefs.InvalidArgument) {
		t.Error(err)
	}
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		filter selection.Filter
		want   string
	}{
		{selection.Filter{}, "aaa bbb ccc"},
		{selection.Filter{States: []session.State{session.Stopped, session.Paused}}, "bbb"},
		{selection.Filter{Image: "python"}, "bbb ccc"},
		{selection.Filter{Image: "sha256:1"}, "bbb"},
		{selection.Filter{Labels: []string{"task"}}, "aaa ccc"},
		{selection.Filter{Labels: []string{"task=42"}}, "aaa"},
		{selection.Filter{Labels: []string{"task", "keep="}}, "ccc"},
		{selection.Filter{Owner: "bob"}, "bbb ccc"},
		{selection.Filter{Owner: "bob", Text: "DB"}, "bbb"},
		{selection.Filter{Text: "web"}, "aaa"},
		{selection.Filter{Text: "PYTH"}, "bbb ccc"},
		{selection.Filter{Text: "task=7"}, "ccc"},
		{selection.Filter{Text: "alice"}, ""},
	} {
		got, err := selection.Page{}.Of(sessions(), c.filter)
		if err != nil || ids(got) != c.want {
			t.Errorf("%+v: %q, %v, want %q", c.filter, ids(got), err, c.want)
		}
	}
}

func TestPagesHaveAllOnceInOrder(t *testing.T) {
	for order, want := range map[selection.Order]string{
		"": "aaa bbb ccc", "created": "aaa bbb ccc", "-created": "ccc bbb aaa", "activity": "ccc bbb aaa", "-activity": "aaa bbb ccc",
		"name": "ccc aaa bbb", "-name": "bbb aaa ccc",
	} {
		page := selection.Page{Order: order, Limit: 1}
		var got []session.Session
		for {
			one, err := page.Of(sessions(), selection.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			if len(one) == 0 {
				break
			}
			got = append(got, one...)
			page.After = page.Cursor(one[0])
		}
		if ids(got) != want {
			t.Errorf("%s: %q, want %q", order, ids(got), want)
		}
	}
}

func TestPageGoesOnBehindASessionThatIsGone(t *testing.T) {
	all := sessions()
	after := selection.Page{}.Cursor(all[1])
	got, err := selection.Page{After: after}.Of(slices.Delete(all, 1, 2), selection.Filter{})
	if err != nil || ids(got) != "ccc" {
		t.Errorf("%q, %v", ids(got), err)
	}
}

func TestForeignCursorsAreRefused(t *testing.T) {
	other := selection.Page{Order: selection.Name}.Cursor(sessions()[0])
	for _, after := range []string{"x", "%00", "e30", other, strings.Repeat("A", 1000)} {
		if _, err := (selection.Page{After: after}).Of(sessions(), selection.Filter{}); !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%q: %v", after, err)
		}
	}
}
