package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func open(t *testing.T, dir string, maxBytes int64) *Log {
	t.Helper()
	l, err := Open(Options{Dir: dir, MaxBytes: maxBytes, MaxFiles: 3})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// written makes a log of n lines and returns its directory.
func written(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	l := open(t, dir, 1<<20)
	for i := range n {
		l.Append(t.Context(), Entry{Event: "answered", Owner: "alice", RequestID: fmt.Sprint(i), IDs: map[string]string{"id": "x"}})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func verify(t *testing.T, dir string) (Report, error) {
	t.Helper()
	files, err := Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	return Verify(files, nil)
}

func TestChainOverRestarts(t *testing.T) {
	dir := written(t, 3)
	l := open(t, dir, 1<<20)
	l.Append(t.Context(), Entry{Event: "answered"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := verify(t, dir)
	if err != nil || r.Lines != 4 || r.First != 1 || r.Last == "" {
		t.Errorf("%+v, %v", r, err)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, current): 0o600} {
		info, err := os.Stat(path)
		if err != nil || path != dir && info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// TestTampering changes a log in each way that is not cutting off its end.
func TestTampering(t *testing.T) {
	for name, change := range map[string]func([][]byte) [][]byte{
		"changed":  func(l [][]byte) [][]byte { l[1] = bytes.Replace(l[1], []byte("alice"), []byte("carol"), 1); return l },
		"removed":  func(l [][]byte) [][]byte { return append(l[:1:1], l[2:]...) },
		"first":    func(l [][]byte) [][]byte { return append([][]byte{l[1], l[0]}, l[2:]...) },
		"twice":    func(l [][]byte) [][]byte { return append(l[:2:2], l[1:]...) },
		"swapped":  func(l [][]byte) [][]byte { l[1], l[2] = l[2], l[1]; return l },
		"inserted": func(l [][]byte) [][]byte { return append(l[:1:1], append([][]byte{[]byte("{}\n")}, l[1:]...)...) },
		"cut":      func(l [][]byte) [][]byte { l[3] = l[3][:len(l[3])-20]; return l },
		"forged": func(l [][]byte) [][]byte {
			of, _, err := unseal(l[1])
			if err != nil {
				t.Fatal(err)
			}
			of.Owner = "carol"
			text, _, err := seal(of)
			if err != nil {
				t.Fatal(err)
			}
			l[1] = []byte(text)
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, 4)
			file := filepath.Join(dir, current)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
			lines[3] = append(lines[3], '\n')
			if err := os.WriteFile(file, bytes.Join(change(lines), nil), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = verify(t, dir)
			if _, ok := errors.AsType[*BrokenError](err); !ok {
				t.Errorf("verify says %v", err)
			}
		})
	}
}

// TestCutLine is what a crash of the host leaves: the next daemon says so and goes on.
func TestCutLine(t *testing.T) {
	dir := written(t, 3)
	file := filepath.Join(dir, current)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, info.Size()-30); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, 1<<20)
	l.Append(t.Context(), Entry{Event: "answered"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := verify(t, dir); err != nil || r.Cut != 1 || r.Lines != 4 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 2000)
	for i := range 100 {
		l.Append(t.Context(), Entry{Event: "answered", RequestID: strings.Repeat("x", 50), Status: i})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := Files(dir)
	if err != nil || len(files) != 3 {
		t.Fatalf("%q, %v", files, err)
	}
	r, err := Verify(files, nil)
	if err != nil || r.First+r.Lines-1 != 100 || r.First == 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Verify([]string{files[0], files[2]}, nil); err == nil {
		t.Error("a file in the middle may be gone")
	}
}

// A rotation that found no room for the new file is done by the next one.
func TestHalfARotation(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 2000)
	entry := Entry{Event: "answered", RequestID: strings.Repeat("x", 50)}
	l.Append(t.Context(), entry)
	if err := os.Rename(filepath.Join(dir, current), filepath.Join(dir, "audit-000000000000001.log")); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		l.Append(t.Context(), entry)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(files, nil); err != nil || r.First+r.Lines-1 != 11 || filepath.Base(files[len(files)-1]) != current {
		t.Errorf("%q: %+v, %v", files, r, err)
	}
}

func TestConcurrentAppends(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 5000)
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for range 50 {
				l.Append(t.Context(), Entry{Event: "answered"})
			}
		})
	}
	g.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := verify(t, dir); err != nil || r.First+r.Lines-1 != 400 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFull writes to a disk that takes nothing: requests go on.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 1<<20)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	whole := l.file
	l.file = full
	begin := time.Now()
	l.Append(t.Context(), Entry{Event: "answered"})
	if took := time.Since(begin); took > 10*patience {
		t.Errorf("a full disk holds a request up for %v", took)
	}
	l.file = whole
	if err := full.Close(); err != nil {
		t.Fatal(err)
	}
	l.Append(t.Context(), Entry{Event: "answered"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := verify(t, dir); err != nil || r.Lines != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if l.seq != 1 {
		t.Errorf("%d lines are counted", l.seq)
	}
}

func TestFollow(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, 600) // three lines or so
	l.Append(t.Context(), Entry{Event: "answered"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan int64, 100)
	ran := make(chan error, 1)
	go func() {
		ran <- Follow(ctx, dir, 1, func(line Line) error {
			seen <- line.Seq
			return nil
		})
	}()
	for want := int64(2); want <= 12; want++ {
		l.Append(t.Context(), Entry{Event: "answered"})
		select {
		case got := <-seen:
			if got != want {
				t.Fatalf("line %d follows, not %d", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("line %d does not come", want)
		}
	}
	cancel()
	if err := errors.Join(<-ran, l.Close()); err != nil {
		t.Error(err)
	}
}

// What a page has read in vain the next one does not count again, or it would come no
// further.
func TestPagesThatFindNothing(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(Options{Dir: dir, MaxBytes: 2000, MaxFiles: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer func(most int64) { maxScan = most }(maxScan)
	maxScan = 2000 // two files reach it
	l.Append(t.Context(), Entry{Event: "answered", Owner: "rare"})
	for range 100 {
		l.Append(t.Context(), Entry{Event: "answered", Owner: "alice"})
	}
	q := Query{Owner: "rare", Limit: 10}
	for range 100 {
		page, err := l.Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Records) > 0 {
			return
		}
		if q.Before = page.Next; page.Next == 0 {
			break
		}
	}
	t.Errorf("the oldest entry is not found; the last page began before %d", q.Before)
}

// Pages go on where the one before ended, over all files, and miss nothing.
func TestQuery(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(Options{Dir: dir, MaxBytes: 2000, MaxFiles: 50}) // some lines in each file
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 50 {
		e := Entry{Event: "answered", Owner: "alice", Route: "POST /v1/sessions", Status: 201, IDs: map[string]string{"session": strconv.Itoa(i)}}
		if i%5 == 0 {
			e.Owner, e.Status = "bob", 403
		}
		l.Append(t.Context(), e)
	}
	all := func(q Query) (seqs []int64) {
		t.Helper()
		for range 100 {
			page, err := l.Query(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Records) > q.Limit {
				t.Errorf("%d of at most %d", len(page.Records), q.Limit)
			}
			for _, r := range page.Records {
				seqs = append(seqs, r.Seq)
			}
			if q.Before = page.Next; page.Next == 0 {
				return seqs
			}
		}
		t.Fatal("it does not end")
		return nil
	}
	if files, err := Files(dir); err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	want := all(Query{Limit: 1000})
	if len(want) < 40 || !slices.IsSortedFunc(want, func(a, b int64) int { return int(b - a) }) {
		t.Errorf("%v", want)
	}
	for _, limit := range []int{1, 3, 7} {
		if got := all(Query{Limit: limit}); !slices.Equal(got, want) {
			t.Errorf("%d at a time: %v, want %v", limit, got, want)
		}
	}
	for _, q := range []Query{{Owner: "bob", Limit: 2}, {Failed: true, Limit: 3}} {
		if got := all(q); len(got) < 8 || len(got) > 10 {
			t.Errorf("%+v: %v", q, got)
		}
	}
	if got := all(Query{ID: "49", Limit: 5}); len(got) != 1 || got[0] != want[0] {
		t.Errorf("of a session: %v", got)
	}
	// In the path, and among those that a fork has made.
	l.Append(t.Context(), Entry{Event: "answered", Owner: "alice", Route: "POST /v1/sessions/{id}/fork", Status: 201, IDs: map[string]string{"id": "parent", "session": "one two"}})
	for _, id := range []string{"parent", "one", "two"} {
		if got := all(Query{ID: id, Limit: 5}); len(got) != 1 {
			t.Errorf("of %s: %v", id, got)
		}
	}
	if got := all(Query{ID: "on", Limit: 5}); len(got) != 0 {
		t.Errorf("of a part of an id: %v", got)
	}
	if got := all(Query{Until: time.Now().Add(-time.Hour), Limit: 5}); len(got) != 0 {
		t.Errorf("of before: %v", got)
	}
	if got := all(Query{Since: time.Now().Add(-time.Hour), Route: "POST /v1/sessions", Limit: 5}); !slices.Equal(got, want) {
		t.Errorf("of the last hour: %v", got)
	}
}

// A page costs what is on it, wherever in the log it is.
func TestQueryReadsWhatItNeeds(t *testing.T) {
	file := filepath.Join(t.TempDir(), current)
	var text bytes.Buffer
	const lines = 100_000
	for i := 1; i <= lines; i++ {
		fmt.Fprintf(&text, `{"seq":%d,"time":"2026-11-28T10:00:00Z","event":"answered","owner":"alice","route":"POST /v1/sessions/{id}/exec"}`+"\n", i)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, before := range []int64{0, lines, lines / 2, 1000, 50, 2, 1} {
		q := Query{Before: before, Limit: 100, Owner: "alice"}
		s := scan{query: q, needles: q.needles(), below: before == 0}
		if _, err := s.read(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		first := before - 1
		if before == 0 {
			first = lines
		}
		want := int(min(first, 100))
		if len(s.page.Records) != want || want > 0 && s.page.Records[0].Seq != first || s.scanned > 64<<10 {
			t.Errorf("before %d: %d records, %d bytes were read", before, len(s.page.Records), s.scanned)
		}
	}
}
