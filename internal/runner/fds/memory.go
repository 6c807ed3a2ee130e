package fds

import (
	"os"

	"golang.org/x/sys/unix"
)

// Memory is a memory file that holds one text after another.
type Memory struct {
	FD   int
	size int // more than what was written last may be in it
}

// roomy is how much memory a file may keep for the next text.
const roomy = 16 << 10

// Put makes text the beginning of the file, which saves giving the memory back
// and taking it again.
func (f *Memory) Put(text []byte) error {
	if f.size > roomy {
		return f.Fill(text)
	}
	f.size = max(f.size, len(text))
	return f.write(text)
}

// Fill makes text the whole content of the file.
func (f *Memory) Fill(text []byte) error {
	if err := unix.Ftruncate(f.FD, 0); err != nil {
		return os.NewSyscallError("ftruncate", err)
	}
	f.size = len(text)
	return f.write(text)
}

func (f *Memory) write(text []byte) error {
	for at := int64(0); len(text) > 0; {
		n, err := unix.Pwrite(f.FD, text, at)
		if err != nil {
			return os.NewSyscallError("pwrite", err)
		}
		text, at = text[n:], at+int64(n)
	}
	return nil
}
