package ops_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// Whoever waits for a command learns that its sandbox is gone, whether it has
// printed or not, however the sandbox went and whatever the client waits with.
func TestSandboxGoneUnderWhoeverWaits(t *testing.T) {
	const rounds = 5
	program := func(text string) []string { return []string{"sh", "-c", text} }
	for name, c := range map[string]struct {
		command string
		printed int64
	}{"silent": {"sleep 600", 0}, "printed": {"printf four; sleep 600", 4}} {
		for how, wait := range map[string]waiting{
			"exec": func(ctx context.Context, d *daemon, id session.ID, _ string, out io.Writer) (protocol.Record, error) {
				return d.Execs.Run(ctx, everyone, string(id), ops.ExecRequest{Command: c.command}, out)
			},
			"process": func(ctx context.Context, d *daemon, id session.ID, _ string, out io.Writer) (protocol.Record, error) {
				return d.Execs.RunProcess(ctx, everyone, string(id), ops.ProcessRequest{Args: program(c.command)}, out)
			},
			"attach": func(ctx context.Context, d *daemon, id session.ID, execID string, out io.Writer) (protocol.Record, error) {
				return d.Execs.Attach(ctx, everyone, string(id), execID, 0, out)
			},
			"wait": func(ctx context.Context, d *daemon, id session.ID, execID string, _ io.Writer) (protocol.Record, error) {
				return d.Execs.Wait(ctx, everyone, string(id), execID, time.Minute)
			},
			"poll": func(ctx context.Context, d *daemon, id session.ID, execID string, out io.Writer) (protocol.Record, error) {
				r, _, err := d.Execs.Read(ctx, everyone, string(id), execID, ops.ReadRequest{Offset: c.printed, Wait: time.Minute}, out)
				return r, err
			},
		} {
			for end, stop := range map[string]func(*daemon, session.ID) error{
				"destroyed": func(d *daemon, id session.ID) error { return d.Sessions.Destroy(t.Context(), everyone, id) },
				"stopped":   func(d *daemon, id session.ID) error { _, err := d.Sessions.Stop(t.Context(), everyone, id); return err },
			} {
				t.Run(name+"/"+how+"/"+end, func(t *testing.T) {
					t.Parallel()
					d := newHost(t).start(t)
					for range rounds {
						r, err := goneUnder(t, d, c.command, c.printed, how, wait, stop)
						for tries := 0; errdefs.Is(err, errdefs.Conflict) && tries < 3; tries++ { // it came too late to wait
							r, err = goneUnder(t, d, c.command, c.printed, how, wait, stop)
						}
						if err != nil || r.Cause != protocol.CauseSandboxGone || r.State != protocol.StateEnded || r.ExitCode == 0 || r.ID == "" {
							t.Fatalf("%+v, %v", r, err)
						}
						if r.OutputBytes != c.printed || r.DurationUS <= 0 {
							t.Errorf("%d bytes of output in %d us, want %d in some", r.OutputBytes, r.DurationUS, c.printed)
						}
					}
				})
			}
		}
	}
}

// waiting waits for the end of a command.
type waiting func(ctx context.Context, d *daemon, id session.ID, execID string, out io.Writer) (protocol.Record, error)

func goneUnder(t *testing.T, d *daemon, command string, printed int64, how string, wait waiting, stop func(*daemon, session.ID) error) (protocol.Record, error) {
	t.Helper()
	s := d.create(t, session.CreateRequest{})
	execID := ""
	waitUntilPrinted := func() {
		testenv.Eventually(t, "the command has printed", func() bool { return printedSo(d, s.ID, printed) })
	}
	if how != "exec" && how != "process" {
		r, err := d.Execs.StartProcess(t.Context(), everyone, string(s.ID), ops.ProcessRequest{Args: []string{"sh", "-c", command}})
		if err != nil {
			t.Fatal(err)
		}
		execID = r.ID
		waitUntilPrinted()
	}
	type answer struct {
		record protocol.Record
		err    error
	}
	shown := testenv.NewSignaler("four")
	answers := make(chan answer, 1)
	go func() {
		r, err := wait(t.Context(), d, s.ID, execID, shown)
		answers <- answer{r, err}
	}()
	waitUntilPrinted()
	if printed > 0 && how != "wait" && how != "poll" { // which show nothing of before
		<-shown.Seen
	}
	time.Sleep(50 * time.Millisecond) // for who waits to be there; what is too late is refused
	if err := stop(d, s.ID); err != nil {
		t.Fatal(err)
	}
	a := <-answers
	return a.record, a.err
}

func printedSo(d *daemon, id session.ID, printed int64) bool {
	all, err := d.Execs.List(context.Background(), everyone, string(id))
	return err == nil && len(all) == 1 && all[0].OutputBytes == printed && all[0].State == protocol.StateRunning
}
