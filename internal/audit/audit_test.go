package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	if took := time.Since(begin); took > patience {
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
