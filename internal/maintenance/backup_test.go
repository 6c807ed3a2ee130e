package maintenance

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/installation"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func testConfig(t *testing.T) config.Config {
	t.Helper()
	c := config.Default(drivers.Names())
	c.DataDir = filepath.Join(testenv.DataDir(t), "data")
	c.DBPath = filepath.Join(c.DataDir, "sandkasten.db")
	c.Snapshots.Dir = filepath.Join(c.DataDir, "snapshots")
	return c
}

// filled is the configuration of a daemon that has one session and its secrets.
func filled(t *testing.T) config.Config {
	t.Helper()
	cfg := testConfig(t)
	cfg.Snapshots.KeyFile = filepath.Join(t.TempDir(), "key")
	if err := os.Mkdir(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range secrets(cfg) {
		write(t, path, "secret of "+filepath.Base(path))
	}
	addSession(t, cfg, "first")
	return cfg
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func addSession(t *testing.T, cfg config.Config, id string) {
	t.Helper()
	rows, err := store.Open(t.Context(), cfg.DBPath)
	if err != nil {
		t.Fatal(err)
	}
	s := session.Session{ID: session.ID(id), State: session.Stopped, CreatedAt: time.Now(), LastActivity: time.Now()}
	if err := errors.Join(rows.Put(t.Context(), s), rows.Close()); err != nil {
		t.Fatal(err)
	}
}

func sessionIDs(t *testing.T, cfg config.Config) string {
	t.Helper()
	rows, err := readRows(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range rows.Sessions {
		ids = append(ids, string(s.ID))
	}
	return strings.Join(ids, " ")
}

func TestBackupComesBack(t *testing.T) {
	cfg := filled(t)
	file := filepath.Join(t.TempDir(), "backup.tar")
	if err := Backup(t.Context(), cfg, "", file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	addSession(t, cfg, "second")
	write(t, installation.PlaceFile(cfg.NodeFile()), `{"inode": 1}`) // another file's, as node will be
	write(t, cfg.KeyFile(), "another")
	write(t, cfg.SecretsKeyFile(), "another")
	write(t, cfg.Snapshots.KeyFile, "another")
	done, err := Restore(t.Context(), cfg, file)
	if err != nil {
		t.Fatal(err)
	}
	if got := sessionIDs(t, cfg); got != "first" {
		t.Errorf("sessions %q", got)
	}
	if _, err := os.Stat(installation.PlaceFile(cfg.NodeFile())); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is restored counts as a copy: %v", err)
	}
	if len(done.Aside) < 4 || len(done.Skipped) != 1 || done.Manifest.DataDir != cfg.DataDir {
		t.Errorf("%+v", done)
	}
	for path, want := range map[string]string{cfg.KeyFile(): "secret of api_key", cfg.SecretsKeyFile(): "secret of secrets_key", cfg.Snapshots.KeyFile: "another"} {
		if text, err := os.ReadFile(path); string(text) != want || err != nil {
			t.Errorf("%s has %q, %v", path, text, err)
		}
	}
	// What was there before is kept.
	before := cfg
	for _, path := range done.Aside {
		if strings.HasPrefix(path, cfg.DBPath+".before-") {
			before.DBPath = path
		}
	}
	if got := sessionIDs(t, before); got != "first second" {
		t.Errorf("kept are %q", got)
	}
	if left, err := filepath.Glob(filepath.Join(cfg.DataDir, ".*")); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

// The key of stored secrets is restored where it is configured, on another file
// system too, and stays if it is the same.
func TestBackupHasTheKeyOfSecrets(t *testing.T) {
	cfg := filled(t)
	other, err := os.MkdirTemp("/dev/shm", "sandkasten-test-")
	if err != nil {
		testenv.Unsupported(t, "%v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(other); err != nil {
			t.Error(err)
		}
	})
	cfg.Network.SecretsKeyFile = filepath.Join(other, "key")
	write(t, cfg.SecretsKeyFile(), "the key")
	file := filepath.Join(t.TempDir(), "backup.tar")
	if err := Backup(t.Context(), cfg, "", file); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		now   string // "" is none
		aside bool
	}{{"the key", false}, {"another", true}, {"", false}} {
		if err := os.Remove(cfg.SecretsKeyFile()); err != nil {
			t.Fatal(err)
		}
		if tt.now != "" {
			write(t, cfg.SecretsKeyFile(), tt.now)
		}
		done, err := Restore(t.Context(), cfg, file)
		if err != nil {
			t.Fatal(err)
		}
		aside := slices.ContainsFunc(done.Aside, func(path string) bool { return strings.HasPrefix(path, cfg.SecretsKeyFile()) })
		if text, err := os.ReadFile(cfg.SecretsKeyFile()); string(text) != "the key" || err != nil || aside != tt.aside {
			t.Errorf("over %q: %q, %v, set aside: %v", tt.now, text, err, aside)
		}
	}
}

// What is no backup changes nothing, and so does one that comes while a daemon
// works.
func TestRestoreRefuses(t *testing.T) {
	cfg := filled(t)
	dir := t.TempDir()
	archive := func(name string, files ...string) string {
		t.Helper()
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out := tar.NewWriter(f)
		for i := 0; i < len(files); i += 2 {
			err = errors.Join(err, addBytes(out, files[i], []byte(files[i+1])))
		}
		if err := errors.Join(err, out.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		return f.Name()
	}
	write(t, filepath.Join(dir, "text"), "text")
	for path, want := range map[string]string{
		filepath.Join(dir, "text"):                        "no backup",
		filepath.Join(dir, "none"):                        "no such file",
		archive("empty"):                                  "no database",
		archive("other", "x", "y"):                        `begins with "x"`,
		archive("future", backupManifest, `{"format":2}`): "this version knows 1",
		archive("nodb", backupManifest, `{"format":1}`):   "no database",
		archive("bad", backupManifest, `{"format":1}`, backupDB, strings.Repeat("nonsense", 1000)): "cannot be used",
	} {
		if _, err := Restore(t.Context(), cfg, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", path, err, want)
		}
	}
	if got := sessionIDs(t, cfg); got != "first" {
		t.Errorf("sessions %q", got)
	}
	lock, err := dirlock.Acquire(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"restore": func() error { _, err := Restore(t.Context(), cfg, dir); return err },
		"recover": func() error { _, err := Recover(t.Context(), cfg, "admin"); return err },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "works on") {
			t.Errorf("%s beside a daemon: %v", name, err)
		}
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

// A file that claims more than a backup can have is refused before any of it is written: by
// its length, and by holes, which would be written as zeros.
func TestRestoreRefusesHugeFiles(t *testing.T) {
	dir := t.TempDir()
	manifest := func(out *tar.Writer) error { return addBytes(out, backupManifest, []byte(`{"format":1}`)) }
	for name, tt := range map[string]struct {
		add  func(out *tar.Writer) error
		rest string // behind what the library writes
		want string
	}{
		"over the bound": {func(out *tar.Writer) error {
			return out.WriteHeader(&tar.Header{Name: backupDB, Mode: 0o600, Size: maxBackupFile + 1})
		}, strings.Repeat("x", 1<<20), "has 8589934593 bytes, more than"},
		"a hole of 8 GiB": {func(*tar.Writer) error { return nil }, sparse(t, backupDB, maxBackupFile), "has 8589934592 bytes, more than"},
	} {
		var text bytes.Buffer
		out := tar.NewWriter(&text)
		if err := errors.Join(manifest(out), out.Flush(), tt.add(out)); err != nil {
			t.Fatal(err)
		}
		path, into := filepath.Join(dir, name), t.TempDir()
		write(t, path, text.String()+tt.rest)
		if _, err := unpackBackup(path, into); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(into); err != nil || len(left) > 0 {
			t.Errorf("%s: it has written %v, %v", name, left, err)
		}
	}
}

// sparse is a file of GNU tar's that is one hole of that size.
func sparse(t *testing.T, name string, size int64) string {
	t.Helper()
	var text bytes.Buffer
	out := tar.NewWriter(&text)
	err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Format: tar.FormatGNU, Typeflag: tar.TypeReg})
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	block := text.Bytes()[:512]
	number := func(at int, n int64) {
		copy(block[at:], binary.BigEndian.AppendUint64([]byte{0x80, 0, 0, 0}, uint64(n)))
	}
	block[156] = 'S'
	number(386, size) // the first entry of the map of what is there: nothing, at the end
	number(398, 0)
	number(483, size)
	copy(block[148:], "        ")
	sum := 0
	for _, b := range block {
		sum += int(b)
	}
	copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
	return string(block) + strings.Repeat("\x00", 1024)
}

func TestBackupWithoutADatabase(t *testing.T) {
	cfg := testConfig(t)
	dir := t.TempDir()
	if err := Backup(t.Context(), cfg, "", filepath.Join(dir, "b")); err == nil {
		t.Error("made of nothing")
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}
