package blackbox

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// output is a pipe for what a program prints. os/exec would wait without end for a
// process that has inherited it; this one tells who that is.
type output struct {
	r, w *os.File
	done chan struct{} // closed when every writer is gone
}

// newOutput copies what is written to the pipe into to.
func newOutput(to io.Writer) (*output, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o := &output{r: r, w: w, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		_, _ = io.Copy(to, r) // until end, or until await closes it
	}()
	return o, nil
}

// started lets go of the end that the program has now, or that nobody got.
func (o *output) started() { _ = o.w.Close() }

// await returns when all is copied, which it is once no process has the pipe, or
// after patience with an error that names those that have.
func (o *output) await(patience time.Duration) error {
	defer func() { _ = o.r.Close() }()
	select {
	case <-o.done:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the program has ended, and its standard error is still open in %s", o.holders())
	}
}

// holders are the other processes that have the pipe. It reads all of /proc, which
// is for failures only.
func (o *output) holders() string {
	info, err := o.r.Stat() // its Fd would make the copying uninterruptible
	if err != nil {
		return err.Error()
	}
	pipe := fmt.Sprintf("pipe:[%d]", info.Sys().(*syscall.Stat_t).Ino)
	own := fmt.Sprintf("/proc/%d/", os.Getpid())
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	found := map[string]bool{}
	var said []string
	for _, file := range files {
		target, err := os.Readlink(file)
		process := filepath.Dir(filepath.Dir(file))
		if err != nil || target != pipe || strings.HasPrefix(file, own) || found[process] {
			continue
		}
		found[process] = true
		line := filepath.Base(process)
		for _, name := range []string{"cmdline", "wchan", "stack"} {
			text, _ := os.ReadFile(filepath.Join(process, name)) // it may end just now
			line += " " + strings.TrimSpace(string(bytes.ReplaceAll(text, []byte{0}, []byte(" "))))
		}
		said = append(said, line)
	}
	return strings.Join(append(said, fmt.Sprintf("%d processes", len(said))), "\n")
}

// log collects what a program writes while others read it.
type log struct {
	mu   sync.Mutex
	data bytes.Buffer // guarded by mu
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.Write(p)
}

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}

func (l *log) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.Len()
}
