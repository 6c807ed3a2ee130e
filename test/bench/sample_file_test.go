package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

func TestFileIsAsLongAsAskedAndHasNoHoles(t *testing.T) {
	dir := t.TempDir()
	const size = 3<<20 + 1
	source, err := sampleFile(dir, size)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	got, err := io.ReadAll(io.NewSectionReader(source, 0, size+1))
	if err != nil || len(got) != size || strings.Contains(string(got), "\x00") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the file has a name: %v, %v", left, err)
	}
}

func TestShell(t *testing.T) {
	if err := runShell(t.Context(), "true | true"); err != nil {
		t.Error(err)
	}
	if err := runShell(t.Context(), "(echo why; false) | cat"); err == nil || !strings.Contains(err.Error(), "why") {
		t.Errorf("a failure in a pipe: %v", err)
	}
}
