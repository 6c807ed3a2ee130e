package fsck

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

const archive = "abcdefghijklmnopqrstuvwxyz"

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// named is an archive of a session of the orchestrator.
const named = "snapshots/6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a11/7f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a11.tar.gz"

// inOrder is a store and a host that agree, with one of everything.
func inOrder() (Rows, Found) {
	row := func(id string, state session.State) session.Session {
		return session.Session{ID: session.ID(id), Sandbox: runtime.ID(id), State: state, Owner: "o", ImageDigest: "image", CreatedAt: now}
	}
	running := row("running", session.Running)
	running.WorkspaceID = "w"
	rows := Rows{
		Exists:     true,
		Sessions:   []session.Session{running, row("paused", session.Paused), row("stopped", session.Stopped)},
		Workspaces: []workspaces.Workspace{{Owner: "o", ID: "w", Volume: "v", State: workspaces.WorkspaceReady}},
		Snapshots:  []snapshots.Snapshot{{ID: archive, State: snapshots.Ready, Size: 3}},
	}
	return rows, Found{
		Now: now, Keeper: runtime.Native, Reserved: func(id runtime.ID) bool { return id == "pool" },
		Inspection: map[string]runtime.Inspection{runtime.Native: {
			Sandboxes: map[runtime.ID]runtime.Status{
				"running": {ID: "running", Alive: true}, "paused": {ID: "paused", Alive: true}, "stopped": {ID: "stopped", Startable: true}, "pool": {ID: "pool", Alive: true},
			},
			Paused:     map[runtime.ID]bool{"paused": true},
			Workspaces: map[runtime.WorkspaceID]bool{"v": true},
		}},
		Blobs: map[string]int64{archive: 3, "others/thing": 1}, Images: map[string]error{"image": nil},
	}
}

func wheres(all []Difference) (list []string) {
	for _, d := range all {
		list = append(list, d.What+" "+d.Where)
	}
	return list
}

func TestNothingDiffersWhereAllIsInOrder(t *testing.T) {
	for _, beside := range []bool{false, true} {
		rows, found := inOrder()
		found.Running = beside
		if all := Compare(rows, found); len(all) > 0 {
			t.Errorf("beside a daemon %v: %+v", beside, all)
		}
	}
}

func TestEachDamageIsFound(t *testing.T) {
	host := func(f *Found) runtime.Inspection { return f.Inspection[runtime.Native] }
	for name, c := range map[string]struct {
		damage func(*Rows, *Found)
		want   string
		beside bool // a daemon too
	}{
		"no sandbox":         {func(_ *Rows, f *Found) { delete(host(f).Sandboxes, "running") }, "session running", true},
		"a dead runner":      {func(_ *Rows, f *Found) { host(f).Sandboxes["running"] = runtime.Status{} }, "session running", true},
		"stopped by itself":  {func(_ *Rows, f *Found) { host(f).Sandboxes["running"] = runtime.Status{Startable: true} }, "session running", true},
		"no files":           {func(_ *Rows, f *Found) { delete(host(f).Sandboxes, "stopped") }, "session stopped", true},
		"runs after all":     {func(_ *Rows, f *Found) { host(f).Sandboxes["stopped"] = runtime.Status{Alive: true} }, "session stopped", true},
		"not paused":         {func(_ *Rows, f *Found) { delete(host(f).Paused, "paused") }, "session paused", true},
		"stands still":       {func(_ *Rows, f *Found) { host(f).Paused["running"] = true }, "session running", false},
		"cut off":            {func(r *Rows, _ *Found) { r.Sessions[0].State = session.Stopping }, "session running", false},
		"forgotten":          {func(r *Rows, f *Found) { r.Sessions[0].State, f.Now = session.Creating, now.Add(time.Hour) }, "session running", true},
		"an orphan":          {func(r *Rows, _ *Found) { r.Sessions = r.Sessions[:2] }, "sandbox stopped", true},
		"a pool's":           {func(_ *Rows, f *Found) { f.Reserved = func(runtime.ID) bool { return false } }, "sandbox pool", true},
		"a passing one's":    {func(_ *Rows, f *Found) { host(f).Sandboxes["passing-x"] = runtime.Status{Alive: true} }, "sandbox passing-x", false},
		"no workspace":       {func(r *Rows, _ *Found) { r.Sessions[0].WorkspaceID = "x" }, "session running", true},
		"no image":           {func(_ *Rows, f *Found) { f.Images["image"] = errors.New("gone") }, "session running session paused session stopped", true},
		"half a workspace":   {func(r *Rows, _ *Found) { r.Workspaces[0].State = workspaces.WorkspaceDeleting }, "workspace w", false},
		"no volume":          {func(_ *Rows, f *Found) { delete(host(f).Workspaces, "v") }, "workspace w", true},
		"a volume too many":  {func(_ *Rows, f *Found) { host(f).Workspaces["x"] = true }, "volume x", true},
		"half a snapshot":    {func(r *Rows, _ *Found) { r.Snapshots[0].State = snapshots.Creating }, "snapshot " + archive, false},
		"no archive":         {func(_ *Rows, f *Found) { delete(f.Blobs, archive) }, "snapshot " + archive, true},
		"a damaged archive":  {func(_ *Rows, f *Found) { f.Blobs[archive] = 2 }, "snapshot " + archive, true},
		"an archive of none": {func(r *Rows, _ *Found) { r.Snapshots = nil }, "archive " + archive, true},
		"a named archive": {func(r *Rows, f *Found) {
			r.Snapshots[0].Manifest.Key = named
			f.Blobs = map[string]int64{named: 3}
		}, "", false},
		"no named archive": {func(r *Rows, f *Found) {
			r.Snapshots[0].Manifest.Key = named
			f.Blobs = map[string]int64{}
		}, "snapshot " + archive, true},
		"a named one of none": {func(_ *Rows, f *Found) { f.Blobs[named+".enc"] = 3 }, "archive " + named + ".enc", true},
		"an artifact":         {func(_ *Rows, f *Found) { f.Blobs["artifacts/a/b"] = 3 }, "", false},
		"an upload":           {func(_ *Rows, f *Found) { f.Spool = []string{"part"} }, "upload part", false},
	} {
		for _, beside := range []bool{false, true} {
			rows, found := inOrder()
			c.damage(&rows, &found)
			found.Running = beside
			got := ""
			for i, w := range wheres(Compare(rows, found)) {
				if i > 0 {
					got += " "
				}
				got += w
			}
			if want := c.want; beside && !c.beside && got != "" || (!beside || c.beside) && got != want {
				t.Errorf("%s, beside a daemon %v: %q, want %q", name, beside, got, want)
			}
		}
	}
}

func TestTwoSessionsOfOneSandbox(t *testing.T) {
	rows, found := inOrder()
	rows.Sessions[1].Sandbox, rows.Sessions[1].State = "running", session.Running
	found.Inspection[runtime.Native].Paused["paused"] = false
	if diff := cmp.Diff([]string{"session paused", "sandbox paused"}, wheres(Compare(rows, found))); diff != "" {
		t.Error(diff)
	}
}

// Of a driver that is not asked nothing is said.
func TestADriverThatIsNotAsked(t *testing.T) {
	rows, found := inOrder()
	rows.Sessions = append(rows.Sessions, session.Session{ID: "far", Sandbox: "docker_far", State: session.Running, ImageDigest: "image"})
	if all := Compare(rows, found); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	delete(found.Inspection, runtime.Native)
	found.Blobs = nil
	if all := Compare(rows, found); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

func TestStay(t *testing.T) {
	first := []Difference{{What: "a"}, {What: "b"}}
	second := []Difference{{What: "b"}, {What: "c"}}
	if diff := cmp.Diff([]Difference{{What: "b"}}, Stay(first, second)); diff != "" {
		t.Error(diff)
	}
}

// Rows that name nothing of what there is are not its rows, and nothing of it is
// garbage.
func TestLost(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*Rows, *Found)
		lost   bool
	}{
		"in order":            {func(*Rows, *Found) {}, false},
		"one orphan":          {func(r *Rows, _ *Found) { r.Sessions = r.Sessions[:2] }, false},
		"no database":         {func(r *Rows, _ *Found) { *r = Rows{} }, true},
		"no database, no use": {func(r *Rows, f *Found) { *r, f.Inspection, f.Blobs = Rows{}, nil, nil }, false},
		"only archives":       {func(r *Rows, f *Found) { *r, f.Inspection = Rows{}, nil }, true},
		"only a pool's": {func(r *Rows, f *Found) {
			r.Sessions = nil
			f.Reserved = func(runtime.ID) bool { return true }
		}, false},
		"only a passing one": {func(r *Rows, f *Found) {
			r.Sessions = nil
			f.Inspection[runtime.Native] = runtime.Inspection{Sandboxes: map[runtime.ID]runtime.Status{"passing-x": {ID: "passing-x", Alive: true}}}
		}, false},
		"an empty database": {func(r *Rows, _ *Found) { *r = Rows{Exists: true} }, true},
		"another's":         {func(r *Rows, _ *Found) { r.Sessions = []session.Session{{ID: "x", Sandbox: "x"}} }, true},
		"another's volumes": {func(r *Rows, _ *Found) { r.Workspaces[0].Volume = "x" }, true},
		"what a create has left": {func(r *Rows, f *Found) {
			r.Sessions = nil
			f.Inspection[runtime.Native] = runtime.Inspection{Sandboxes: map[runtime.ID]runtime.Status{"half": {ID: "half"}}}
		}, false},
	} {
		rows, found := inOrder()
		c.damage(&rows, &found)
		why := Lost(rows, found)
		if (why != "") != c.lost {
			t.Errorf("%s: %q", name, why)
		}
		for _, d := range Compare(rows, found) {
			if d.What == "sandbox" && (d.Mend == mendLost.text) != c.lost {
				t.Errorf("%s: %+v", name, d)
			}
		}
	}
}

// A difference says which command mends it, and whether something is lost.
func TestMends(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Rows, *Found)
		command string
		grave   bool
	}{
		"a sandbox is gone":  {func(_ *Rows, f *Found) { delete(f.Inspection[runtime.Native].Sandboxes, "paused") }, "sandkasten fsck --repair", false},
		"an archive is gone": {func(_ *Rows, f *Found) { f.Blobs = map[string]int64{} }, "sandkasten snapshot rm " + archive, true},
		"an archive is new":  {func(r *Rows, _ *Found) { r.Snapshots = nil }, "sandkasten recover", false},
		"a volume is gone":   {func(_ *Rows, f *Found) { delete(f.Inspection[runtime.Native].Workspaces, "v") }, "", true},
		"an image is gone":   {func(_ *Rows, f *Found) { f.Images["image"] = errors.New("no such image") }, "", true},
	} {
		rows, found := inOrder()
		c.change(&rows, &found)
		all := Compare(rows, found)
		if len(all) == 0 {
			t.Errorf("%s: nothing differs", name)
		}
		for _, d := range all {
			if d.Command != c.command || d.Grave != c.grave {
				t.Errorf("%s: %q, grave %v: %+v", name, d.Command, d.Grave, d)
			}
		}
	}
}

// Of a driver that does not answer nothing is known, and that is all that is said.
func TestSilentDriver(t *testing.T) {
	rows := Rows{Exists: true, Sessions: []session.Session{{ID: "x", Sandbox: "far_x", State: session.Running}}}
	away := errdefs.New(errdefs.Unavailable, "the driver far does not answer")
	found := Found{Reserved: func(runtime.ID) bool { return false }, Silent: map[string]error{"far": away}}
	all := Compare(rows, found)
	if len(all) != 1 || all[0].What != "driver" || all[0].Where != "far" || all[0].Found != "the driver far does not answer" {
		t.Errorf("%+v", all)
	}
}
