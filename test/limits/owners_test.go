package limits

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

var update = flag.Bool("update", false, "write the table of docs/limits.md anew")

const limitsPage = "../../docs/limits.md"

// TestBoundsAreDocumented: the page has the table, and each key of it is one.
func TestBoundsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(limitsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table", limitsPage)
	}
	want := before + tableBegin + table() + tableEnd + after
	if *update {
		if err := os.WriteFile(limitsPage, []byte(want), 0o644); err != nil { //nolint:gosec // for everybody to read
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("the table of %s is not that of Bounds: run this test with -update", limitsPage)
	}
	settings, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if promise := fmt.Sprintf("99 of 100 take at most %d times as long as\nalone, or %d ms where that is more", slower, atLeast.Milliseconds()); !strings.Contains(string(page), promise) {
		t.Errorf("%s does not promise what TestTwoOwners asks for: %q", limitsPage, promise)
	}
	for _, b := range Bounds {
		for _, key := range b.Keys {
			if !strings.Contains(string(settings), "| `"+key+"` |") {
				t.Errorf("%s: there is no key %s", b.What, key)
			}
		}
		if takers[b.What] == nil {
			t.Errorf("nobody takes all of %q", b.What)
		}
	}
	if len(takers) != len(Bounds) {
		t.Errorf("%d takers for %d bounds", len(takers), len(Bounds))
	}
}

// keyColumns are the columns of the page's tables that name settings.
var keyColumns = []string{"key", "counts in", "bounded by"}

// TestKeysOfLimitsExist: what the page calls a setting is one of the configuration, of the
// environment, or a field of a request.
func TestKeysOfLimitsExist(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page, settings, schema := read(limitsPage), read("../../docs/configuration.md"), read("../../internal/api/v1/openapi.json")
	elsewhere := []string{"GOGC", "GOMEMLIMIT", "RLIMIT_MSGQUEUE", "memory.kmem.tcp", "net.core.rmem_max", "rate_limit", "api_keys"}
	known := func(key string) bool {
		group, all := strings.CutSuffix(key, ".*")
		return all && strings.Contains(settings, "| `"+group+".") || strings.Contains(settings, "| `"+key+"` |") ||
			strings.Contains(settings, "."+key+"` |") || strings.Contains(schema, `"`+key+`":`) || slices.Contains(elsewhere, key)
	}
	checked := 0
	var column []int
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			column = nil
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if column == nil { // the head of a table
			column = []int{-1}
			for i, cell := range cells {
				if slices.Contains(keyColumns, strings.TrimSpace(cell)) {
					column = append(column, i)
				}
			}
			continue
		}
		for _, i := range column {
			if i < 0 || i >= len(cells) {
				continue
			}
			for j, key := range strings.Split(cells[i], "`") {
				if j%2 == 0 {
					continue
				}
				if checked++; !known(key) {
					t.Errorf("%s is no setting: %s", key, strings.TrimSpace(cells[0]))
				}
			}
		}
	}
	if checked < 80 {
		t.Errorf("the page names %d settings only", checked)
	}
}

// greedy is an owner who takes all that it can get.
type greedy struct {
	*testing.T
	ctx     context.Context // ends when the other owner has been looked at
	daemon  *blackbox.Daemon
	key     string
	client  *sandkasten.Client
	session *sandkasten.Session
	wg      *sync.WaitGroup
}

// again does something in n goroutines over and over. How it ends is nobody's concern: it
// may be refused.
func (g greedy) again(n int, do func(i int)) {
	for i := range n {
		g.wg.Go(func() {
			for g.ctx.Err() == nil {
				do(i)
			}
		})
	}
}

// untilRefused is again for what is refused as too much, and returns when that has happened.
// None is said where it does not.
func (g greedy) untilRefused(n int, none string, do func(i int) (refused bool)) {
	refused := make(chan struct{}, 1)
	g.again(n, func(i int) {
		if !do(i) {
			return
		}
		select {
		case refused <- struct{}{}:
		default:
		}
		pause(g.ctx, 200*time.Millisecond)
	})
	select {
	case <-refused:
	case <-time.After(30 * time.Second):
		g.Error(none)
	}
}

// runs has a command go on in the session until the end.
func (g greedy) runs(command string) {
	g.again(1, func(int) {
		_, _ = g.session.Exec(g.ctx, command, &sandkasten.ExecOptions{Timeout: 5 * time.Minute})
	})
}

// until waits for something to be so, which shows that it is being taken.
func (g greedy) until(what string, done func() bool) {
	g.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); pause(g.ctx, 20*time.Millisecond) {
		if time.Now().After(deadline) {
			g.Fatalf("in vain: %s", what)
		}
	}
}

// used waits for what the session uses to be so.
func (g greedy) used(what string, enough func(sandkasten.Stats) bool) {
	g.Helper()
	g.until(what, func() bool {
		st, err := g.session.Stats(g.ctx)
		return err == nil && enough(st)
	})
}

// refused does something until it is refused, at most so many times.
func (g greedy) refused(most int, do func(i int) error) {
	g.Helper()
	for i := range most {
		err := do(i)
		if e, ok := errors.AsType[*sandkasten.APIError](err); ok && (e.Status == http.StatusTooManyRequests || e.Status == http.StatusInsufficientStorage) {
			return
		}
		if err != nil {
			g.Fatal(err)
		}
	}
	g.Errorf("%d times, and it was never refused", most)
}

// holds opens connections that each send the same and wait, until they are let go.
func (g greedy) holds(n int, text string) (letGo func()) {
	address := strings.TrimPrefix(g.daemon.URL, "http://")
	var held []net.Conn
	for range n {
		conn, err := net.Dial("tcp", address) //nolint:noctx // it is closed below
		if err != nil {
			continue // refused, as all of these may be
		}
		_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
		_, _ = io.WriteString(conn, text)
		held = append(held, conn)
	}
	return func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (g greedy) header(method, path string, more string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s", method, path, g.key, more)
}

const (
	slower  = 10                     // times what a call takes alone that it may take beside the other owner
	atLeast = 250 * time.Millisecond // which is no reason to worry, however short it is alone
)

// The environment of the process that is the other owner's client.
const (
	otherURL     = "LIMITS_OTHER_URL"
	otherSession = "LIMITS_OTHER_SESSION"
	otherKey     = "sk_other_key_of_16"
)

// TestTwoOwners: one owner takes all it can get of what is shared, one thing at a time.
// Another's commands, creates and lists go on, and are hardly slower.
func TestTwoOwners(t *testing.T) {
	if url := os.Getenv(otherURL); url != "" {
		beOther(t, url)
		return
	}
	const greedyKey = "sk_greedy_key_of_1"
	d := blackbox.Start(t, blackbox.Options{Config: `
max_sessions: 60
max_sessions_per_key: 20
workspace: {max_count: 50}
snapshots: {max_count: 10}
requests: {max_waiting_per_key: 200}
orchestrator: {enabled: true, artifact_quota_mb: 1}
api_keys: [{owner: greedy, key: ` + greedyKey + `}, {owner: other, key: ` + otherKey + `}]
`})
	client := d.Client(otherKey)
	session := create(t, client, nil)
	defer destroy(t, session)
	quiet := callsOfOther(t, d, session)
	t.Logf("%-70s %s", "alone", quiet)
	for _, b := range Bounds {
		t.Run(b.What, func(t *testing.T) {
			take, stop := beginTaking(t, d, greedyKey)
			defer stop()
			takers[b.What](take)
			for round := 1; ; round++ {
				beside := callsOfOther(t, d, session)
				t.Logf("%-70s %s", b.What, beside)
				slow := beside.slowerThan(quiet)
				if len(slow) == 0 {
					break
				}
				if round == rounds/2 {
					t.Errorf("beside an owner who takes %s: %s", b.What, strings.Join(slow, ", "))
					break
				}
			}
		})
	}
}

// beginTaking is a greedy owner with a session. stop ends it, and removes all that it has.
func beginTaking(t *testing.T, d *blackbox.Daemon, key string) (_ greedy, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	client := d.Client(key)
	g := greedy{T: t, ctx: ctx, daemon: d, key: key, client: client, wg: &sync.WaitGroup{}}
	g.session = create(t, client, nil)
	return g, func() {
		cancel()
		g.wg.Wait()
		all, err := client.ListSessions(t.Context(), nil)
		if err != nil {
			t.Error(err)
		}
		for _, s := range all {
			destroy(t, s)
		}
		spaces, err := client.ListWorkspaces(t.Context())
		if err != nil {
			t.Error(err)
		}
		for _, w := range spaces {
			if err := client.DeleteWorkspace(t.Context(), w.ID, nil); err != nil {
				t.Error(err)
			}
		}
	}
}

func destroy(t *testing.T, s *sandkasten.Session) {
	t.Helper()
	if err := s.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// calls are how long an owner's calls took, by what they do.
type calls map[string]times

// callsOfOther has the other owner's calls made by another process. The greedy one's clients,
// which this process has, are busy, and that is to slow nobody but them.
func callsOfOther(t *testing.T, d *blackbox.Daemon, session *sandkasten.Session) (took calls) {
	t.Helper()
	other := osexec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTwoOwners$", "-test.v")
	other.Env = append(os.Environ(), otherURL+"="+d.URL, otherSession+"="+session.ID)
	said, err := other.CombinedOutput()
	_, text, _ := strings.Cut(string(said), "calls: ")
	text, _, _ = strings.Cut(text, "\n")
	if err := errors.Join(err, json.Unmarshal([]byte(text), &took)); err != nil {
		t.Fatalf("the other owner's client: %v\n%s", err, said)
	}
	return took
}

// beOther makes the calls in the process of the other owner's client.
func beOther(t *testing.T, url string) {
	t.Helper()
	client, err := sandkasten.New(sandkasten.Options{URL: url, APIKey: otherKey, MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	text, err := json.Marshal(callsOf(t, client, client.Session(os.Getenv(otherSession))))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("calls: %s", text)
}

// callsOf runs commands, makes sessions and lists them.
func callsOf(t *testing.T, client *sandkasten.Client, session *sandkasten.Session) calls {
	t.Helper()
	took := calls{}
	timed := func(what string, do func() error) {
		t.Helper()
		start := time.Now()
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		took[what] = append(took[what], time.Since(start))
	}
	for range 50 {
		timed("exec", func() error {
			result, err := session.Exec(t.Context(), "true", nil)
			if err == nil && result.ExitCode != 0 {
				err = fmt.Errorf("%+v", result)
			}
			return err
		})
		timed("list", func() error {
			_, err := client.ListSessions(t.Context(), nil)
			return err
		})
	}
	for range 5 {
		var made *sandkasten.Session
		timed("create", func() (err error) {
			made, err = client.CreateSession(t.Context(), nil)
			return err
		})
		if made != nil {
			destroy(t, made)
		}
	}
	return took
}

func (c calls) String() string {
	var out []string
	for _, what := range slices.Sorted(maps.Keys(c)) {
		out = append(out, fmt.Sprintf("%s p50 %s, p99 %s", what, c[what].at(50), c[what].at(99)))
	}
	return strings.Join(out, "; ")
}

// slowerThan names what is slower than others may make it.
func (c calls) slowerThan(quiet calls) (slow []string) {
	for _, what := range slices.Sorted(maps.Keys(c)) {
		if got, most := c[what].at(99), max(slower*quiet[what].at(99), atLeast); got > most {
			slow = append(slow, fmt.Sprintf("%s takes up to %s, more than %s", what, got, most))
		}
	}
	return slow
}
