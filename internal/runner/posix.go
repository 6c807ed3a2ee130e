package runner

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/spawn"
)

// posix is any other /bin/sh, for images without bash. docs/shells.md tells
// how it differs.
type posix struct{ path string }

func (p posix) program() (string, []string) { return p.path, []string{"sh", "-s"} }

func (posix) steps() []spawn.Step { return nil }

// fds have one digit: POSIX promises no more.
func (posix) fds() shellFDs {
	return shellFDs{stdin: 3, state: 4, text: 5, status: 9, out: [outPipes]int{6, 7, 8}}
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
	if o.stdin {
		line = append(line, " </proc/self/fd/3"...)
	} else {
		line = append(line, " <&1"...)
	}
	line = append(line, " >|/proc/self/fd/"...)
	line = strconv.AppendInt(line, int64(o.out+6), 10)
	line = append(line, ` 2>&1 3<&- 4<&- 6<&- 7<&- 8<&- 9>&-`...)
	if file == nil {
		line = append(line, ` 5<&-`...) // else it is opened after this
	}
	line = append(line, `;command printf '`...)
	line = strconv.AppendUint(line, o.seq, 10)
	line = append(line, `= %d ' "$?" >&9;command pwd >&9;command printf '\0' >&9;`...)
	if o.save {
		line = append(line, `{ command export -p;command printf '#.\n';} >|/proc/self/fd/4;`...)
	}
	return append(line, "\n\n"...), file
}

// inlineText is the longest command that is certain to fit into a script pipe.
const inlineText = 4 << 10

func (posix) skip() (unix.Signal, []byte) { return 0, nil }

func (posix) setup(seq uint64, restore []byte) (line, file []byte) {
	s := strconv.FormatUint(seq, 10)
	return []byte(`command . /proc/self/fd/5;command printf '` + s + `- 0 \0' >&9` + "\n\n"), append(restore, '\n')
}
