package network

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// allow is a policy of mode allow.
func allow(entries ...string) object { return object{"mode": "allow", "allow": entries} }

// TestPolicies is all that one daemon shows of policies.
func TestPolicies(t *testing.T) {
	w := enter(t, "maximum: {network_mode: full}\nnetwork: {allow_private: true}\napi_keys: [{owner: capped, key: sk_capped_key_of_the_tests, network: {mode: allow, allow: [good.test]}}]\n")
	for name, test := range map[string]func(*testing.T, *world){
		"listed names are reached and others are not": testListedNames, "a change cuts what it does not allow": testChangeCuts,
		"more can be allowed": testMoreIsAllowed, "the log goes on over a stop": testLog, "mode none resolves nothing": testNone,
		"the keys ceiling holds": testCeiling, "two modes that differ are refused": testTwoModes, "datagrams": testDatagrams, "hosts own and private": testAddresses,
		"hints of tools": testHints,
	} {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
}

// soonerOfTwo is what came of a command, and how long it took; of a second one if that was
// long, since a host may stand still once.
func soonerOfTwo(run func() result) (r result, took time.Duration) {
	for range 2 {
		begin := time.Now()
		r = run()
		if took = time.Since(begin); took <= 3*time.Second {
			break
		}
	}
	return r, took
}

func testListedNames(t *testing.T, w *world) {
	s := w.create(t, allow("good.test", "198.51.100.9:5432"))
	for _, url := range []string{"http://good.test/", "https://good.test/"} {
		if r := s.get(t, url); !strings.HasPrefix(r.Output, "200 site good.test") || len(r.NetworkDenied) > 0 {
			t.Errorf("%s: %+v", url, r)
		}
	}
	r, took := soonerOfTwo(func() result { return s.get(t, "https://unasked.test/") })
	if !strings.HasPrefix(r.Output, "failed:") || took > 3*time.Second {
		t.Errorf("after %s: %+v", took, r)
	}
	if !slices.ContainsFunc(r.NetworkDenied, func(d denial) bool { return d.Name == "unasked.test" && strings.Contains(d.Why, "no entry of allow") }) {
		t.Errorf("denied: %+v", r.NetworkDenied)
	}
	if w.Asked("unasked.test") > 0 {
		t.Errorf("a refused name was asked for outside")
	}
	// An address that was not resolved by name, and the port of an entry.
	for command, want := range map[string]string{
		connect("198.51.100.2", 443): "reset by peer", connect("198.51.100.9", 7): "reset by peer", connect("198.51.100.9", 5432): "hello",
	} {
		if r := s.run(t, command); !strings.Contains(r.Output, want) {
			t.Errorf("%s: %+v", command, r)
		}
	}
	if r := s.run(t, "true"); len(r.NetworkDenied) > 0 {
		t.Errorf("the next command: %+v", r)
	}
}

// connect is a command that says hello to a port and prints what comes back.
func connect(host string, port int) string {
	return fmt.Sprintf(`timeout 10 bash -c 'exec 3<>/dev/tcp/%s/%d && echo hello >&3 && head -n1 <&3' 2>&1`, host, port)
}

func testChangeCuts(t *testing.T, w *world) {
	var sent atomic.Int64
	w.Site("slow.test", func(rw http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			n, err := rw.Write(make([]byte, 1024))
			if err != nil {
				return
			}
			sent.Add(int64(n))
			rw.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	})
	w.Name("slow.test", "60 A 198.51.100.3")
	for _, scheme := range []string{"http", "https"} {
		sent.Store(0)
		s := w.create(t, allow("slow.test"))
		s.do(t, "POST", s.at("/processes"), object{"cmd": []string{"sh", "-c", "python3 /workspace/get.py " + scheme + "://slow.test/; echo over > /workspace/over"}, "background": true}, nil)
		testenv.Eventually(t, "the download begins", func() bool { return sent.Load() > 10<<10 })
		begin := time.Now()
		s.do(t, "PUT", s.at("/network"), allow("good.test"), nil)
		took := time.Since(begin)
		testenv.Eventually(t, fmt.Sprintf("%s: behind the change, of %s, the download ends", scheme, took), func() bool {
			before := sent.Load()
			time.Sleep(300 * time.Millisecond)
			return sent.Load() == before
		})
		testenv.Eventually(t, "the client sees it", func() bool { return s.run(t, "cat /workspace/over").ExitCode == 0 })
		if r := s.get(t, scheme+"://slow.test/"); !strings.HasPrefix(r.Output, "failed:") {
			t.Errorf("%+v", r)
		}
		if r := s.get(t, scheme+"://good.test/"); !strings.HasPrefix(r.Output, "200") {
			t.Errorf("%+v", r)
		}
	}
}

func testMoreIsAllowed(t *testing.T, w *world) {
	s := w.create(t, nil)
	if r := s.get(t, "http://good.test/"); !strings.HasPrefix(r.Output, "failed:") {
		t.Errorf("%+v", r)
	}
	var now struct {
		Mode  string
		Allow []string
	}
	s.do(t, "POST", s.at("/network/allow"), object{"entries": []string{"good.test"}}, &now)
	if now.Mode != "allow" || !slices.Equal(now.Allow, []string{"good.test"}) {
		t.Errorf("%+v", now)
	}
	if r := s.get(t, "http://good.test/"); !strings.HasPrefix(r.Output, "200") {
		t.Errorf("%+v", r)
	}
	s.do(t, "POST", s.at("/network/allow"), object{"entries": []string{"bad.test", "good.test"}}, &now)
	if len(now.Allow) != 2 {
		t.Errorf("%+v", now)
	}
	if r := s.get(t, "http://bad.test/"); !strings.HasPrefix(r.Output, "200") {
		t.Errorf("%+v", r)
	}
	s.do(t, "GET", s.at("/network"), nil, &now)
	if len(now.Allow) != 2 {
		t.Errorf("%+v", now)
	}
	if status, text := w.try(t, "POST", s.at("/network/allow"), object{"entries": []string{"10.0.0.1:99999"}}); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, text)
	}
}

// event is one of a log.
type event struct {
	Seq     uint64
	Op      string
	Name    string
	Allowed bool
	Why     string
}

func testLog(t *testing.T, w *world) {
	s := w.create(t, allow("good.test"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream := w.request(t, ctx, "GET", s.at("/network/log/stream"), nil)
	defer stream.Body.Close()
	streamed := make(chan event, 1000)
	go func() {
		defer close(streamed)
		for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var e event
				if json.Unmarshal([]byte(data), &e) == nil && e.Seq > 0 {
					streamed <- e
				}
			}
		}
	}()
	s.get(t, "http://good.test/")
	s.get(t, "http://bad.test/")
	var log struct {
		Events  []event
		NextSeq uint64 `json:"next_seq"`
	}
	s.do(t, "GET", s.at("/network/log"), nil, &log)
	if !slices.ContainsFunc(log.Events, func(e event) bool { return e.Op == "request" && e.Name == "good.test" && e.Allowed }) ||
		!slices.ContainsFunc(log.Events, func(e event) bool { return e.Op == "resolve" && e.Name == "bad.test" && !e.Allowed }) {
		t.Errorf("the log: %+v", log)
	}
	first := log.NextSeq
	s.do(t, "GET", s.at(fmt.Sprintf("/network/log?since_seq=%d", first)), nil, &log)
	if len(log.Events) > 0 || log.NextSeq != first {
		t.Errorf("behind the end: %+v", log)
	}
	s.do(t, "POST", s.at("/stop"), nil, nil)
	s.do(t, "POST", s.at("/start"), nil, nil)
	s.get(t, "http://bad.test/again")
	s.do(t, "GET", s.at(fmt.Sprintf("/network/log?since_seq=%d", first)), nil, &log)
	if len(log.Events) == 0 || log.Events[0].Seq <= first {
		t.Errorf("after a start: %+v", log)
	}
	last := uint64(0)
	for e := range streamed {
		if e.Seq <= last {
			t.Errorf("%d behind %d", e.Seq, last)
		}
		if last = e.Seq; last >= log.NextSeq {
			break
		}
	}
	if last < log.NextSeq {
		t.Errorf("the stream ended at %d of %d", last, log.NextSeq)
	}
	s.do(t, "DELETE", s.at(""), nil, nil)
	for range streamed { // until its end, which has to come
	}
	if ctx.Err() != nil {
		t.Error("the stream outlives its session")
	}
}

func testNone(t *testing.T, w *world) {
	s := w.create(t, nil)
	r, took := soonerOfTwo(func() result {
		return s.run(t, `python3 -c 'import socket; print(socket.getaddrinfo("good.test", 80))' 2>&1`)
	})
	if r.ExitCode == 0 || took > 3*time.Second {
		t.Errorf("after %s: %+v", took, r)
	}
	if r := s.run(t, connect("198.51.100.1", 80)); r.ExitCode == 0 {
		t.Errorf("%+v", r)
	}
}

func testCeiling(t *testing.T, w *world) {
	capped := w.as("sk_capped_key_of_the_tests")
	if r := capped.create(t, allow("good.test")).get(t, "http://good.test/"); !strings.HasPrefix(r.Output, "200") {
		t.Errorf("%+v", r)
	}
	for _, network := range []object{{"mode": "internet"}, {"mode": "full"}, allow("bad.test"), allow("*.good.test"), allow("good.test:22"), allow("198.51.100.0/24")} {
		if status, text := capped.try(t, "POST", "/v1/sessions", object{"network": network}); status != http.StatusForbidden || !strings.Contains(text, "ceiling") {
			t.Errorf("%v: %d %s", network, status, text)
		}
	}
	s := capped.create(t, allow("good.test"))
	if status, text := capped.try(t, "POST", s.at("/network/allow"), object{"entries": []string{"bad.test"}}); status != http.StatusForbidden {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := w.try(t, "GET", "/v1/sessions/"+s.id+"/network", nil); status != http.StatusNotFound && status != http.StatusOK {
		t.Errorf("of another owner: %d", status)
	}
}

func testTwoModes(t *testing.T, w *world) {
	for _, c := range []struct {
		body   object
		status int
	}{
		{object{"network_mode": "internet", "network": object{"mode": "allow"}}, 400},
		{object{"network_mode": "none", "network": object{"mode": "internet"}}, 400},
		{object{"network": object{"mode": "open"}}, 400},
		{object{"network": object{"mode": "internet", "allow": []string{"good.test"}}}, 400},
		{object{"network": object{"mode": "allow", "allow": []string{"*.test"}}}, 400},
		{object{"network": object{"mode": "allow", "allow": []string{"@nobody"}}}, 400},
		{object{"network": object{"mode": "allow", "allow": []string{"127.0.0.1"}}}, 400},
	} {
		if status, text := w.try(t, "POST", "/v1/sessions", c.body); status != c.status {
			t.Errorf("%v: %d %s", c.body, status, text)
		}
	}
	var made struct{ ID string }
	w.do(t, "POST", "/v1/sessions", object{"network_mode": "internet", "network": object{"mode": "internet"}}, &made)
	w.session(t, made.ID)
}

// datagram is a command that sends one to the lab's echo and prints what comes back.
const datagram = `python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.sendto(b"hello", ("198.51.100.9", 7)); print(s.recv(9).decode())' 2>&1`

func testDatagrams(t *testing.T, w *world) {
	s := w.create(t, object{"mode": "internet"})
	if r := s.run(t, datagram); r.Output != "hello\n" {
		t.Errorf("%+v", r)
	}
	s.do(t, "PUT", s.at("/network"), allow("good.test"), nil)
	if r := s.run(t, datagram); r.ExitCode == 0 {
		t.Errorf("%+v", r)
	}
}

func testAddresses(t *testing.T, w *world) {
	for mode, reached := range map[string]bool{"internet": false, "full": true} {
		s := w.create(t, object{"mode": mode})
		if r := s.get(t, "http://10.77.0.5/"); strings.HasPrefix(r.Output, "200") != reached {
			t.Errorf("a private address in mode %s: %+v", mode, r)
		}
		if r := s.get(t, "http://169.254.169.254/"); strings.HasPrefix(r.Output, "200") {
			t.Errorf("a metadata service in mode %s: %+v", mode, r)
		}
	}
}
