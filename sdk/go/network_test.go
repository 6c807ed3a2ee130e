package sandkasten

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
)

func TestNetworkRequests(t *testing.T) {
	told := NetworkPolicy{
		Mode: "allow", Allow: []string{"api.example.org"}, MaxMbit: 10,
		Secrets: []NetworkSecret{
			{Name: "TOKEN", Hosts: []string{"api.example.org"}, Header: "Authorization", Placeholder: "placeholder-1"},
			{Name: "GIT", Hosts: []string{"git.example.org"}, Header: "Authorization", Stored: "git", Placeholder: "placeholder-2"},
		},
	}
	const path = "/v1/sessions/s1/network"
	for _, tt := range []struct {
		name   string
		call   func(s *Session) error
		method string
		target string
		body   string
	}{
		{"get", func(s *Session) error { _, err := s.Network(t.Context()); return err }, "GET", path, ""},
		{
			"keep secrets", func(s *Session) error {
				_, err := s.SetNetwork(t.Context(), NetworkPolicy{Mode: "internet"})
				return err
			},
			"PUT", path, `{"mode":"internet"}`,
		},
		{
			"remove secrets", func(s *Session) error {
				_, err := s.SetNetwork(t.Context(), NetworkPolicy{Mode: "none", Secrets: []NetworkSecret{}})
				return err
			},
			"PUT", path, `{"mode":"none","secrets":[]}`,
		},
		{
			"what was told", func(s *Session) error { _, err := s.SetNetwork(t.Context(), told); return err },
			"PUT", path, `{"mode":"allow","allow":["api.example.org"],"max_mbit":10,"secrets":[` +
				`{"name":"TOKEN","hosts":["api.example.org"],"header":"Authorization"},{"name":"GIT","stored":"git"}]}`,
		},
		{
			"allow", func(s *Session) error { _, err := s.AllowNetwork(t.Context(), "a.example.org", "@pip"); return err },
			"POST", path + "/allow", `{"entries":["a.example.org","@pip"]}`,
		},
		{"log", func(s *Session) error { _, err := s.NetworkLog(t.Context(), 7, 50); return err }, "GET", path + "/log?limit=50&since_seq=7", ""},
		{"whole log", func(s *Session) error { _, err := s.NetworkLog(t.Context(), 0, 0); return err }, "GET", path + "/log", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, d := start(t, answer{status: 200, body: `{}`})
			if err := tt.call(c.Session("s1")); err != nil {
				t.Fatal(err)
			}
			r := d.seen()[0]
			if r.method != tt.method || r.target != tt.target || r.body != tt.body {
				t.Errorf("%s %s %s", r.method, r.target, r.body)
			}
		})
	}
	if told.Secrets[1].Placeholder == "" || told.Secrets[1].Hosts == nil {
		t.Error("the caller's policy was changed")
	}
}

func TestCreateWithANetwork(t *testing.T) {
	c, d := start(t, answer{status: 201, body: `{"id":"s1","network":{"mode":"allow","secrets":[{"name":"T","hosts":["h"],"header":"A","placeholder":"p"}]}}`})
	s, err := c.CreateSession(t.Context(), &CreateOptions{Network: &NetworkPolicy{
		Mode: "allow", Allow: []string{"h"}, Secrets: []NetworkSecret{{Name: "T", Hosts: []string{"h"}, Header: "A", Value: "secret"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"network":{"mode":"allow","allow":["h"],"secrets":[{"name":"T","hosts":["h"],"header":"A","value":"secret"}]}}`
	if body := d.seen()[0].body; body != want {
		t.Errorf("sent %s", body)
	}
	if n := s.Info.Network; n.Mode != "allow" || len(n.Secrets) != 1 || n.Secrets[0].Placeholder != "p" {
		t.Errorf("the session has %+v", n)
	}
}

// A command's result and the end of its stream say what the network refused.
func TestDenialsOfResults(t *testing.T) {
	const denied = `{"exec_id": "e1", "exit_code": 1, "network_denied": [{"name": "pypi.example.org", "port": 443, "why": "no entry"}]}`
	want := []NetworkDenial{{Name: "pypi.example.org", Port: 443, Why: "no entry"}}
	c, _ := start(t, answer{status: 200, body: denied}, answer{status: 200, body: denied}, answer{status: 200, body: "event: done\ndata: " + denied + "\n\n"})
	s := c.Session("s1")
	result, err := s.Exec(t.Context(), "x", nil)
	if err != nil || !reflect.DeepEqual(result.NetworkDenied, want) {
		t.Errorf("exec: %+v, %v", result, err)
	}
	process, err := s.RunProcess(t.Context(), []string{"x"}, nil)
	if err != nil || !reflect.DeepEqual(process.NetworkDenied, want) {
		t.Errorf("process: %+v, %v", process, err)
	}
	end, err := s.ExecStream("x", nil).Copy(t.Context(), nil, nil)
	if err != nil || !reflect.DeepEqual(end.NetworkDenied, want) {
		t.Errorf("stream: %+v, %v", end, err)
	}
}

const (
	decision5 = "event: network\nid: 5\ndata: {\"seq\": 5, \"op\": \"resolve\", \"name\": \"a.example.org\", \"allowed\": false, \"count\": 1}\n\n"
	decision9 = "event: network\nid: 9\ndata: {\"seq\": 9, \"op\": \"connect\", \"address\": \"198.51.100.7\", \"port\": 443, \"allowed\": true, \"count\": 2}\n\n"
	lastEvent = "event: done\ndata: {}\n\n"
)

func TestFollowNetworkLog(t *testing.T) {
	ended := answer{status: 200, body: "event: error\ndata: {\"code\": \"not_found\", \"error\": \"no session\"}\n\n"}
	for _, tt := range []struct {
		name    string
		since   int64
		answers []answer
		seqs    []int64
		ids     []string // Last-Event-ID of each request
		want    error
	}{
		{"whole", 0, []answer{{status: 200, body: ": beat\n\n" + decision5 + decision9 + lastEvent}}, []int64{5, 9}, []string{""}, nil},
		{"since", 5, []answer{{status: 200, body: decision9 + lastEvent}}, []int64{9}, []string{"5"}, nil},
		{"broken", 0, []answer{{body: decision5 + decision9[:30]}, {status: 200, body: decision9 + lastEvent}}, []int64{5, 9}, []string{"", "5"}, nil},
		{"broken before any", 3, []answer{{body: ": beat\n\n"}, {status: 200, body: lastEvent}}, nil, []string{"3", "3"}, nil},
		{
			"the daemon restarts", 0,
			[]answer{{body: decision5}, {status: 503, body: unavailable}, lost, {status: 200, body: decision9 + lastEvent}},
			[]int64{5, 9},
			[]string{"", "5", "5", "5"},
			nil,
		},
		{"refused", 0, []answer{{status: 404, body: `{"code": "not_found", "error": "no session"}`}}, nil, []string{""}, ErrNotFound},
		{"an error inside", 0, []answer{ended}, nil, []string{""}, ErrNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, d := start(t, tt.answers...)
			var seqs []int64
			var last error
			for e, err := range c.Session("s1").FollowNetworkLog(t.Context(), tt.since) {
				if last = err; err == nil {
					seqs = append(seqs, e.Seq)
				}
			}
			if !slices.Equal(seqs, tt.seqs) || !errors.Is(last, tt.want) {
				t.Errorf("told %v, and %v", seqs, last)
			}
			var ids []string
			for _, r := range d.seen() {
				ids = append(ids, r.header.Get("Last-Event-ID"))
				if r.target != "/v1/sessions/s1/network/log/stream" {
					t.Errorf("asked for %s", r.target)
				}
			}
			if !slices.Equal(ids, tt.ids) {
				t.Errorf("resumed behind %q", ids)
			}
		})
	}
}

func TestFollowingANetworkCanBeLeft(t *testing.T) {
	c, d := start(t, answer{status: 200, body: decision5 + decision9 + lastEvent})
	for e, err := range c.Session("s1").FollowNetworkLog(t.Context(), 0) {
		if err != nil || e.Name != "a.example.org" {
			t.Errorf("told %+v, %v", e, err)
		}
		break
	}
	if n := len(d.seen()); n != 1 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestAPolicyKeepsAnEmptyListOfSecrets(t *testing.T) {
	for text, want := range map[string]NetworkPolicy{
		`{"mode":"none"}`:              {Mode: "none"},
		`{"mode":"none","secrets":[]}`: {Mode: "none", Secrets: []NetworkSecret{}},
	} {
		got, err := json.Marshal(want)
		if err != nil || string(got) != text {
			t.Errorf("%+v is %s, %v", want, got, err)
		}
	}
}
