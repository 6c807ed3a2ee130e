package inspect

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/sys"
)

// Stat reads a process's start time and whether it is more than a zombie.
func Stat(pid int) (start string, running bool, err error) {
	var line [1024]byte // more than a name and 49 numbers take
	path := "/proc/" + strconv.Itoa(pid) + "/stat"
	fd, err := sys.Open(unix.AT_FDCWD, path, unix.O_RDONLY, 0)
	if err != nil {
		return "", false, err
	}
	defer sys.Close(fd)
	n, err := unix.Read(fd, line[:])
	if err != nil {
		return "", false, &os.PathError{Op: "read", Path: path, Err: err}
	}
	// The name in parentheses may hold anything: look behind its end.
	rest := line[:n]
	rest = rest[bytes.LastIndexByte(rest, ')')+1:]
	const stateField, startField = 0, 19 // fields 3 and 22 of proc_pid_stat(5)
	field := 0
	for text := range bytes.FieldsSeq(rest) {
		switch field {
		case stateField:
			running = text[0] != 'Z' && text[0] != 'X'
		case startField:
			return string(text), running, nil
		}
		field++
	}
	return "", false, fmt.Errorf("%s is malformed", path)
}
