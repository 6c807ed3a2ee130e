// Command liar is a runner that somebody has taken over: in a session with LIE
// in its environment it answers the daemon with that lie, and in others it is
// an ordinary runner.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/internal/runner/fileops"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
)

func main() {
	if os.Args[0] == fileops.ToolName {
		os.Exit(fileops.RunTool(os.Args))
	}
	if err := run(); err != nil {
		if err := stage.Fail(err); err != nil {
			os.Exit(3)
		}
		os.Exit(1)
	}
}

func run() error {
	if err := errors.Join(stage.Warm(), runner.Warm()); err != nil {
		return err
	}
	in, err := stage.Enter()
	if err != nil {
		return err
	}
	for _, variable := range in.Env {
		if name, ok := strings.CutPrefix(variable, "LIE="); ok {
			return errors.Join(stage.Ready(), serve(in.Listener, lies()[name]))
		}
	}
	self, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	r, err := runner.New(runner.Options{
		Listener: in.Listener, Workspace: in.Workspace, Env: in.Env, Clone: in.Clone,
		Changes: in.Changes, OOMKills: in.OOMKills, Init: true, Tool: self,
		Group: func() (runner.Group, error) { return in.Parts.Part() },
	})
	if err != nil {
		return err
	}
	if err := stage.Ready(); err != nil {
		return err
	}
	return r.Serve()
}

// request is a frame of the daemon's, as far as a liar cares.
type request struct {
	Type string
	Body struct{ ID string }
}

// lies are what a connection is answered with, once it has asked something.
func lies() map[string]func(w io.Writer, r request) {
	repeat := func(text string) func(io.Writer, request) {
		return func(w io.Writer, _ request) {
			for {
				if _, err := io.WriteString(w, text); err != nil {
					return
				}
			}
		}
	}
	once := func(text string) func(io.Writer, request) {
		return func(w io.Writer, r request) { fmt.Fprintln(w, strings.ReplaceAll(text, "ID", r.Body.ID)) }
	}
	return map[string]func(io.Writer, request){
		"long-line":      repeat(strings.Repeat("x", 1<<16)),
		"silence":        func(io.Writer, request) { time.Sleep(time.Hour) },
		"many-frames":    repeat(strings.Repeat(`{"type":"output","body":{"offset":0},"bytes":1}`+"\nx", 1000)),
		"wrong-frames":   repeat(strings.Repeat(`{"type":"pong","body":{"version":2}}`+"\n", 1000)),
		"half-frames":    drip,
		"wrong-id":       once(`{"type":"done","body":{"id":"another","state":"ended","cause":"exited","exit_code":0}}`),
		"negative-code":  once(`{"type":"done","body":{"id":"ID","state":"ended","cause":"exited","exit_code":-5}}`),
		"huge-code":      once(`{"type":"done","body":{"id":"ID","state":"ended","cause":"exited","exit_code":1e300}}`),
		"no-number":      once(`{"type":"done","body":{"id":"ID","state":"ended","cause":"exited","exit_code":NaN}}`),
		"deep":           once(`{"type":"done","body":` + strings.Repeat(`{"a":`, 100000)),
		"not-utf8":       once("{\"type\":\"done\",\"body\":{\"id\":\"ID\",\"cwd\":\"\xff\xfe\",\"state\":\"\xff\"}}"),
		"claims":         once(`{"type":"done","body":{"id":"ID","state":"ended","cause":"exited","exit_code":0,"output_bytes":1000000000000,"dropped_bytes":-1}}`),
		"huge-payload":   once(`{"type":"output","body":{"offset":0},"bytes":9000000000000000000}`),
		"negative-bytes": once(`{"type":"output","body":{"offset":-1},"bytes":-1}`),
		"endless-file": func(w io.Writer, _ request) {
			fmt.Fprintln(w, `{"type":"file","body":{"path":"../../etc/passwd","name":"/etc/shadow","type":"file","size":10000000000,"mode":420},"bytes":10000000000}`)
			repeat(strings.Repeat("x", 1<<16))(w, request{})
		},
	}
}

// drip sends the beginning of a frame, a byte at a time.
func drip(w io.Writer, _ request) {
	for _, c := range `{"type":"done","body":{"id":"` + strings.Repeat("x", 3600) {
		if _, err := io.WriteString(w, string(c)); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

func serve(listener int, lie func(io.Writer, request)) error {
	for {
		fd, _, err := unix.Accept(listener)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		go func() {
			conn := os.NewFile(uintptr(fd), "daemon")
			defer conn.Close()
			line, err := bufio.NewReader(conn).ReadBytes('\n')
			if err != nil {
				return
			}
			var r request
			if json.Unmarshal(line, &r) == nil {
				lie(conn, r)
			}
		}()
	}
}
