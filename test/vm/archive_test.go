package vm

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestArchiveUnpacksWithCPIO(t *testing.T) {
	cpio, err := exec.LookPath("cpio")
	if err != nil {
		cpio = ""
	}
	src := t.TempDir()
	writeFile(t, filepath.Join(src, "a"), "one", 0o755)
	writeFile(t, filepath.Join(src, "sub", "b"), "", 0o600)

	var archive bytes.Buffer
	w := newCPIOWriter(&archive)
	w.hostFile("/files", src)
	w.hostFile("init", filepath.Join(src, "a"))
	w.file("deep/er/name", 0o644, strings.NewReader("12345"), 5)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if archive.Len()%4 != 0 {
		t.Errorf("%d bytes, not a multiple of four", archive.Len())
	}
	want := []string{"files", "files/a", "files/sub", "files/sub/b", "init", "deep", "deep/er", "deep/er/name", "TRAILER!!!"}
	if got := archiveNames(t, archive.Bytes()); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("names %q, want %q", got, want)
	}
	if cpio == "" {
		return // the names have been read back; the kernel reads the rest in the machine's tests
	}
	dst := t.TempDir()
	cmd := exec.CommandContext(t.Context(), cpio, "--quiet", "-id")
	cmd.Dir, cmd.Stdin = dst, &archive
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cpio: %v\n%s", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(dst, "files", "a")); string(got) != "one" || err != nil {
		t.Errorf("files/a: %q, %v", got, err)
	}
}

func TestArchiveKeepsItsFirstError(t *testing.T) {
	w := newCPIOWriter(io.Discard)
	w.file("short", 0o644, strings.NewReader("1"), 2)
	w.file("fine", 0o644, strings.NewReader("1"), 1)
	if err := w.close(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file shorter than its size: %v", err)
	}
	w = newCPIOWriter(io.Discard)
	w.hostFile("x", "/no/such/file")
	if err := w.close(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
}

// archiveNames reads the names of a newc archive.
func archiveNames(t *testing.T, data []byte) []string {
	t.Helper()
	align := func(n int) int { return (n + 3) &^ 3 }
	var names []string
	for pos := 0; pos < len(data); {
		if string(data[pos:pos+6]) != "070701" {
			t.Fatalf("no header at %d", pos)
		}
		size, nameSize := hex8(t, data[pos+54:]), hex8(t, data[pos+94:])
		name := data[pos+110 : pos+110+nameSize-1]
		names = append(names, string(name))
		pos = align(align(pos+110+nameSize) + size)
	}
	return names
}

func hex8(t *testing.T, field []byte) int {
	t.Helper()
	n := 0
	for _, c := range string(field[:8]) {
		digit := strings.IndexRune("0123456789ABCDEF", c)
		if digit < 0 {
			t.Fatalf("%q is not hexadecimal", field[:8])
		}
		n = n<<4 | digit
	}
	return n
}

func writeFile(t *testing.T, file, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}
