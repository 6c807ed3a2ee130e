package runner

import (
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/spawn"
)

// dialect is how one kind of shell is started and spoken to.
//
// The shell reads its script, an endless one, from descriptor 0. Each command
// is one line of it: evaluate the quoted command with its own input and output
// and without our status pipe, then report on that. The command never meets
// the shell's parser outside of quotes, so nothing in it can swallow the
// report; there is no loop and no function around it, so break, return and
// declare mean what they mean at the top level.
type dialect interface {
	// program returns what to execute.
	program() (path string, args []string)

	// steps are run in the process before the program starts.
	steps() []spawn.Step

	// fds returns the numbers that the shell is started with. Its own 1 and 2
	// go to /dev/null, from which 1 can be read as well.
	fds() shellFDs

	// setup returns the line that makes a fresh shell ready, runs restore and
	// reports seq, and what the text file must hold for it.
	setup(seq uint64, restore []byte) (line, file []byte)

	// command returns the line that runs o and then reports its seq, the exit
	// code and the working directory, and what the text file must hold for it.
	// If that ends with a zero byte, it does not matter what comes after it.
	command(o order) (line, file []byte)

	// skip returns the signal that makes the shell skip what is left of the
	// command it is at, and the line that ends this state after the report.
	// The signal is 0 if the shell cannot do that.
	skip() (sig unix.Signal, end []byte)

	// adopts reports whether orphans of commands become the shell's children.
	adopts() bool

	// idles reports whether the shell takes its script byte by byte, so that
	// an empty script pipe proves it to be waiting for more.
	idles() bool
}

// order is one command for a shell.
type order struct {
	seq   uint64
	text  []byte
	stdin bool // the stdin file is to be read, instead of nothing
	out   int  // index of the output pipe
	last  int  // the exit code of the command before, shown as $?
	save  bool // write the state file after the report
}

// shellFDs are descriptor numbers in a shell.
type shellFDs struct {
	text   int // the text file
	stdin  int // the file with a command's stdin
	state  int // the file that keeps what a later shell needs; see shellProc.state
	status int // the status pipe
	out    [outPipes]int
}

// outPipes is how many output pipes a shell has. While background jobs keep
// one open, the next command gets another, so that outputs are not mixed.
const outPipes = 3

// How a complete state file ends, which is a script: the shell may have died
// while it wrote one. The second was written on the way out and has the
// directory, too.
const (
	stateEnd = "#.\n"
	exitEnd  = "#exit.\n"
)

// findDialect picks the best shell of this root filesystem.
func findDialect() dialect {
	for _, path := range []string{"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"} {
		if unix.Access(path, unix.X_OK) == nil {
			return bash{path}
		}
	}
	return posix{"/bin/sh"}
}

// quote makes one word of text for any shell.
func quote(dst, text []byte) []byte {
	dst = append(dst, '\'')
	for _, c := range text {
		if c == '\'' {
			dst = append(dst, `'\''`...)
			continue
		}
		dst = append(dst, c)
	}
	return append(dst, '\'')
}
