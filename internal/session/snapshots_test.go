package session_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/internal/snapshot"
)

// withSnapshots gives a manager snapshots, in a directory beside the database.
func (h host) withSnapshots(t testing.TB) func(*session.Options) {
	t.Helper()
	blobs, err := blob.NewDir(filepath.Join(filepath.Dir(h.db), "snapshots"), "")
	if err != nil {
		t.Fatal(err)
	}
	return func(o *session.Options) {
		o.Snapshots.Store, o.Snapshots.Blobs, o.Snapshots.SpoolDir = o.Store.(snapshots.Store), blobs, filepath.Dir(h.db)
	}
}

// wantArchives checks how many files there are of snapshots.
func (h host) wantArchives(t testing.TB, want int) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(filepath.Dir(h.db), "snapshots"), func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != ".store" {
			files++
		}
		return err
	})
	if err != nil || files != want {
		t.Errorf("%d files of snapshots, want %d: %v", files, want, err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(h.db), "snapshot-*")); err != nil || len(left) > 0 {
		t.Errorf("left under way: %v, %v", left, err)
	}
}

func (d *daemon) save(t testing.TB, p auth.Principal, id string, req snapshots.Request) snapshots.Snapshot {
	t.Helper()
	s, err := d.Snapshots.Create(t.Context(), p, id, req)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (d *daemon) download(t testing.TB, s snapshots.Snapshot) []byte {
	t.Helper()
	_, archive, err := d.Snapshots.Open(t.Context(), as(s.Owner), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(archive)
	if err := errors.Join(err, archive.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}

func (d *daemon) upload(owner string, data []byte) (snapshots.Snapshot, error) {
	return d.Snapshots.Upload(context.Background(), as(owner), snapshots.UploadRequest{Size: int64(len(data))}, bytes.NewReader(data))
}

func TestSnapshot(t *testing.T) {
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t))
	from := d.createAs(t, as("alice"), session.CreateRequest{Image: "tools"})
	d.output(t, from.ID, "mkdir -p src/deep node; echo one > src/deep/f; chmod 640 src/deep/f; ln -s deep/f src/l; echo x > node/y; truncate -s 3M zeros")
	made := d.save(t, as("alice"), string(from.ID), snapshots.Request{
		Name: "v1", Label: "first", Exclude: []string{"node", "/workspace/nothing"},
	})
	if made.Size == 0 || made.Manifest.Entries() != 5 || made.Manifest.Bytes() != 4+3<<20 || made.Manifest.Image != "tools" {
		t.Errorf("%+v", made)
	}
	d.output(t, from.ID, "rm -r src")
	d.destroy(t, from.ID)

	to := d.createAs(t, as("alice"), session.CreateRequest{RestoreSnapshotID: made.ID})
	if out := d.output(t, to.ID, "cat src/l; stat -c '%a %s' src/deep/f zeros; ls"); out != "one\n640 4\n644 3145728\nsrc\nzeros\n" || to.Image != "tools" {
		t.Errorf("%s: %q", to.Image, out)
	}
	if to = d.createAs(t, as("alice"), session.CreateRequest{RestoreSnapshotID: made.ID, Image: "other"}); to.Image != "other" {
		t.Errorf("the image is %s", to.Image)
	}

	if all, err := d.Snapshots.List(t.Context(), as("alice"), snapshots.Filter{SessionID: string(from.ID), Name: "v1"}); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := d.Snapshots.List(t.Context(), as("bob"), snapshots.Filter{}); err != nil || len(all) != 0 {
		t.Errorf("bob has %+v, %v", all, err)
	}
	for _, f := range []snapshots.Filter{{SessionID: string(to.ID)}, {Name: "v2"}} {
		if all, err := d.Snapshots.List(t.Context(), everyone, f); err != nil || len(all) != 0 {
			t.Errorf("%+v: %v, %v", f, all, err)
		}
	}
	_, err := d.Snapshots.Get(t.Context(), as("bob"), made.ID)
	wantCode(t, err, errdefs.NotFound)
	_, _, err = d.Snapshots.Open(t.Context(), as("bob"), made.ID)
	wantCode(t, err, errdefs.NotFound)
	wantCode(t, d.Snapshots.Delete(t.Context(), as("bob"), made.ID), errdefs.NotFound)
	_, err = d.Sessions.Create(t.Context(), as("bob"), session.CreateRequest{RestoreSnapshotID: made.ID})
	wantCode(t, err, errdefs.NotFound)

	if err := d.Snapshots.Delete(t.Context(), as("alice"), made.ID); err != nil {
		t.Fatal(err)
	}
	h.wantArchives(t, 0)
	_, err = d.Snapshots.Get(t.Context(), as("alice"), made.ID)
	wantCode(t, err, errdefs.NotFound)
}

// What goes by download and upload comes back on another host, as another's.
func TestSnapshotTravels(t *testing.T) {
	h, other := newHost(t), newHost(t)
	d := h.start(t, h.withSnapshots(t))
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	d.output(t, from.ID, "echo far > f")
	archive := d.download(t, d.save(t, as("alice"), string(from.ID), snapshots.Request{}))

	there := other.start(t, other.withSnapshots(t))
	got, err := there.upload("bob", archive)
	if err != nil || got.Owner != "bob" || got.Manifest.Owner != "bob" || got.Manifest.ID != got.ID || got.Manifest.SessionID != string(from.ID) {
		t.Fatalf("%+v, %v", got, err)
	}
	s := there.createAs(t, as("bob"), session.CreateRequest{RestoreSnapshotID: got.ID})
	if out := there.output(t, s.ID, "cat f"); out != "far\n" {
		t.Errorf("%q", out)
	}
}

// A host that has no room for sandboxes has none for their snapshots.
func TestSnapshotsAreAdmitted(t *testing.T) {
	h := newHost(t)
	var short error
	d := h.start(t, h.withSnapshots(t), func(o *session.Options) { o.Admit = func(context.Context, session.Admission) error { return short } })
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	var req snapshots.Request
	archive := d.download(t, d.save(t, as("alice"), string(from.ID), req))
	short = errdefs.New(errdefs.Unavailable, "no room")
	_, err := d.Snapshots.Create(t.Context(), as("alice"), string(from.ID), req)
	wantCode(t, err, errdefs.Unavailable)
	_, err = d.upload("alice", archive)
	wantCode(t, err, errdefs.Unavailable)
	h.wantArchives(t, 1)
}

// What one key sends takes disk before anybody knows what it is.
func TestUploadsAtOnce(t *testing.T) {
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t))
	ended := make(chan error)
	var senders []*io.PipeWriter
	for range 2 {
		r, w := io.Pipe()
		senders = append(senders, w)
		go func() {
			_, err := d.Snapshots.Upload(t.Context(), as("alice"), snapshots.UploadRequest{}, r)
			ended <- err
		}()
		if _, err := w.Write([]byte("x")); err != nil { // which it reads, and waits for more
			t.Fatal(err)
		}
	}
	upload := func(owner string) error {
		_, err := d.Snapshots.Upload(t.Context(), as(owner), snapshots.UploadRequest{}, strings.NewReader("x"))
		return err
	}
	if err := upload("alice"); !errdefs.Is(err, errdefs.ResourceExhausted) {
		t.Errorf("a third one: %v", err)
	}
	if err := upload("bob"); !errdefs.Is(err, errdefs.Unprocessable) {
		t.Errorf("another key's: %v", err)
	}
	for _, w := range senders {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errdefs.Is(err, errdefs.Unprocessable) {
			t.Errorf("what has ended: %v", err)
		}
	}
	if err := upload("alice"); !errdefs.Is(err, errdefs.Unprocessable) {
		t.Errorf("a later one: %v", err)
	}
}

// T07: an archive that is not exactly what was written is no snapshot.
func TestUploadsRefused(t *testing.T) {
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t), func(o *session.Options) { o.Snapshots.MaxUnpack = 1 << 20 })
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	d.output(t, from.ID, "head -c 20000 /dev/urandom > f")
	good := d.save(t, as("alice"), string(from.ID), snapshots.Request{})
	archive := d.download(t, good)
	flipped := bytes.Clone(archive)
	flipped[len(flipped)/2] ^= 1
	change := func(old, new string) []byte {
		if !bytes.Contains(archive, []byte(old)) || len(old) != len(new) {
			t.Fatalf("the archive has no %s", old)
		}
		return bytes.Replace(archive, []byte(old), []byte(new), 1)
	}
	for name, c := range map[string]struct {
		data []byte
		code errdefs.Code
	}{
		"nothing":         {nil, errdefs.Unprocessable},
		"no archive":      {bytes.Repeat([]byte("x"), 5000), errdefs.Unprocessable},
		"cut off":         {archive[:len(archive)/2], errdefs.Unprocessable},
		"a bit flipped":   {flipped, errdefs.Unprocessable},
		"two of them":     {append(bytes.Clone(archive), archive...), errdefs.Unprocessable},
		"garbage behind":  {append(bytes.Clone(archive), "garbage"...), errdefs.Unprocessable},
		"another hash":    {change(good.Manifest.Parts[0].SHA256, strings.Repeat("0", 64)), errdefs.Unprocessable},
		"another format":  {change(`"format":1`, `"format":2`), errdefs.Unprocessable},
		"another scope":   {change(`"scope":"workspace"`, `"scope":"workspece"`), errdefs.Unprocessable},
		"more files":      {change(`"entries":1`, `"entries":2`), errdefs.Unprocessable},
		"an unknown word": {change(`"format":1`, `"fermat":1`), errdefs.Unprocessable},
	} {
		_, err := d.upload("bob", c.data)
		if errdefs.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.wantArchives(t, 1)
	if all, err := d.Snapshots.List(t.Context(), as("bob"), snapshots.Filter{}); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// Who can write where archives are kept cannot have another one restored.
func TestRestoreOfAnotherArchive(t *testing.T) {
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t))
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	d.output(t, from.ID, "head -c 20000 /dev/urandom > f")
	mine := d.save(t, as("alice"), string(from.ID), snapshots.Request{})
	others := d.download(t, d.save(t, as("bob").With(auth.ScopeEveryOwner), string(from.ID), snapshots.Request{}))
	good := d.download(t, mine)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	blobs, err := blob.NewDir(filepath.Join(filepath.Dir(h.db), "snapshots"), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"another's": others, "flipped": flipped, "cut off": good[:len(good)-5000]} {
		if _, err := blobs.Put(t.Context(), mine.ID, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		_, err := d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{RestoreSnapshotID: mine.ID})
		if told, ok := errors.AsType[*errdefs.Error](err); !ok || told.Code != errdefs.Unprocessable || told.Field != "restore_snapshot_id" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := blobs.Delete(t.Context(), mine.ID); err != nil {
		t.Fatal(err)
	}
	_, err = d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{RestoreSnapshotID: mine.ID})
	wantCode(t, err, errdefs.Unprocessable)
	h.driver.WantSandboxes(t, from.Sandbox)
}

func TestSnapshotRequests(t *testing.T) {
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t), withWorkspaces, func(o *session.Options) {
		o.Snapshots.MaxCount, o.Snapshots.MaxBytes, o.Snapshots.MaxFiles, o.Snapshots.MaxUnpack = 2, 100<<10, 10, 1<<20
	})
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	id := string(from.ID)
	for _, c := range []struct {
		name  string
		req   snapshots.Request
		code  errdefs.Code
		field string
	}{
		{"no session", snapshots.Request{}, errdefs.NotFound, ""},
		{"scope", snapshots.Request{Scope: "all"}, errdefs.InvalidArgument, "scope"},
		{"name", snapshots.Request{Name: "a b"}, errdefs.InvalidArgument, "name"},
		{"label", snapshots.Request{Label: "a\nb"}, errdefs.InvalidArgument, "label"},
		{"outside", snapshots.Request{Include: []string{"/etc"}}, errdefs.InvalidArgument, "include_paths"},
		{"climbs", snapshots.Request{Exclude: []string{"../etc"}}, errdefs.InvalidArgument, "exclude_paths"},
		{"empty", snapshots.Request{Include: []string{""}}, errdefs.InvalidArgument, "include_paths"},
		{"everything", snapshots.Request{Exclude: []string{"."}}, errdefs.InvalidArgument, "exclude_paths"},
		{"too many", snapshots.Request{Include: make([]string, 300)}, errdefs.InvalidArgument, "include_paths"},
		{"of a driver without", snapshots.Request{Scope: snapshot.ScopeSandbox}, errdefs.Unimplemented, ""},
		{"fallback", snapshots.Request{Scope: snapshot.ScopeSandbox, Fallback: "all"}, errdefs.InvalidArgument, "fallback"},
		{"fallback of less", snapshots.Request{Fallback: snapshot.ScopeWorkspace}, errdefs.InvalidArgument, "fallback"},
		{"files of the root alone", snapshots.Request{Scope: snapshot.ScopeSandbox, Fallback: snapshot.ScopeWorkspace, Exclude: []string{"."}}, errdefs.Unimplemented, ""},
		{"files that are named", snapshots.Request{Scope: snapshot.ScopeSandbox, Fallback: snapshot.ScopeWorkspace, Include: []string{"f", "/etc/f"}}, errdefs.Unimplemented, ""},
	} {
		of := id
		if c.code == errdefs.NotFound {
			of = strings.Repeat("a", 26)
		}
		_, err := d.Snapshots.Create(t.Context(), as("alice"), of, c.req)
		wantCode(t, err, c.code)
		if told, ok := errors.AsType[*errdefs.Error](err); !ok || told.Field != c.field {
			t.Errorf("%s: %v does not name %q", c.name, err, c.field)
		}
		if c.name == "climbs" && !strings.Contains(errdefs.MessageOf(err), `has "../etc", which leads out of /workspace, to /etc`) {
			t.Errorf("%v", err)
		}
	}
	for cmd, code := range map[string]errdefs.Code{
		"head -c 200000 /dev/urandom > big": errdefs.TooLarge,
		"truncate -s 2M zeros":              errdefs.TooLarge,
		"touch 1 2 3 4 5 6 7 8 9 10 11":     errdefs.TooLarge,
	} {
		d.output(t, from.ID, cmd)
		_, err := d.Snapshots.Create(t.Context(), as("alice"), id, snapshots.Request{})
		wantCode(t, err, code)
		d.output(t, from.ID, "rm -f *")
	}
	h.wantArchives(t, 0)

	one := d.save(t, as("alice"), id, snapshots.Request{})
	d.save(t, as("alice"), id, snapshots.Request{})
	_, err := d.Snapshots.Create(t.Context(), as("alice"), id, snapshots.Request{})
	wantCode(t, err, errdefs.ResourceExhausted)

	if _, err := d.Workspaces.Create(t.Context(), as("alice"), workspaces.WorkspaceRequest{ID: "there"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		req  session.CreateRequest
		code errdefs.Code
	}{
		{session.CreateRequest{RestoreSnapshotID: "../x"}, errdefs.InvalidArgument},
		{session.CreateRequest{RestoreSnapshotID: strings.Repeat("a", 26)}, errdefs.NotFound},
		{session.CreateRequest{RestoreSnapshotID: one.ID, WorkspaceID: "there"}, errdefs.Conflict},
	} {
		_, err := d.Sessions.Create(t.Context(), as("alice"), c.req)
		wantCode(t, err, c.code)
	}
	d.createAs(t, as("alice"), session.CreateRequest{RestoreSnapshotID: one.ID, WorkspaceID: "new"})
	none := newHost(t).start(t)
	_, err = none.Snapshots.List(t.Context(), everyone, snapshots.Filter{})
	wantCode(t, err, errdefs.Unimplemented)
}

// Where the driver cannot tell what was changed of the root, a client gets the workspace
// if it has said so, and the snapshot says what it has.
func TestSnapshotFallsBackToTheWorkspace(t *testing.T) {
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t))
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	d.output(t, from.ID, "echo kept > f")
	req := snapshots.Request{Scope: snapshot.ScopeSandbox, Fallback: snapshot.ScopeWorkspace, IdempotencyKey: "k"}
	made := d.save(t, as("alice"), string(from.ID), req)
	if made.Manifest.Scope != snapshot.ScopeWorkspace || len(made.Manifest.Parts) != 1 || made.Manifest.Entries() != 1 {
		t.Errorf("%+v", made.Manifest)
	}
	if again := d.save(t, as("alice"), string(from.ID), req); again.ID != made.ID {
		t.Error("the same request made another one")
	}
	to := d.createAs(t, as("alice"), session.CreateRequest{RestoreSnapshotID: made.ID, Image: "other"})
	if out := d.output(t, to.ID, "cat f"); out != "kept\n" || to.Image != "other" {
		t.Errorf("%s: %q", to.Image, out)
	}
	if _, err := d.upload("bob", d.download(t, made)); err != nil {
		t.Errorf("upload: %v", err)
	}
}

// What the archives of a key take is bounded, however they came.
func TestSnapshotTotal(t *testing.T) {
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t), func(o *session.Options) { o.Quotas = quota(auth.Quota{SnapshotBytes: 150 << 10}) })
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	d.output(t, from.ID, "head -c 100000 /dev/urandom > f")
	req := snapshots.Request{IdempotencyKey: "k"}
	first := d.save(t, as("alice"), string(from.ID), req)
	if again := d.save(t, as("alice"), string(from.ID), req); again.ID != first.ID {
		t.Error("the same request made another one")
	}
	req.IdempotencyKey = ""
	usage := func(want int64) {
		t.Helper()
		if got, most, err := d.Snapshots.Usage(t.Context(), as("alice")); err != nil || got != want || most != 150<<10 {
			t.Errorf("%d of %d bytes, want %d: %v", got, most, want, err)
		}
	}
	usage(first.Size)
	wantFull := func(err error) {
		t.Helper()
		wantCode(t, err, errdefs.InsufficientSpace)
		if text := errdefs.MessageOf(err); !strings.Contains(text, first.ID) || !strings.Contains(text, "snapshots.max_total_mb") {
			t.Errorf("it does not say what to delete: %s", text)
		}
	}
	_, err := d.Snapshots.Create(t.Context(), as("alice"), string(from.ID), req)
	wantFull(err)
	archive := d.download(t, first)
	_, err = d.upload("alice", archive)
	wantFull(err)
	usage(first.Size)
	h.wantArchives(t, 1)
	if _, err := d.upload("bob", archive); err != nil {
		t.Errorf("another key: %v", err)
	}
	if err := d.Snapshots.Delete(t.Context(), as("alice"), first.ID); err != nil {
		t.Fatal(err)
	}
	usage(0)
	if first, err = d.upload("alice", archive); err != nil {
		t.Fatal(err)
	}
	usage(first.Size)

	// Without anything left it is not begun.
	d.stop()
	d = h.start(t, h.withSnapshots(t), func(o *session.Options) { o.Quotas = quota(auth.Quota{SnapshotBytes: first.Size}) })
	req.Exclude, req.IdempotencyKey = []string{"f"}, "other"
	_, err = d.Snapshots.Create(t.Context(), as("alice"), string(from.ID), req)
	wantFull(err)
	if err := d.Snapshots.Delete(t.Context(), as("alice"), first.ID); err != nil {
		t.Fatal(err)
	}
	req.IdempotencyKey = "full"
	kept := d.save(t, as("alice"), string(from.ID), req)
	d.stop()
	d = h.start(t, h.withSnapshots(t), func(o *session.Options) { o.Quotas = quota(auth.Quota{SnapshotBytes: 1}) })
	if again := d.save(t, as("alice"), string(from.ID), req); again.ID != kept.ID {
		t.Error("the request that made one is refused for want of room")
	}
}

// A key makes one snapshot, however many ask at once.
func TestSnapshotIdempotency(t *testing.T) {
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t))
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	req := snapshots.Request{IdempotencyKey: "k"}
	ids := make([]string, 5)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			s, err := d.Snapshots.Create(context.Background(), as("alice"), string(from.ID), req)
			if err != nil {
				t.Error(err)
			}
			ids[i] = s.ID
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("%v", ids)
		}
	}
	h.wantArchives(t, 1)
	other := req
	other.Name = "other"
	_, err := d.Snapshots.Create(t.Context(), as("alice"), string(from.ID), other)
	wantCode(t, err, errdefs.Unprocessable)
	if err := d.Snapshots.Delete(t.Context(), as("alice"), ids[0]); err != nil {
		t.Fatal(err)
	}
	if again := d.save(t, as("alice"), string(from.ID), req); again.ID == ids[0] {
		t.Error("a snapshot that was removed came back")
	}
}

// The programs stand still while they are packed, and a paused session stays so.
func TestSnapshotOfMovingFiles(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t))
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	// Two files that are never more than one step apart.
	d.output(t, from.ID, "echo 0 > a; echo 0 > z; (i=0; while :; do i=$((i+1)); echo $i > a.n; mv a.n a; echo $i > z.n; mv z.n z; done) >/dev/null 2>&1 & disown")
	for range 5 {
		s := d.save(t, as("alice"), string(from.ID), snapshots.Request{Include: []string{"a", "z"}})
		to := d.createAs(t, as("alice"), session.CreateRequest{RestoreSnapshotID: s.ID})
		if out := d.output(t, to.ID, "echo $(( $(cat a) - $(cat z) ))"); out != "0\n" && out != "1\n" {
			t.Errorf("%q steps lie between the files", out)
		}
	}
	d.want(t, from.ID, session.Running)
	d.pause(t, from.ID)
	d.save(t, as("alice"), string(from.ID), snapshots.Request{})
	d.want(t, from.ID, session.Paused)
}

// A stopped session is saved as it is: none of its programs runs for that, and
// it is stopped again, with what it was stopped for.
func TestSnapshotOfAStoppedSession(t *testing.T) {
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t))
	from := d.createAs(t, as("alice"), session.CreateRequest{Env: map[string]string{"BASH_ENV": "hook"}})
	d.output(t, from.ID, "echo text > f; echo 'echo ran >> ran' > hook")
	stopped, err := d.Sessions.Stop(t.Context(), everyone, from.ID)
	if err != nil {
		t.Fatal(err)
	}
	made := d.save(t, as("alice"), string(from.ID), snapshots.Request{})
	if made.Manifest.Entries() != 2 || made.Manifest.Image != from.Image || made.Manifest.Cwd == "" {
		t.Errorf("%+v", made.Manifest)
	}
	if after := d.want(t, from.ID, session.Stopped); after.EndReason != stopped.EndReason || after.BootID != stopped.BootID {
		t.Errorf("it was %+v, and is %+v", stopped, after)
	}
	to := d.createAs(t, as("alice"), session.CreateRequest{RestoreSnapshotID: made.ID})
	if out := d.output(t, to.ID, "cat f"); out != "text\n" {
		t.Errorf("%q", out)
	}
	d.destroy(t, to.ID)
	if _, err := d.Sessions.Start(t.Context(), everyone, from.ID); err != nil {
		t.Fatal(err)
	}
	if out := d.output(t, from.ID, "cat f ran"); out != "text\nran\n" {
		t.Errorf("after its start: %q", out)
	}
	h.driver.WantSandboxes(t, from.Sandbox)
}

// What goes wrong with the files of a stopped session leaves it stopped, and to
// destroy it does not wait for them.
func TestSnapshotOfAStoppedSessionFails(t *testing.T) {
	h := newHost(t)
	broken := errdefs.New(errdefs.Unavailable, "for the test")
	reached, destroyed := make(chan struct{}), make(chan struct{})
	quiet := func(context.Context) error { return broken }
	d := h.start(t, h.withSnapshots(t), func(o *session.Options) {
		o.Driver = quietStarter{h.driver, func(ctx context.Context) error { return quiet(ctx) }}
	})
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	if _, err := d.Sessions.Stop(t.Context(), everyone, from.ID); err != nil {
		t.Fatal(err)
	}
	save := func() error {
		_, err := d.Snapshots.Create(t.Context(), as("alice"), string(from.ID), snapshots.Request{})
		return err
	}
	wantCode(t, save(), errdefs.Unavailable)
	d.want(t, from.ID, session.Stopped)
	h.wantArchives(t, 0)

	quiet = func(ctx context.Context) error {
		close(reached)
		<-ctx.Done()
		return ctx.Err()
	}
	go func() {
		defer close(destroyed)
		<-reached
		d.want(t, from.ID, session.Starting)
		if err := d.Sessions.Destroy(t.Context(), everyone, from.ID); err != nil {
			t.Error(err)
		}
	}()
	wantCode(t, save(), errdefs.Conflict)
	<-destroyed
	d.want(t, from.ID, session.Destroyed)
	h.driver.WantSandboxes(t)
	h.wantArchives(t, 0)
}

// quietStarter asks before it boots a sandbox quietly.
type quietStarter struct {
	*runtimetest.Local
	ask func(context.Context) error
}

func (q quietStarter) StartQuiet(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	if err := q.ask(ctx); err != nil {
		return nil, err
	}
	return q.Local.StartQuiet(ctx, id)
}

func TestSnapshotRetention(t *testing.T) {
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t), func(o *session.Options) { o.Snapshots.Retention = time.Nanosecond })
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	d.save(t, as("alice"), string(from.ID), snapshots.Request{})
	if n, err := d.Upkeep.PruneSnapshots(t.Context(), part); err != nil || n != 1 {
		t.Errorf("%d removed, %v", n, err)
	}
	h.wantArchives(t, 0)
}

// To destroy a session is no waiting for its snapshot, of which nothing is left.
func TestDestroyDuringSnapshot(t *testing.T) {
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t))
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	d.output(t, from.ID, "truncate -s 8G zeros")
	made := make(chan error, 1)
	go func() {
		_, err := d.Snapshots.Create(context.Background(), as("alice"), string(from.ID), snapshots.Request{})
		made <- err
	}()
	sandbox, err := h.driver.Open(t.Context(), from.Sandbox)
	if err != nil {
		t.Fatal(err)
	}
	for paused := false; !paused; time.Sleep(time.Millisecond) {
		if paused, err = sandbox.(runtime.Pauser).Paused(); err != nil {
			t.Fatal(err)
		}
	}
	d.destroy(t, from.ID)
	wantCode(t, <-made, errdefs.Conflict)
	d.want(t, from.ID, session.Destroyed)
	h.wantArchives(t, 0)
	h.driver.WantSandboxes(t)
}

// A snapshot that is deleted while a session is made of it is one that never was,
// and no damaged one.
func TestRestoreOfADeletedSnapshot(t *testing.T) {
	h := newHost(t)
	var d *daemon
	var id string
	d = h.start(t, h.withSnapshots(t), withCreator(func(ctx context.Context, box runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
		if id != "" {
			if err := d.Snapshots.Delete(ctx, as("alice"), id); err != nil {
				t.Error(err)
			}
		}
		return h.driver.Create(ctx, box, spec)
	}))
	from := d.createAs(t, as("alice"), session.CreateRequest{})
	id = d.save(t, as("alice"), string(from.ID), snapshots.Request{}).ID
	_, err := d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{RestoreSnapshotID: id})
	wantCode(t, err, errdefs.NotFound)
	h.driver.WantSandboxes(t, from.Sandbox)
}
