package runner

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/spawn"
)

// dialect is how one kind of shell is started and spoken to.
//
// The shell reads its script, an endless one, from descriptor 0. Each command
// is one line of it: evaluate the quoted command with its own input and output
// and without our descriptors, then report on the status pipe. The
// command never meets the shell's parser outside of quotes, so nothing in it
// can swallow the report; there is no loop and no function around it, so
// break, return and declare mean what they mean at the top level.
type dialect interface {
	// program returns what to execute.
	program() (path string, args []string)

	// steps are run in the process before the program starts.
	steps() []spawn.Step

	// fds returns the numbers of the shell's own descriptors.
	fds() shellFDs

	// command returns the line that runs o and then reports its seq, the exit
	// code and the working directory, and what the text file must hold for it.
	command(o order) (line, file []byte)

	// skip returns the signal that makes the shell skip what is left of the
	// command it is at, and the line that ends this state after the report.
	// The signal is 0 if the shell cannot do that.
	skip() (sig unix.Signal, end []byte)

	// recall returns the line that reports seq and then the exported
	// variables, as a script that sets them; nil if the shell cannot.
	recall(seq uint64) []byte

	// setup returns the line that makes a fresh shell ready, reads the text
	// file as a script if restore is set, and reports seq.
	setup(restore fileUse, seq uint64) []byte

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
	stdin int // the descriptor to read from
	out   int // the number of the output pipe
	last  int // the exit code of the command before, shown as $?
}

// fileUse says whether the text file is used.
type fileUse bool

const (
	noFile   fileUse = false
	textFile fileUse = true
)

// shellFDs are descriptor numbers in a shell.
type shellFDs struct {
	null   int // read for stdin
	text   int // the text file
	stdin  int // the file with a command's stdin
	status int // the status pipe
	out    [outPipes]int
}

// outPipes is how many output pipes a shell has. While background jobs keep
// one open, the next command gets another, so that outputs are not mixed.
const outPipes = 3

// findDialect picks the best shell of this root filesystem.
func findDialect() dialect {
	for _, path := range []string{"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"} {
		if unix.Access(path, unix.X_OK) == nil {
			return bash{path}
		}
	}
	return posix{}
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

// bash is GNU bash 4.4 or newer. It reads its script byte by byte, so the line
// only loads the text file: the command into __sk[0], never to be quoted, and
// what to do with it into __sk[1].
//
// Every word of ours starts with \builtin: aliases do not apply to quoted
// words, functions not to what builtin runs. A function named builtin is the
// one thing that gets in between; the shell then stops reporting, which is
// noticed, and is replaced.
type bash struct{ path string }

func (b bash) program() (string, []string) {
	// -s instead of a script file, for the name in front of error messages.
	return b.path, []string{"bash", "--norc", "--noprofile", "-s"}
}

// steps makes the shell adopt what its commands orphan: daemons stay in its
// process tree, where a timeout finds them, and bash reaps unknown children.
func (bash) steps() []spawn.Step {
	return []spawn.Step{spawn.Prctl("PR_SET_CHILD_SUBREAPER", unix.PR_SET_CHILD_SUBREAPER, 1)}
}

// fds are numbers that no script uses, so that a script's own survive from
// one command to the next.
func (bash) fds() shellFDs {
	return shellFDs{null: 194, text: 195, stdin: 196, status: 199, out: [outPipes]int{191, 192, 193}}
}

func (bash) adopts() bool { return true }

func (bash) idles() bool { return true }

// own closes our descriptors in a command. Redirections are made in order, so
// __sk[2] in the last of them is set only if all were possible and the command
// is really going to run; a limit on descriptors or set -r prevents it.
const own = " 191<&- 192<&- 193<&- 194<&- 195<&- 196<&- 199>&${__sk[2]:=-}"

const loadText = `\builtin mapfile -td '' __sk </proc/self/fd/195;\builtin eval "${__sk[1]}"` + "\n\n"

func (bash) command(o order) (line, file []byte) {
	file = make([]byte, 0, len(o.text)+384)
	file = append(append(file, o.text...), 0)
	if o.last != 0 {
		// Under set -e a failing command of ours would end the shell.
		file = append(file, `[[ $- == *e* ]] || \builtin . /proc/self/fd/0 <<<'return `...)
		file = strconv.AppendInt(file, int64(o.last), 10)
		file = append(file, "';"...)
	}
	file = append(file, `\builtin eval "${__sk[0]}" </proc/self/fd/`...)
	file = strconv.AppendInt(file, int64(o.stdin), 10)
	file = append(file, " >|/proc/self/fd/"...)
	file = strconv.AppendInt(file, int64(o.out), 10)
	file = append(file, " 2>&1"+own+`;\builtin printf '`...)
	file = strconv.AppendUint(file, o.seq, 10)
	// pwd is asked, because PWD is a variable like any other.
	return []byte(loadText), append(file, `%s %d ' "${__sk[2]-}" "$?" >&199;\builtin pwd >&199 ${__sk+};\builtin printf '\0' >&199 ${__sk+};\builtin unset __sk`...)
}

func (bash) recall(seq uint64) []byte {
	s := strconv.FormatUint(seq, 10)
	return []byte(`\builtin printf '` + s + `- 0 ' >&199;\builtin declare -px >&199;\builtin printf '\0' >&199` + "\n\n")
}

// skipAll is a trap that makes bash pass over every command but ours. It is
// set on a signal that nothing else uses, for when a command's time is up: the
// shell must not go on with the rest of a list whose first half was killed. A
// DEBUG trap of the user's own is lost then.
const skipAll = `\builtin trap '\builtin shopt -s extdebug;\builtin trap "[[ \$BASH_COMMAND == *__sk* ]]" DEBUG' SIGRTMAX;`

func (bash) skip() (unix.Signal, []byte) {
	return sigRTMax, []byte(`\builtin shopt -u extdebug ${__sk+};\builtin trap - DEBUG ${__sk+}` + "\n\n")
}

const sigRTMax = unix.Signal(64)

func (bash) setup(restore fileUse, seq uint64) []byte {
	line := `\builtin shopt -s expand_aliases;` + skipAll
	if restore == textFile {
		line += `\builtin . /proc/self/fd/195;`
	}
	return []byte(line + `\builtin printf '` + strconv.FormatUint(seq, 10) + `- 0 \0' >&199` + "\n\n")
}

// posix is any other /bin/sh, for images without bash. It differs: a syntax
// error, a failing redirection of a special builtin or an assignment to a
// readonly variable ends the shell, which is then replaced; orphans of a
// command go to PID 1 and are found by their age only; a shell that stops
// reporting is noticed by the timeout only; descriptors 3 to 9 of a script do
// not last beyond its command; exported variables are not restored.
type posix struct{}

func (posix) program() (string, []string) { return "/bin/sh", []string{"sh", "-s"} }

func (posix) steps() []spawn.Step { return nil }

// fds have one digit: POSIX promises no more.
func (posix) fds() shellFDs {
	return shellFDs{null: 4, text: 5, stdin: 3, status: 9, out: [outPipes]int{6, 7, 8}}
}

func (posix) adopts() bool { return false }

func (posix) idles() bool { return false }

func (posix) command(o order) (line, file []byte) {
	line = make([]byte, 0, 512)
	if o.last != 0 {
		line = append(line, `case $- in *e*) ;; *) (exit `...)
		line = strconv.AppendInt(line, int64(o.last), 10)
		line = append(line, `);; esac;`...)
	}
	if len(o.text) > inlineText {
		file = o.text
		line = append(line, `command . /proc/self/fd/5`...)
	} else {
		line = append(line, `command eval `...)
		line = quote(line, o.text)
	}
	line = append(line, " </proc/self/fd/"...)
	line = strconv.AppendInt(line, int64(o.stdin), 10)
	line = append(line, " >|/proc/self/fd/"...)
	line = strconv.AppendInt(line, int64(o.out), 10)
	line = append(line, ` 2>&1 3<&- 4<&- 6<&- 7<&- 8<&- 9>&-`...)
	if file == nil {
		line = append(line, ` 5<&-`...) // else it is opened after this
	}
	line = append(line, `;command printf '`...)
	line = strconv.AppendUint(line, o.seq, 10)
	return append(line, `- %d ' "$?" >&9;command pwd >&9;command printf '\0' >&9`+"\n\n"...), file
}

// inlineText is the longest command that is certain to fit into a script pipe.
const inlineText = 4 << 10

func (posix) skip() (unix.Signal, []byte) { return 0, nil }

func (posix) recall(uint64) []byte { return nil }

func (posix) setup(restore fileUse, seq uint64) []byte {
	line := ""
	if restore == textFile {
		line = `command . /proc/self/fd/5;`
	}
	return []byte(line + `command printf '` + strconv.FormatUint(seq, 10) + `- 0 \0' >&9` + "\n\n")
}

// restoreScript takes a fresh shell to where the one before it was. It runs
// with the shell's own output, which goes nowhere.
func restoreScript(cwd string, variables []byte) []byte {
	var b strings.Builder
	b.Write(variables)
	if cwd != "" {
		b.WriteString("\ncd -- ")
		b.Write(quote(nil, []byte(cwd)))
		b.WriteString("\n")
	}
	return []byte(b.String())
}
