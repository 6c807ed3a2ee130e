package limits

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// takers take all that they can get of what is shared, and return when they have it.
var takers = map[string]func(greedy){
	"processor time of programs": func(g greedy) {
		g.runs("for i in 1 2 3 4; do while :; do :; done & done; wait")
		g.used("it burns", func(s sandkasten.Stats) bool { return s.CPUUsageUsec > 500_000 })
	},
	"processes": func(g greedy) {
		g.runs(bullies[0].command)
		g.used("it forks", bullies[0].proof)
	},
	"memory of programs": func(g greedy) {
		g.runs(bullies[1].command)
		g.used("it is killed", bullies[1].proof)
	},
	"disk space": func(g greedy) {
		g.runs(bullies[2].command)
		g.used("it writes", bullies[2].proof)
	},
	"output that is kept": func(g greedy) {
		g.again(2, func(i int) {
			_, _ = g.session.ExecStream("yes", &sandkasten.ExecOptions{Shell: fmt.Sprint("s", i)}).Copy(g.ctx, io.Discard, io.Discard)
		})
		g.used("it prints", bullies[3].proof)
	},
	"sessions, with their user ids, loop devices, namespaces and runners": func(g greedy) {
		g.refused(40, func(int) error {
			_, err := g.client.CreateSession(g.ctx, nil)
			return err
		})
	},
	"creates under way, forks and starts": func(g greedy) {
		g.again(300, func(int) {
			if s, err := g.client.CreateSession(g.ctx, nil); err == nil {
				_ = s.Destroy(g.ctx)
			}
		})
	},
	"rows of sessions that have ended": func(g greedy) {
		for range 100 {
			s, err := g.client.CreateSession(g.ctx, nil)
			if err == nil {
				err = s.Destroy(g.ctx)
			}
			if err != nil {
				g.Fatal(err)
			}
		}
		g.again(4, func(int) { _, _ = g.client.ListSessions(g.ctx, &sandkasten.ListSessionsOptions{IncludeEnded: true}) })
	},
	"snapshots": func(g greedy) {
		g.refused(30, func(int) error {
			_, err := g.session.Snapshot(g.ctx, nil)
			return err
		})
	},
	"workspaces": func(g greedy) {
		g.refused(60, func(i int) error {
			_, err := g.client.CreateWorkspace(g.ctx, &sandkasten.WorkspaceOptions{ID: fmt.Sprint("greedy-", i), SizeMB: 16})
			return err
		})
	},
	"stored secrets": func(g greedy) {
		g.refused(1100, func(i int) error {
			_, err := g.client.SetSecret(g.ctx, fmt.Sprint("S", i), &sandkasten.SecretOptions{Value: strings.Repeat("x", 1000), Hosts: []string{"example.org"}, Header: "Authorization"})
			return err
		})
	},
	"requests under way, their goroutines and connections": func(g greedy) {
		g.Cleanup(g.holds(300, g.header("GET", "/v1/events", "Accept: text/event-stream\r\n\r\n")))
		g.refused(500, func(int) error { // all of them are under way by then
			_, err := g.session.Exec(g.ctx, "true", nil)
			return err
		})
	},
	"requests in a time, and their lines in the log and the audit log": func(g greedy) {
		g.again(8, func(int) { _, _ = g.client.GetSession(g.ctx, "none") })
	},
	"memory while bodies are read": func(g greedy) {
		g.Cleanup(g.holds(60, g.header("POST", "/v1/sessions/"+g.session.ID+"/exec", "Content-Type: application/json\r\nContent-Length: 8000000\r\n\r\n")+`{"cmd":"`+strings.Repeat("x", 1<<20)))
	},
	"memory of commands under way": func(g greedy) {
		long := "sleep 60 #" + strings.Repeat("x", 900<<10)
		g.again(80, func(i int) {
			_, _ = g.session.Exec(g.ctx, long, &sandkasten.ExecOptions{Shell: fmt.Sprint("s", i%8)})
			pause(g.ctx, 100*time.Millisecond)
		})
	},
	"memory while headers are read": func(g greedy) {
		g.again(4, func(int) {
			defer g.holds(100, "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\n"+strings.Repeat("ab:c\r\n", 250))()
			pause(g.ctx, 2*time.Second)
		})
	},
	"connections of clients": func(g greedy) { g.Cleanup(g.holds(2000, "")) },
	"connections of programs to the outside, and their descriptors": func(g greedy) {
		if _, err := g.session.SetNetwork(g.ctx, sandkasten.NetworkPolicy{Mode: "internet", MaxConnections: 4096, ConnectionsPerSecond: 1000}); err != nil {
			g.Fatal(err)
		}
		g.runs(`python3 -c '
import socket, itertools
held = []
for i in itertools.count():
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(("198.51.100.%d" % (i % 250 + 1), 80))
    held.append(s)
    if len(held) > 4000: held = []
'`)
		g.until("it connects", func() bool {
			log, err := g.session.NetworkLog(g.ctx, 0, 10)
			return err == nil && len(log.Events) > 0
		})
	},
	"connections to ports of sessions": func(g greedy) {
		if _, err := g.session.StartProcess(g.ctx, []string{"python3", "-m", "http.server", "8000"}, nil); err != nil {
			g.Fatal(err)
		}
		g.until("it listens", func() bool {
			tunnel, err := g.session.DialPort(g.ctx, 8000)
			return err == nil && tunnel.Close() == nil
		})
		g.refused(200, func(int) error {
			tunnel, err := g.session.DialPort(g.ctx, 8000)
			if err == nil {
				g.Cleanup(func() { _ = tunnel.Close() })
			}
			return err
		})
	},
	"places in the queue of a shell; shells, programs and terminals": func(g greedy) {
		g.again(80, func(int) {
			_, _ = g.session.Exec(g.ctx, "sleep 1", nil)
			pause(g.ctx, 100*time.Millisecond)
		})
		g.refused(33, func(int) error {
			_, err := g.session.StartProcess(g.ctx, []string{"sleep", "600"}, &sandkasten.ProcessOptions{TTY: true})
			return err
		})
	},
	"the daemon's processor time for large bodies, searches and lists": func(g greedy) {
		if _, err := g.session.Exec(g.ctx, "mkdir many && cd many && for i in $(seq 2000); do echo line $i >$i; done", nil); err != nil {
			g.Fatal(err)
		}
		g.again(4, func(int) { _, _ = g.session.Grep(g.ctx, "line.*9$", nil) })
		g.again(4, func(int) { _, _ = g.client.ListSessions(g.ctx, &sandkasten.ListSessionsOptions{IncludeEnded: true}) })
		g.again(4, func(int) { _, _ = g.client.ListAudit(g.ctx, nil) })
	},
	"artifacts": func(g greedy) {
		const sessions = "/api/sandbox/sessions"
		var made struct{ ID string }
		if status, answer := g.ask("POST", sessions, "{}"); status/100 != 2 || json.Unmarshal(answer, &made) != nil {
			g.Fatalf("%d %s", status, answer)
		}
		path := sessions + "/" + made.ID
		if status, answer := g.ask("POST", path+"/exec", `{"command":"head -c 300000 /dev/urandom >a"}`); status != http.StatusOK {
			g.Fatalf("%d %s", status, answer)
		}
		for range 10 {
			status, answer := g.ask("POST", path+"/files/export", `{"path":"a"}`)
			if status == http.StatusInsufficientStorage || status == http.StatusTooManyRequests {
				return
			}
			if status/100 != 2 {
				g.Fatalf("%d %s", status, answer)
			}
			g.ask("POST", path+"/exec", `{"command":"head -c 300000 /dev/urandom >a"}`)
		}
		g.Error("artifacts without end")
	},
	"complete scopes that wait for their end": func(g greedy) {
		g.refused(1100, func(i int) error {
			_, err := g.client.CompleteScope(g.ctx, fmt.Sprint("workflow:greedy-", i), &sandkasten.CompleteOptions{Retention: time.Hour})
			return err
		})
		g.again(2, func(i int) {
			_, _ = g.client.CompleteScope(g.ctx, fmt.Sprint("workflow:greedy-more-", i), &sandkasten.CompleteOptions{Retention: time.Hour})
		})
	},
	"snapshots on their way": func(g greedy) {
		g.untilRefused(40, "no snapshot is refused", func(int) bool {
			_, err := g.session.Snapshot(g.ctx, nil)
			e, ok := errors.AsType[*sandkasten.APIError](err)
			return ok && e.Status == http.StatusTooManyRequests
		})
	},
	"passwords that are checked": func(g greedy) {
		g.untilRefused(100, "nobody who guesses is refused", func(i int) bool {
			status, _ := g.ask("POST", "/v1/auth/sign-in", fmt.Sprintf(`{"name":"nobody-%d","password":"a guess of the greedy one"}`, i))
			return status == http.StatusTooManyRequests
		})
	},
	"events": func(g greedy) {
		g.Cleanup(g.holds(100, g.header("GET", "/v1/events", "Accept: text/event-stream\r\n\r\n")))
		g.again(4, func(i int) {
			_, _ = g.session.Exec(g.ctx, "true", &sandkasten.ExecOptions{Shell: fmt.Sprint("s", i)})
		})
	},
	"contexts and their runs": func(g greedy) {
		var asked atomic.Int64 // the image has no kernel, which takes as long to find out as to use it
		g.again(16, func(int) {
			_, _ = g.session.RunCode(g.ctx, "print('x' * 100_000)", nil)
			asked.Add(1)
		})
		g.until("it asks for runs", func() bool { return asked.Load() > 30 })
	},
	"the daemon's processor time for names and connections of programs": func(g greedy) {
		if _, err := g.session.SetNetwork(g.ctx, sandkasten.NetworkPolicy{Mode: "allow", Allow: []string{"*.example.org"}, ConnectionsPerSecond: 1000}); err != nil {
			g.Fatal(err)
		}
		g.runs(`python3 -c '
import socket, itertools
for i in itertools.count():
    try: socket.getaddrinfo("n%d.denied.test" % i, 80)
    except OSError: pass
'`)
		g.until("it resolves", func() bool {
			log, err := g.session.NetworkLog(g.ctx, 0, 10)
			return err == nil && len(log.Events) > 0
		})
	},
}

// ask makes a request as the greedy owner.
func (g greedy) ask(method, path, body string) (status int, answer []byte) {
	request, err := http.NewRequestWithContext(g.ctx, method, g.daemon.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, nil
	}
	request.Header.Set("Content-Type", "application/json")
	if !strings.HasPrefix(path, "/v1/auth/") {
		request.Header.Set("Authorization", "Bearer "+g.key)
	}
	got, err := (&http.Client{Timeout: time.Minute}).Do(request)
	if err != nil {
		return 0, nil
	}
	defer got.Body.Close()
	answer, _ = io.ReadAll(got.Body)
	return got.StatusCode, answer
}
