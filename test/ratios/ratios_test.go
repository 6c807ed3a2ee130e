package ratios

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

var update = flag.Bool("update", false, "lower the bounds in testdata/bounds.json to what was measured")

const boundsFile = "testdata/bounds.json"

func TestMain(m *testing.M) { testenv.Main(m) }

// What the daemon does for a request costs no more than before.
func TestRatios(t *testing.T) {
	testenv.NeedsRoot(t)
	if _, err := exec.LookPath("strace"); err != nil {
		testenv.Unsupported(t, "no strace to count system calls with")
	}
	bounds, err := ReadBounds(boundsFile)
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	images := blackbox.Images(t)
	measureRequests(t, newSubject(t, images, ""), figures)
	measureClaims(t, newSubject(t, images, fmt.Sprintf("pool: {enabled: true, cpu: 1, images: {base: %d}}\n", poolSize)), figures)
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		t.Logf("%-24s %8.4g, bound %8.4g", name, figures[name], bounds[name].Bound)
	}
	if *update {
		if err := bounds.Lower(figures).Write(boundsFile); err != nil {
			t.Fatal(err)
		}
		if bounds, err = ReadBounds(boundsFile); err != nil {
			t.Fatal(err)
		}
	}
	if err := bounds.Check(figures); err != nil {
		t.Error(err)
	}
}

// How often each thing is done and counted. The least of all rounds counts: what
// else happens in the daemon can only add.
const (
	execs     = 600
	toolCalls = 200
	creates   = 20
	claims    = 15
	poolSize  = 30
	rounds    = 3
	clients   = 8   // of the second ratio of processor times
	cpuTurns  = 100 // of execs and /healthz, for each ratio
	turn      = 24  // requests of a turn, for each client of the first ratio and for all of the second
	warmUp    = 300

	mostRounds = 10          // of those of which some do not count
	calm       = time.Second // until what a round began in the background is done, and what the daemon does for itself has shown
)

// measureRequests measures a daemon without a pool.
func measureRequests(t *testing.T, s *subject, figures map[string]float64) {
	t.Helper()
	boxes := []string{s.create()}
	run := func(i int) { s.exec(boxes[i]) }
	s.loop(1, warmUp, run)
	box := s.openByTool()
	for name, operation := range map[string]struct {
		n   int
		run func(n int)
	}{
		"exec":      {execs, func(n int) { s.loop(1, n, run) }},
		"tool_call": {toolCalls, func(n int) { s.loop(1, n, func(int) { s.execByTool(box) }) }},
	} {
		operation.run(operation.n / 4)
		s.measureCounts(name, operation.n, figures, false, func() bool { operation.run(operation.n); return true }, func() {})
	}
	var made []string
	s.measureCounts("create", creates, figures, false, func() bool {
		for range creates {
			made = append(made, s.create())
		}
		time.Sleep(calm / 4) // in which the last one's successor is prepared
		return true
	}, func() { made = s.destroy(made) })
	for len(boxes) < clients {
		boxes = append(boxes, s.create())
	}
	s.loop(clients, warmUp, run)
	figures["exec_cpu_per_healthz"] = s.cpuRatio(1, run)
	figures["exec_cpu_per_healthz_8"] = s.cpuRatio(clients, run)
}

// measureClaims measures a daemon with a pool. It makes new sandboxes only when
// no session was created for a moment: behind the claims.
func measureClaims(t *testing.T, s *subject, figures map[string]float64) {
	var made []string
	restock := func() {
		made = s.destroy(made)
		s.awaitPool(poolSize)
	}
	restock()
	s.measureCounts("claim", claims, figures, true, func() bool {
		for range claims {
			made = append(made, s.create())
		}
		return s.poolReady() == poolSize-claims // none was made for the pool
	}, restock)
}

// subject is a daemon whose requests are measured.
type subject struct {
	t      *testing.T
	daemon *blackbox.Daemon
	http   *http.Client
	debug  *http.Client // of its profiler
}

// alike is the environment of a daemon that spends on a request what its code needs,
// however many processors there are and whatever else they do. It keeps no profile of
// its heap: the page that is asked for counts all the same, and costs next to nothing.
// Its goroutines run one at a time: several threads look for work before they sleep,
// and wake each other, which is up to a third of an exec.
var alike = []string{"GODEBUG=memprofilerate=0", "GOMAXPROCS=1"}

func newSubject(t *testing.T, images, config string) *subject {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "debug")
	d := blackbox.Start(t, blackbox.Options{Config: fmt.Sprintf("debug: {socket: %s}\n%s", socket, config), Images: images, Env: alike})
	toDaemon := &http.Transport{MaxIdleConnsPerHost: clients}
	toProfiler := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(toDaemon.CloseIdleConnections)
	t.Cleanup(toProfiler.CloseIdleConnections)
	return &subject{t, d, &http.Client{Transport: toDaemon}, &http.Client{Transport: toProfiler}}
}

// measureCounts measures the allocations and the system calls of one operation, of
// which run makes n, unless it says that something else happened as well. What undo
// does is not counted. behind says that the daemon goes on to something else behind run.
func (s *subject) measureCounts(name string, n int, figures map[string]float64, behind bool, run func() bool, undo func()) {
	s.t.Helper()
	objects := math.Inf(1)
	var calls []float64
	for round := 0; round < rounds || round < mostRounds && (math.IsInf(objects, 1) || len(calls) == 0); round++ {
		asking := s.allocations()
		asking = s.allocations() - asking
		idle := s.restObjects(asking)
		began, before := time.Now(), s.allocations()
		if run() {
			made, took := s.allocations()-before-asking, time.Since(began).Seconds()
			if !behind {
				idle = (idle + s.restObjects(asking)) / 2 // with the sessions that there are now
			}
			objects = min(objects, made-idle*took)
		}
		undo()
		rest := s.rest()
		var ok bool
		busy := s.trace(func() { ok = run() })
		if ok && !behind {
			rest = (rest + s.rest()) / 2 // with the sessions that there are now
		}
		if ok {
			s.t.Logf("%s, of %d: %v in %.1f s, at rest %.0f a second", name, n, busy.byName, busy.seconds, rest)
			// The daemon looks after its sessions as long as that takes.
			calls = append(calls, busy.calls-rest*busy.seconds)
		}
		undo()
	}
	figures[name+"_allocations"], figures[name+"_system_calls"] = objects/float64(n), slices.Min(calls)/float64(n)
}

// restObjects is how many objects the daemon allocates in a second for itself, without
// those for the asking.
func (s *subject) restObjects(asking float64) float64 {
	s.t.Helper()
	began, before := time.Now(), s.allocations()
	time.Sleep(calm)
	return (s.allocations() - before - asking) / time.Since(began).Seconds()
}

// rest is how many system calls the daemon makes in a second for itself.
func (s *subject) rest() float64 {
	s.t.Helper()
	counted := s.trace(func() { time.Sleep(calm) })
	return counted.calls / counted.seconds
}

// trace is how many system calls the daemon made in some time.
type trace struct {
	calls, seconds float64
	byName         map[string]int
}

// trace counts until use returns.
func (s *subject) trace(use func()) (counted trace) {
	s.t.Helper()
	byName, err := countCalls(s.t.Context(), s.daemon.PID(), s.t.TempDir(), func() error {
		began := time.Now()
		use()
		counted.seconds = time.Since(began).Seconds()
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	counted.byName = byName
	for _, made := range byName {
		counted.calls += float64(made)
	}
	return counted
}

// cpuRatio is the processor time of an exec by so many clients as a multiple of that
// of /healthz. The two take turns, so that a busy machine, on which everything costs
// more, slows both. Requests for /healthz are sent together: between two that come one
// at a time the daemon sleeps or not, which is more than half of what they cost.
func (s *subject) cpuRatio(clients int, exec func(i int)) float64 {
	s.t.Helper()
	together := s.healthTogether()
	once := func(do func()) float64 {
		before := s.processorTime()
		do()
		return float64(s.processorTime()-before) / turn
	}
	probes, commands := make([]float64, cpuTurns), make([]float64, cpuTurns)
	for i := range cpuTurns {
		probes[i], commands[i] = once(together), once(func() { s.loop(clients, turn, exec) })
	}
	slices.Sort(probes)
	slices.Sort(commands)
	for _, percent := range []int{0, 10, 25, 50} {
		i := percent * cpuTurns / 100
		s.t.Logf("%d clients, percentile %d: an exec %.0f µs, /healthz %.0f µs, quotient %.2f", clients, percent, commands[i]/1000, probes[i]/1000, commands[i]/probes[i])
	}
	return commands[cpuTurns/4] / probes[cpuTurns/4]
}

// healthTogether returns what makes a turn of requests for /healthz in one message.
func (s *subject) healthTogether() func() {
	s.t.Helper()
	host := strings.TrimPrefix(s.daemon.URL, "http://")
	conn, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", host)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	answers := bufio.NewReader(conn)
	requests := []byte(strings.Repeat("GET /healthz HTTP/1.1\r\nHost: "+host+"\r\n\r\n", turn))
	return func() {
		if _, err := conn.Write(requests); err != nil {
			s.t.Fatal(err)
		}
		for range turn {
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				s.t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, answer.Body)
			if err := errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK {
				s.t.Fatal(answer.Status, err)
			}
		}
	}
}

func (s *subject) processorTime() time.Duration {
	s.t.Helper()
	took, err := processorTime(s.daemon.PID())
	if err != nil {
		s.t.Fatal(err)
	}
	return took
}

// allocations is how many objects the daemon has allocated, exactly: its metrics
// leave out what a processor has not handed in yet.
func (s *subject) allocations() float64 {
	s.t.Helper()
	var page []byte
	if err := request(s.t.Context(), s.debug, http.MethodGet, "http://daemon/debug/pprof/heap?debug=1", "", nil, &page); err != nil {
		s.t.Fatal(err)
	}
	n, err := parseAllocations(page)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// loop does something n times by as many clients, each of which has a number.
func (s *subject) loop(clients, n int, do func(i int)) {
	var g errgroup.Group
	for i := range clients {
		g.Go(func() error {
			for range n / clients {
				do(i)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *subject) create() string {
	var made struct {
		ID string `json:"id"`
	}
	s.do(http.MethodPost, "/v1/sessions", map[string]any{}, &made)
	return made.ID
}

func (s *subject) destroy(ids []string) []string {
	for _, id := range ids {
		s.do(http.MethodDelete, "/v1/sessions/"+id, nil, nil)
	}
	return ids[:0]
}

func (s *subject) exec(id string) {
	var result struct {
		ExitCode *int `json:"exit_code"`
	}
	s.do(http.MethodPost, "/v1/sessions/"+id+"/exec", map[string]any{"cmd": "true"}, &result)
	if result.ExitCode == nil || *result.ExitCode != 0 {
		s.t.Errorf("exec: %+v", result)
	}
}

// callTool calls a tool as an agent does and returns the answer.
func (s *subject) callTool(name string, arguments map[string]any) []byte {
	var page []byte
	s.do(http.MethodPost, "/mcp", map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{"name": name, "arguments": arguments},
	}, &page)
	return page
}

var openedID = regexp.MustCompile(`"sandbox_id":"(\w+)"`)

func (s *subject) openByTool() string {
	s.t.Helper()
	answer := s.callTool("sandbox_open", map[string]any{})
	found := openedID.FindSubmatch(answer)
	if found == nil {
		s.t.Fatalf("sandbox_open: %s", answer)
	}
	return string(found[1])
}

func (s *subject) execByTool(box string) {
	const words = "in-a-sandbox"
	answer := s.callTool("sandbox_exec", map[string]any{"sandbox_id": box, "cmd": []string{"echo", words}})
	if !bytes.Contains(answer, []byte(words)) {
		s.t.Errorf("sandbox_exec: %s", answer)
	}
}

func (s *subject) poolReady() int {
	var status struct {
		Ready int `json:"ready"`
	}
	s.do(http.MethodGet, "/v1/pool/status", nil, &status)
	return status.Ready
}

func (s *subject) awaitPool(n int) {
	s.t.Helper()
	testenv.Eventually(s.t, fmt.Sprintf("%d sandboxes are ready", n), func() bool { return s.poolReady() >= n })
}

// do makes a request that has to be answered with success. The answer goes into
// result, as JSON or, for a slice of bytes, as it is.
func (s *subject) do(method, path string, body, result any) {
	if err := request(s.t.Context(), s.http, method, s.daemon.URL+path, s.daemon.Key, body, result); err != nil {
		s.t.Errorf("%s %s: %v", method, path, err)
	}
}

func request(ctx context.Context, client *http.Client, method, url, key string, body, result any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", resp.Status, answer)
	}
	switch result := result.(type) {
	case nil:
	case *[]byte:
		*result = answer
	default:
		return json.Unmarshal(answer, result)
	}
	return nil
}
