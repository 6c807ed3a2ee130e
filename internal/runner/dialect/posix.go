package dialect

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/spawn"
)

// posix is any other /bin/sh, for images without bash. docs/shells.md tells
// how it differs.
type posix struct{ path string }

// Posix is the shell at path as one that is not bash.
func Posix(path string) Dialect { return posix{path} }

func (p posix) Program() (string, []string) { return p.path, []string{"sh", "-s"} }

func (posix) Steps() []spawn.Step { return nil }

// FDs have one digit: POSIX promises no more. There is none left for the pipe,
// which is opened by path alone, or for /dev/null. A command inherits them, and can do
// nothing with them that it cannot do with its stdin.
func (posix) FDs() FDs {
	return FDs{Source: 10, Null: 11, Stdin: 3, State: 4, Text: 5, Status: 9, Out: [OutPipes]int{6, 7, 8}}
}

func (posix) Adopts() bool { return false }

func (posix) Idles() bool { return false }

func (posix) Command(o Order) (line, file []byte) {
	line = make([]byte, 0, 512)
	if o.Last != 0 {
		line = append(line, `case $- in *e*) ;; *) (exit `...)
		line = strconv.AppendInt(line, int64(o.Last), 10)
		line = append(line, `);; esac;`...)
	}
	if len(o.Text) > inlineText {
		file = o.Text
		line = append(line, `command . /proc/self/fd/5`...)
	} else {
		line = append(line, `command eval `...)
		line = Quote(line, o.Text)
	}
	switch o.Stdin {
	case FileStdin:
		line = append(line, " </proc/self/fd/3"...)
	case OpenStdin:
		line = append(line, " </proc/self/fd/10"...)
	default:
		line = append(line, " </proc/self/fd/11"...)
	}
	line = append(line, " >|/proc/self/fd/"...)
	line = strconv.AppendInt(line, int64(o.Out+6), 10)
	line = append(line, ` 2>&1 3<&- 4<&- 6<&- 7<&- 8<&- 9>&-`...)
	if file == nil {
		line = append(line, ` 5<&-`...) // else it is opened after this
	}
	line = append(line, `;command printf '`...)
	line = strconv.AppendUint(line, o.Seq, 10)
	line = append(line, `= %d ' "$?" >&9;command pwd >&9;command printf '\0' >&9;`...)
	if o.Save {
		line = append(line, `{ command export -p;command printf '#.\n';} >|/proc/self/fd/4;`...)
	}
	return append(line, "\n\n"...), file
}

// inlineText is the longest command that is certain to fit into a script pipe.
const inlineText = 4 << 10

func (posix) Skip() (unix.Signal, []byte) { return 0, nil }

func (posix) Setup(seq uint64, restore []byte) (line, file []byte) {
	s := strconv.FormatUint(seq, 10)
	return []byte(`command . /proc/self/fd/5;command printf '` + s + `- 0 \0' >&9` + "\n\n"), append(restore, '\n')
}
