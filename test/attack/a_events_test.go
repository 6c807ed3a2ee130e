package attack

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// told reads a stream up to an event that has text in it, and returns all lines.
func told(t testing.TB, lines <-chan string, text string) (all []string) {
	t.Helper()
	patience := time.After(paced(10 * time.Second))
	for {
		select {
		case line, open := <-lines:
			if !open {
				t.Fatalf("the stream ended before %q", text)
			}
			all = append(all, line)
			if strings.Contains(line, text) {
				return all
			}
		case <-patience:
			t.Fatalf("%q is not told: %q", text, all)
		}
	}
}

// A19: the event stream of one owner has nothing of another's, whatever is asked for and
// from wherever it goes on, and nothing that is named or printed becomes an event. It
// ends with its key.
func TestA19_Events(t *testing.T) {
	t.Parallel()
	s := stage(t, anyDaemon)
	type key struct{ ID, Key string }
	keyOf := func(name string) (made key) {
		s.admin(t).do(t, "POST", "/v1/keys", map[string]any{"user": name, "scope": "run"}).into(t, &made)
		return made
	}
	s.newUser(t, "watched")
	s.newUser(t, "watching")
	follower := keyOf("watching")
	a, b, own := as(t, s.d, keyOf("watched").Key), as(t, s.d, follower.Key), as(t, s.d, keyOf("watching").Key)
	ofA, ofB := a.events(t, "/v1/events"), b.events(t, "/v1/events")
	began := told(t, ofB, `"type":"ready"`)
	since, _, _ := strings.Cut(strings.TrimPrefix(began[1], "id: "), "\n")

	secret := a.session(t, map[string]any{"name": "canary-of-a", "labels": map[string]string{"canary": "canary-of-a"}})
	const forged = "true canary-of-a \n\nevent: gap\ndata: {}\n\n"
	secret.run(t, forged)
	a.workspace(t, "canary-of-a")
	secret.snapshot(t, map[string]any{"name": "canary-of-a"})
	for _, line := range told(t, ofA, "snapshot.created") {
		name, value, _ := strings.Cut(line, ": ")
		var event struct{ Type string }
		switch {
		case line == "event: gap":
			t.Error("a command's text became an event")
		case name == "data" && json.Unmarshal([]byte(value), &event) != nil:
			t.Errorf("data %q", value)
		}
	}
	own.session(t, map[string]any{"name": "of-b"})
	again := b.events(t, "/v1/events?since="+since)
	for name, lines := range map[string]<-chan string{"from before": ofB, "resumed": again} {
		for _, line := range told(t, lines, `"status":"running"`) {
			if strings.Contains(line, "canary-of-a") || strings.Contains(line, secret.id) || strings.Contains(line, `"watched"`) {
				t.Errorf("%s: the stream has %s", name, line)
			}
		}
	}
	b.do(t, "GET", "/v1/events?session="+secret.id, nil).refused(t, "another owner's session", 404)
	b.do(t, "GET", "/v1/events?session=canary-of-a", nil).refused(t, "another owner's session by its name", 404)
	b.do(t, "GET", "/v1/events?owner=watched", nil).refused(t, "another owner", 403)
	for _, kind := range []string{"image", "pool", "account", "session,account"} {
		b.do(t, "GET", "/v1/events?types="+kind, nil).refused(t, kind, 403)
	}
	for _, id := range []string{"x", "-1", "a-b", strings.Repeat("9", 64), "a-99999999999999999999", "%00-1", "a-1%0aevent:x"} {
		b.do(t, "GET", "/v1/events?since="+id, nil).refused(t, id, 400)
	}
	as(t, s.d, "").do(t, "GET", "/v1/events", nil).refused(t, "no key", 401)

	s.admin(t).do(t, "DELETE", "/v1/keys/"+follower.ID, nil).refused(t, "revoke the key", 200)
	for name, lines := range map[string]<-chan string{"from before": ofB, "resumed": again} {
		patience := time.After(paced(10 * time.Second))
		for open := true; open; {
			select {
			case _, open = <-lines:
			case <-patience:
				t.Fatalf("%s: the key is revoked, and the stream goes on", name)
			}
		}
	}
}
