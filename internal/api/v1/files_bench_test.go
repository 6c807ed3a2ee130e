package v1_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// benchBytes is the size of the file that the benchmarks of files move.
const benchBytes = 256 << 20

// BenchmarkFileUp streams a local file into a session.
func BenchmarkFileUp(b *testing.B) {
	s := start(b, quiet)
	path := s.create(b)
	local := filepath.Join(b.TempDir(), "f")
	f, err := os.Create(local)
	if err == nil {
		_, err = io.CopyN(f, &pattern{}, benchBytes)
	}
	if err := firstOf(err, f.Close()); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(benchBytes)
	for b.Loop() {
		f, err := os.Open(local)
		if err != nil {
			b.Fatal(err)
		}
		response := s.open(b, "PUT", path+"/fs/raw?path=f", f, length(benchBytes))
		if response.StatusCode != 200 {
			b.Fatal(response.Status)
		}
		response.Body.Close()
	}
}

// BenchmarkFileDown streams a file of a session into a local one.
func BenchmarkFileDown(b *testing.B) {
	s := start(b, quiet)
	path := s.create(b)
	response := s.open(b, "PUT", path+"/fs/raw?path=f", io.LimitReader(&pattern{}, benchBytes), length(benchBytes))
	if err := response.Body.Close(); err != nil || response.StatusCode != 200 {
		b.Fatal(response.Status, err)
	}
	local := filepath.Join(b.TempDir(), "f")
	buf := make([]byte, 256<<10)
	b.SetBytes(benchBytes)
	for b.Loop() {
		response := s.open(b, "GET", path+"/fs/read?raw=1&path=f", nil)
		if err := os.Remove(local); err != nil && !os.IsNotExist(err) {
			b.Fatal(err)
		}
		f, err := os.Create(local)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{response.Body}, buf)
		if err := firstOf(err, response.Body.Close(), f.Close()); err != nil || n != benchBytes {
			b.Fatal(n, err)
		}
	}
}
