// Package dialect knows how each kind of shell is started and spoken to: the
// text that makes it run a command and report. It starts nothing and does no
// input or output; package shellproc does.
package dialect

import (
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/spawn"
)

// Dialect is how one kind of shell is started and spoken to.
//
// The shell reads its script, an endless one, from descriptor 0. Each command
// is one line of it: evaluate the quoted command with its own input and output
// and without our status pipe, then report on that. The command never meets
// the shell's parser outside of quotes, so nothing in it can swallow the
// report; there is no loop and no function around it, so break, return and
// declare mean what they mean at the top level.
type Dialect interface {
	// Program returns what to execute.
	Program() (path string, args []string)

	// Steps are run in the process before the program starts.
	Steps() []spawn.Step

	// FDs returns the numbers that the shell is started with. Its own 1 and 2
	// are a pipe, for what it writes without the redirections of a command.
	FDs() FDs

	// Setup returns the line that makes a fresh shell ready, runs restore and
	// reports seq, and what the text file must hold for it.
	Setup(seq uint64, restore []byte) (line, file []byte)

	// Command returns the line that runs o and then reports its seq, the exit
	// code and the working directory, and what the text file must hold for it.
	// If that ends with a zero byte, it does not matter what comes after it.
	Command(o Order) (line, file []byte)

	// Skip returns the signal that makes the shell skip what is left of the
	// command it is at, and the line that ends this state after the report.
	// The signal is 0 if the shell cannot do that.
	Skip() (sig unix.Signal, end []byte)

	// Adopts reports whether orphans of commands become the shell's children.
	Adopts() bool

	// Idles reports whether the shell takes its script byte by byte, so that
	// an empty script pipe proves it to be waiting for more.
	Idles() bool
}

// Order is one command for a shell.
type Order struct {
	Seq     uint64
	Text    []byte
	Stdin   Stdin
	Out     int  // index of the output pipe
	Last    int  // the exit code of the command before, shown as $?
	Save    bool // write the state file after the report
	Spoiled bool // it ran nothing, perhaps for a variable that a command has made: do without that
	Tell    bool // report 0 and that it ran, before the command; for a shell that idles
}

// Stdin is what a command reads.
type Stdin int

// The kinds of stdin.
const (
	NoStdin   Stdin = iota // nothing
	FileStdin              // the stdin file
	OpenStdin              // the stdin pipe, while it has a writer
)

// FDs are descriptor numbers in a shell.
type FDs struct {
	Null   int // /dev/null
	Text   int // the text file
	Stdin  int // the file with a command's stdin
	Source int // the pipe that is a command's stdin if that stays open
	State  int // the file that keeps what a later shell needs; see package shellproc
	Status int // the status pipe
	Out    [OutPipes]int
}

// OutPipes is how many output pipes a shell has. While background jobs keep
// one open, the next command gets another, so that outputs are not mixed.
const OutPipes = 3

// How a complete state file ends, which is a script: the shell may have died
// while it wrote one. The second was written on the way out and has the
// directory, too.
const (
	StateEnd = "#.\n"
	ExitEnd  = "#exit.\n"
)

// Find picks the best shell of this root filesystem.
func Find() Dialect {
	for _, path := range []string{"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"} {
		if unix.Access(path, unix.X_OK) == nil {
			return bash{path}
		}
	}
	return Posix("/bin/sh")
}

// Quote makes one word of text for any shell.
func Quote(dst, text []byte) []byte {
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
