package dialect

import (
	"math/rand/v2"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/spawn"
)

// bash is GNU bash 4.4 or newer. It reads its script byte by byte, so a line
// does no more than load the text file into an array and evaluate that: element 0
// is the command, never to be quoted, and element 1 what to do with it.
//
// A command can make every variable that it sees read-only. The others that we
// have are so already. When the array is spoiled, each line has one of its own, with
// a name that no command has seen.
//
// Every word of ours starts with \builtin: aliases do not apply to quoted
// words, functions not to what builtin runs. A function named builtin is the
// one thing that gets in between; the shell then stops reporting, which is
// noticed, and is replaced. None of our words is [[: behind one of a command's own
// that was left open, bash does not know the next [[ for what it is.
type bash struct{ path string }

func (b bash) Program() (string, []string) {
	// -s instead of a script file, for the name in front of error messages.
	return b.path, []string{"bash", "--norc", "--noprofile", "-s"}
}

// Steps makes the shell adopt what its commands orphan: daemons stay in its
// process tree, where a timeout finds them, and bash reaps unknown children.
func (bash) Steps() []spawn.Step {
	return []spawn.Step{spawn.Prctl("PR_SET_CHILD_SUBREAPER", unix.PR_SET_CHILD_SUBREAPER, 1)}
}

// FDs are the numbers at the start. Setup moves each to the one ten above it,
// numbers that no script uses, so that a script's own survive from one command
// to the next.
func (bash) FDs() FDs {
	return FDs{Null: 188, Source: 184, Text: 185, Stdin: 186, State: 187, Status: 189, Out: [OutPipes]int{181, 182, 183}}
}

func (bash) Adopts() bool { return true }

func (bash) Idles() bool { return true }

// moveFDs gives our descriptors the flag close-on-exec, so that no command has
// to close them. bash has no word for that, but the copies that it keeps of
// redirected descriptors have the flag, the first of them is number 10, and a
// copy of such a copy inherits it.
const moveFDs = `for __sk in 1 2 3 4 5 6 7 8 9; do eval "{ exec 19$__sk<&10; } 18$__sk<&-; exec 18$__sk<&-"; done; `

// runText is what a line does: it loads the text file into the array __sk and
// evaluates that. Where there is an __sk already, or no text file, it reports that
// it ran nothing. A command may have made one, or kept ours by making it read-only.
const (
	runText  = `\builtin eval "${__sk[*]+$__sk_none #}$__sk_load"`
	loadText = `\builtin mapfile -n 2 -td "" __sk </proc/self/fd/195||\builtin unset __sk;\builtin eval "${__sk[1]-$__sk_none}"`
	noneText = `\builtin printf "0 1 \0" >&199`
)

const evalText = `\builtin eval "$__sk_run"` + "\n\n"

// newName returns a name for an array that no command can know.
func newName() string { return "__sk" + strconv.FormatUint(1<<40|rand.Uint64N(1<<40), 36) }

// loadLine does the same with the array of that name.
func loadLine(name string) string {
	return `\builtin mapfile -n 2 -td "" ` + name + ` </proc/self/fd/195;\builtin eval "${` + name + `[1]-$__sk_none}"` + "\n\n"
}

// firstLine is 0, and has the line numbers of what is evaluated next begin at 1, as
// bash -c does, if LINENO is as it was: with an attribute, which makes digits here,
// it may be read-only, and to assign to it would end the line.
const firstLine = `(36#0${LINENO+${LINENO@a}}||(LINENO=1))*0`

// saveState writes what a later shell is to take over.
const saveState = `{ \builtin declare -px ${__sk+};\builtin printf '#.\n' ${__sk+};} >|/proc/self/fd/197`

// saveAtExit does the same when a command ends the shell by exit or set -e,
// with the directory, of which there is no report then. Under set -x that is traced,
// which is nothing that a command has written.
const saveAtExit = `{ \builtin declare -px;\builtin printf 'cd -- %q\n#exit.\n' "${DIRSTACK[0]}";} >|/proc/self/fd/197 2>&198`

// skipAll is a trap that makes bash pass over every command but ours, and leave
// every loop. It is set on a signal that nothing else uses, for when a command's
// time is up: the shell must not go on with the rest of a list whose first half was
// killed. To bash a skipped command has succeeded, so a loop around some would
// never end; break 0 is an error that ends all loops, and skips as well. A DEBUG
// trap of the user's own is lost then.
//
// The head of a for loop does not take notice of break 0: it would end the first
// loop after it instead, or everything if there is none. It is skipped without a
// break, which ends for ((;;)) and takes "for x in" to its next word. Each hundredth
// is not: "for x in" is let through and ends in its body, and ((...)), which may also
// be the command of an endless loop, breaks.
const skipAll = `\builtin shopt -s extdebug;\builtin trap "\builtin test \"\${BASH_COMMAND/__sk}\" != \"\$BASH_COMMAND\" || ` +
	`{ { \builtin test \"\${BASH_COMMAND#((}\${BASH_COMMAND#for }\" = \"\$BASH_COMMAND\$BASH_COMMAND\" || ` +
	`{ __sk_heads+=x; \builtin test \${#__sk_heads} = 100 && \builtin unset __sk_heads; }; } && ` +
	`{ \builtin test \"\${BASH_COMMAND#for }\" != \"\$BASH_COMMAND\" || { \builtin break 0 2>/dev/null && ! \builtin :; }; }; }" DEBUG`

func (bash) Skip() (unix.Signal, []byte) {
	return sigRTMax, []byte(`\builtin shopt -u extdebug ${__sk+};\builtin trap - DEBUG ${__sk+};\builtin unset __sk_heads` + "\n\n")
}

const sigRTMax = unix.Signal(64)

func (bash) Setup(seq uint64, restore []byte) (line, file []byte) {
	file = append(file, moveFDs...)
	file = append(file, `shopt -s expand_aliases; trap `...)
	file = append(Quote(file, []byte(skipAll)), ` SIGRTMAX; trap `...)
	file = append(Quote(file, []byte(saveAtExit)), ` EXIT; declare -r __sk_run=`...)
	file = append(Quote(file, []byte(runText)), ` __sk_load=`...)
	file = append(Quote(file, []byte(loadText)), ` __sk_none=`...)
	file = append(Quote(file, []byte(noneText)), '\n')
	file = append(file, restore...)
	file = append(file, "\n\\builtin unset __sk; \\builtin printf '"...)
	file = strconv.AppendUint(file, seq, 10)
	file = append(file, `- 0 \0' >&199`...)
	return []byte(`. /proc/self/fd/185` + "\n\n"), file
}

// command's redirections are made in order, so element 2 in the last of them is
// set only if all were possible and the command is really going to run; a
// limit on descriptors or set -r prevents it. The directory is that of the
// shell itself, because PWD is a variable like any other.
func (bash) Command(o Order) (line, file []byte) {
	name, run := "__sk", evalText
	if o.Spoiled {
		name = newName()
		run = loadLine(name)
	}
	file = make([]byte, 0, len(o.Text)+512)
	file = append(append(file, o.Text...), 0)
	if o.Tell {
		file = append(file, `\builtin printf '0- 0 \0' >&199;`...)
	}
	if o.Last != 0 {
		// Under set -e a failing command of ours would end the shell.
		file = append(file, `\builtin test "${-#*e}" != "$-" || \builtin . /proc/self/fd/0 <<<'return `...)
		file = strconv.AppendInt(file, int64(o.Last), 10)
		file = append(file, "';"...)
	}
	if protection.Off(protection.ShellQuoting) {
		file = append(append(append(file, "{ "...), o.Text...), "\n} <"...)
	} else {
		file = append(file, `\builtin eval "${`+name+`[`+firstLine+`]}" <`...)
	}
	switch {
	case protection.Off(protection.ShellStdin):
		file = append(file, "&0"...)
	case o.Stdin == FileStdin:
		file = append(file, "/proc/self/fd/196"...)
	case o.Stdin == OpenStdin:
		file = append(file, "/proc/self/fd/194"...)
	default:
		file = append(file, "&198"...)
	}
	file = append(file, " >|/proc/self/fd/19"...)
	file = strconv.AppendInt(file, int64(o.Out+1), 10)
	if protection.Off(protection.ShellStatus) {
		file = append(file, ` 2>&1 198>&${`+name+`[2]:=-};\builtin printf '`...)
	} else {
		file = append(file, ` 2>&1 199>&${`+name+`[2]:=-};\builtin printf '`...)
	}
	file = strconv.AppendUint(file, o.Seq, 10)
	file = append(file, `%s %d %s\0' "${`+name+`[2]-}" "$?" "${DIRSTACK[0]-}" >&199;\builtin unset `+name+`;`...)
	if o.Save {
		file = append(file, saveState...)
	}
	return []byte(run), append(file, 0)
}
