//go:build linux

// Command init is the first process of a test machine: it turns a kernel and
// two disks into an ordinary host, runs the jobs of the harness's plan and
// switches the machine off. Package vm starts it; it is of no use elsewhere.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/test/vm/guest"
	"golang.org/x/sys/unix"
)

func main() {
	port, err := openPort()
	if err == nil {
		events := &eventWriter{out: json.NewEncoder(port)}
		if err = serve(port, events); err != nil {
			err = events.send(guest.Event{Fault: err.Error()})
		}
		// The harness closes its end once it has read the last event. Off
		// before that could lose what is still in the port's queue.
		port.Close()
	}
	if err != nil {
		fmt.Println("init:", err)
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("init: power off:", err)
	}
}

// serve makes the host and runs the plan that comes through the port.
func serve(port io.Reader, events *eventWriter) error {
	in := json.NewDecoder(port)
	var plan guest.Plan
	if err := in.Decode(&plan); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	if err := becomeHost(); err != nil {
		return err
	}
	stdin := &inputRouter{}
	go stdin.run(in)
	for i, job := range plan.Jobs {
		end, err := runJob(job, stdin, func(p []byte) error {
			return events.send(guest.Event{Job: i, Output: p})
		})
		if err != nil {
			return fmt.Errorf("job %d: %w", i, err)
		}
		if err := events.send(guest.Event{Job: i, End: &end}); err != nil {
			return err
		}
	}
	return nil
}

type eventWriter struct {
	mu  sync.Mutex
	out *json.Encoder // guarded by mu
}

func (w *eventWriter) send(ev guest.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(ev)
}

// inputRouter gives the harness's input to the job that is running. Input
// that comes while none is running is lost.
type inputRouter struct {
	mu    sync.Mutex
	to    *os.File // guarded by mu; nil when no job is running
	ended bool     // guarded by mu; the harness has no more input
}

func (r *inputRouter) run(in *json.Decoder) {
	for {
		var input guest.Input
		if in.Decode(&input) != nil {
			input.EOF = true
		}
		r.deliver(input)
		if input.EOF {
			return
		}
	}
}

func (r *inputRouter) deliver(input guest.Input) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = input.EOF
	if r.to == nil {
		return
	}
	// A job that does not read must not stop the next one's input.
	err := r.to.SetWriteDeadline(time.Now().Add(time.Second))
	if err == nil {
		_, err = r.to.Write(input.Data)
	}
	if err != nil || input.EOF {
		r.to.Close()
		r.to = nil
	}
}

// attach makes to the destination of input until the next attach; nil for
// none.
func (r *inputRouter) attach(to *os.File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to != nil {
		r.to.Close()
	}
	r.to = to
	if to != nil && r.ended {
		to.Close()
		r.to = nil
	}
}
