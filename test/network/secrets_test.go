package network

import (
	"bytes"
	"crypto/rand"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecretStaysOutside sends a secret to its host, and looks for it everywhere else.
func TestSecretStaysOutside(t *testing.T) {
	w := enter(t, "audit: {enabled: true}\nlog: {level: debug, format: text}\n")
	value := "Bearer sk-" + rand.Text()
	got := make(chan string, 100)
	w.Site("api.test", func(rw http.ResponseWriter, r *http.Request) {
		got <- r.Host + " " + r.Header.Get("Authorization")
		rw.Header().Set("X-Seen", r.Header.Get("Authorization"))
	})
	w.Site("other.test", func(_ http.ResponseWriter, r *http.Request) { got <- r.Host + " " + r.Header.Get("Authorization") })
	w.Name("api.test", "60 A 198.51.100.4")
	w.Name("other.test", "60 A 198.51.100.5")
	network := allow("api.test", "other.test", "good.test")
	network["secrets"] = []object{{"name": "API_TOKEN", "hosts": []string{"api.test"}, "header": "Authorization", "value": value}}
	s := w.create(t, network)
	placeholder := strings.TrimSpace(s.run(t, "echo $API_TOKEN").Output)
	if !strings.HasPrefix(placeholder, "placeholder-") {
		t.Fatalf("the environment has %q", placeholder)
	}
	for header, want := range map[string]string{"Authorization: Bearer $API_TOKEN": value, "Authorization: $API_TOKEN": value} {
		r := s.get(t, "https://api.test/", header)
		if !strings.HasPrefix(r.Output, "200") || !strings.Contains(r.Output, placeholder) || strings.Contains(r.Output, value[7:]) {
			t.Errorf("%s: %+v", header, r)
			continue
		}
		if came := <-got; came != "api.test "+want {
			t.Errorf("%s: the host gets %q", header, came)
		}
	}
	// Not by plain HTTP, and not to others.
	for _, url := range []string{"http://api.test/", "http://other.test/"} {
		if r := s.get(t, url, "Authorization: Bearer $API_TOKEN"); !strings.HasPrefix(r.Output, "200") {
			t.Errorf("%s: %+v", url, r)
		} else if came := <-got; strings.Contains(came, value[7:]) {
			t.Errorf("%s: %s", url, came)
		}
	}
	w.secretSurvives(t, s, value, got)
	w.secretIsNowhere(t, s, value)
}

// secretSurvives checks that a session has its secret after all that happens to it.
func (w *world) secretSurvives(t *testing.T, s *sandbox, value string, got chan string) {
	t.Helper()
	uses := func(when string) {
		t.Helper()
		r := s.get(t, "https://api.test/", "Authorization: Bearer $API_TOKEN")
		if !strings.HasPrefix(r.Output, "200") {
			t.Errorf("%s: %+v", when, r)
		} else if came := <-got; came != "api.test "+value {
			t.Errorf("%s: the host gets %q", when, came)
		}
	}
	w.daemon.Kill()
	w.daemon.Start()
	uses("after the daemon's death")
	s.do(t, "POST", s.at("/stop"), nil, nil)
	s.do(t, "POST", s.at("/start"), nil, nil)
	uses("after a stop")
	s.do(t, "PUT", s.at("/network"), allow("api.test"), nil)
	uses("after a change")
}

// secretIsNowhere looks for a value in all that the daemon writes and answers.
func (w *world) secretIsNowhere(t *testing.T, s *sandbox, value string) {
	t.Helper()
	token := []byte(strings.TrimPrefix(value, "Bearer "))
	for _, path := range []string{"", "/network", "/network/log", "/stats", "/history"} {
		if _, text := w.try(t, "GET", s.at(path), nil); bytes.Contains([]byte(text), token) {
			t.Errorf("%s has the value", path)
		}
	}
	if r := s.run(t, "env; cat /proc/*/environ /dev/shm/sandkasten/* 2>/dev/null; grep -rl '"+string(token[:12])+"' /workspace /dev/shm /run /tmp"); strings.Contains(r.Output, string(token)) {
		t.Error("the sandbox has the value")
	}
	err := filepath.WalkDir(w.daemon.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // it has gone meanwhile
		}
		text, err := os.ReadFile(path)
		if err == nil && bytes.Contains(text, token) {
			t.Errorf("%s has the value", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if strings.Contains(w.daemon.Log(), string(token)) {
		t.Error("the log has the value")
	}
}
