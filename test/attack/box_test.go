package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// box is one case: a session of the first owner, in which it attacks.
type box struct {
	*watched
	t       *testing.T
	session *sandkasten.Session
	probe   string // path of the uploaded probe inside; see needProbe
}

// want is what a session of a case has otherwise than the configuration says.
type want func(*sandkasten.CreateOptions)

// attack begins a case. Its sessions end with the test, and then the guard is
// asked what else did.
func attack(t *testing.T, wants ...want) *box {
	t.Helper()
	b := &box{watched: watch(t), t: t}
	b.session = b.create(wants...)
	return b
}

// create makes another session of the first owner, for as long as the case.
func (b *box) create(wants ...want) *sandkasten.Session {
	b.t.Helper()
	s, err := b.tryCreate(wants...)
	if err != nil {
		b.t.Fatalf("create a session: %v", err)
	}
	return s
}

func (b *box) tryCreate(wants ...want) (*sandkasten.Session, error) {
	var o sandkasten.CreateOptions
	for _, change := range wants {
		change(&o)
	}
	s, err := b.a.CreateSession(b.t.Context(), &o)
	if err == nil {
		b.made(s.ID)
		b.t.Cleanup(func() { destroy(b.t, s) })
	}
	return s, err
}

// patience is the time of a command that is not about time.
var patience = paced(30 * time.Second)

// x runs a command in the session's shell and returns what it printed. That it
// fails is the attack's affair.
func (b *box) x(command string) string {
	b.t.Helper()
	return b.exec(command, sandkasten.ExecOptions{}).Output
}

func (b *box) exec(command string, o sandkasten.ExecOptions) sandkasten.ExecResult {
	b.t.Helper()
	r, err := b.tryExec(command, o)
	if err != nil {
		b.t.Fatalf("exec %.200q: %v", command, err)
	}
	return r
}

// tryExec gives the answer no longer than the command has, and some.
func (b *box) tryExec(command string, o sandkasten.ExecOptions) (sandkasten.ExecResult, error) {
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), o.Timeout+20*time.Second)
	defer cancel()
	return b.session.Exec(ctx, command, &o)
}

// none runs a script that prints a line for each thing that it achieved, all
// of which should have been refused.
func (b *box) none(script string) {
	b.t.Helper()
	b.noneOf(b.x(script + "\necho TRIED"))
}

// noneOf is none with what a script printed, up to its last line.
func (b *box) noneOf(out string) {
	b.t.Helper()
	achieved, tried := strings.CutSuffix(out, "TRIED\n")
	if !tried {
		b.t.Fatalf("the attack did not come to its end: %q", out)
	}
	for line := range strings.Lines(achieved) {
		b.t.Errorf("achieved: %s", strings.TrimSpace(line))
	}
}

// next is what must hold after whatever was done to the shell: the next
// command of the session is run as ever, at once.
func (b *box) next() {
	b.t.Helper()
	var r sandkasten.ExecResult
	var err error
	took := paced(time.Hour)
	for try := 0; try < 2 && took > paced(2*time.Second); try++ { // a host may stand still once
		start := time.Now()
		r, err = b.tryExec("echo NEXT", sandkasten.ExecOptions{})
		if took = time.Since(start); err != nil || r.Output != "NEXT\n" {
			break
		}
	}
	if err != nil || r.Output != "NEXT\n" || r.ExitCode != 0 || took > paced(2*time.Second) {
		b.t.Errorf("the next command: %s with %d, %.200q, %v, after %s", r.Cause, r.ExitCode, r.Output, err, took.Round(time.Millisecond))
	}
}

// upload puts a program into the session and returns its path there.
func (b *box) upload(s *sandkasten.Session, name string, content []byte) string {
	b.t.Helper()
	path := "/workspace/" + name
	if err := s.Write(b.t.Context(), path, bytes.NewReader(content), &sandkasten.WriteOptions{Mode: 0o755}); err != nil {
		b.t.Fatalf("upload %s: %v", name, err)
	}
	return path
}

// needProbe uploads the program that makes system calls, as $PROBE.
func (b *box) needProbe() {
	b.t.Helper()
	if b.probe != "" {
		return
	}
	program, err := os.ReadFile(testenv.Build(b.t, "./internal/runtime/linux/testdata/probe"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.probe = b.upload(b.session, "probe", program)
	b.x("export PROBE=" + b.probe)
}

// call is a system call for the probe to make. An argument is an int or a
// string, whose address is passed.
type call struct {
	Name string `json:"name"`
	Nr   int
	Args []any
}

// denials are the errors of a protection that stood in the way. Any other, and
// success, came from the code that it should have kept the call from.
var denials = []string{"EPERM", "EACCES", "ENOSYS"}

// denied has the probe make system calls, all of which must be refused.
func (b *box) denied(list ...call) {
	b.t.Helper()
	b.deniedTo("$PROBE calls", list...)
}

// deniedTo is denied for a command that reads the list.
func (b *box) deniedTo(command string, list ...call) {
	b.t.Helper()
	answers := b.answers(command, list)
	for _, c := range list {
		if !slices.Contains(denials, answers[c.Name]) {
			b.t.Errorf("%s: the kernel answers %q", c.Name, answers[c.Name])
		}
	}
}

// answers is what each of the calls returned.
func (b *box) answers(command string, list []call) map[string]string {
	b.t.Helper()
	in, err := json.Marshal(list)
	if err != nil {
		b.t.Fatal(err)
	}
	answers := map[string]string{}
	b.decode(command, string(in), &answers)
	if len(answers) != len(list) {
		b.t.Fatalf("%d answers to %d calls", len(answers), len(list))
	}
	return answers
}

// decode runs a command of the probe's, whose output is JSON.
func (b *box) decode(command, stdin string, into any) {
	b.t.Helper()
	b.needProbe()
	r := b.exec(command, sandkasten.ExecOptions{Stdin: stdin})
	if err := json.Unmarshal([]byte(r.Output), into); err != nil {
		b.t.Fatalf("%s: %v: %.1000q", command, err, r.Output)
	}
}

// answer is what the API says to one request.
type answer struct {
	Status int
	Header http.Header
	Body   string
}

// api makes a request that no SDK would. A large one that the daemon hung up on
// has no status. The path is sent as it is. Headers
// are pairs; an Authorization among them takes the place of the key's.
func (b *box) api(key, method, path, body string, headers ...string) answer {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, b.daemon.URL, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.URL.Opaque = path
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if large := len(body)+len(strings.Join(headers, "")) >= 1<<20; large && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		return answer{} // the daemon did not read on, and the answer came too late for the client
	}
	if err != nil {
		b.t.Fatalf("%s %.200s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		b.t.Fatalf("%s %.200s: %v", method, path, err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}
