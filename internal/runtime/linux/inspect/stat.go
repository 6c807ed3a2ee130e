package inspect

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// State is a process's state as proc_pid_stat(5) has it. The zero State is of a
// process that is not there.
type State byte

// Running reports whether the process is more than a zombie.
func (s State) Running() bool { return s != 0 && s != 'Z' && s != 'X' }

// Halted reports whether a signal has stopped the process.
func (s State) Halted() bool { return s == 'T' }

// exiting is PF_EXITING of linux/sched.h, in the flags of proc_pid_stat(5).
const exiting = 0x4

// Stat reads a process's start time and state. A process that the kernel is taking
// apart counts as dead ('X') from the beginning: its descriptors are closed before
// it is a zombie, and the first of a PID namespace waits for all the others between.
func Stat(pid int) (start string, state State, err error) {
	var line [1024]byte // more than a name and 49 numbers take
	path := "/proc/" + strconv.Itoa(pid) + "/stat"
	fd, err := sys.Open(unix.AT_FDCWD, path, unix.O_RDONLY, 0)
	if err != nil {
		return "", 0, err
	}
	defer sys.Close(fd)
	n, err := unix.Read(fd, line[:])
	if err != nil {
		return "", 0, &os.PathError{Op: "read", Path: path, Err: err}
	}
	// The name in parentheses may hold anything: look behind its end.
	rest := line[:n]
	rest = rest[bytes.LastIndexByte(rest, ')')+1:]
	const stateField, flagsField, startField = 0, 6, 19 // fields 3, 9 and 22 of proc_pid_stat(5)
	field := 0
	for text := range bytes.FieldsSeq(rest) {
		switch field {
		case stateField:
			state = State(text[0])
		case flagsField:
			flags, err := strconv.ParseUint(string(text), 10, 64)
			if err != nil {
				return "", 0, fmt.Errorf("%s is malformed: %w", path, err)
			}
			if flags&exiting != 0 && state.Running() {
				state = 'X'
			}
		case startField:
			return string(text), state, nil
		}
		field++
	}
	return "", 0, fmt.Errorf("%s is malformed", path)
}
