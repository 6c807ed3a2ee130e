package attack

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// seenByAdmins are the operations on a session that an admin does with those of others:
// they show no file, no output and no line of a terminal.
var seenByAdmins = map[string]bool{
	"get-session": true, "get-stats": true, "get-stats-history": true, "get-network": true, "stop-session": true, "destroy-session": true,
}

// A27: an admin sees and ends the sessions of all, and looks into none: not by any
// operation that the daemon lists, and not by a key, a password, a preview, an image or
// a right that the admin gives.
func TestA27_AdminsLookIn(t *testing.T) {
	t.Parallel()
	s := stage(t, anyDaemon)
	operator := s.admin(t)
	operator.do(t, "POST", "/v1/users", map[string]any{"name": "prying", "role": "admin", "password": userPassword}).refused(t, "make an admin", 201)
	s.newUser(t, "private")
	key := func(body string) *caller {
		var made struct{ Key string }
		operator.do(t, "POST", "/v1/keys", body).into(t, &made)
		return as(t, s.d, made.Key)
	}
	admin, run, owner := key(`{"user":"prying","scope":"admin"}`), key(`{"user":"prying","scope":"run"}`), key(`{"user":"private"}`)
	b := owner.session(t, map[string]any{"name": "private"})
	b.put(t, "secret", "text of its owner")
	execID := b.run(t, "echo text of its owner").ExecID

	doc := operator.document(t)
	tried := 0
	for _, pattern := range slices.Sorted(maps.Keys(doc.Paths)) {
		if !strings.HasPrefix(pattern, "/v1/sessions/{id}") {
			continue
		}
		for method, o := range doc.Paths[pattern] {
			call, ok := callOf(o.ID)
			if !ok || seenByAdmins[o.ID] {
				continue // TestA02 wants each in calls
			}
			path := strings.NewReplacer("{id}", b.id, "{exec_id}", execID, "{name}", "default").Replace(pattern)
			method = strings.ToUpper(method)
			if a := admin.send(t, method, path, o.ID, call); a.status != 403 || strings.Contains(a.body, "text of its owner") {
				t.Errorf("%s %s by an admin without the right: %d %.200s", method, path, a.status, a.body)
			}
			run.send(t, method, path, o.ID, call).refused(t, method+" "+path+" by an admin's run key", 404)
			tried++
		}
	}
	if tried < 55 {
		t.Errorf("only %d operations were tried", tried)
	}
	for name, try := range map[string]reply{
		"a key of the user":        admin.do(t, "POST", "/v1/keys", `{"user":"private"}`),
		"a password of the user":   admin.do(t, "PATCH", "/v1/users/private", `{"password":"a password of the admin"}`),
		"the right":                admin.do(t, "PATCH", "/v1/users/prying", `{"inspect":true}`),
		"the right for another":    admin.do(t, "PATCH", "/v1/users/private", `{"inspect":true}`),
		"a server behind its port": admin.do(t, "GET", b.at("/ports/80/"), nil),
		"a copy of it":             admin.do(t, "POST", b.at("/fork"), `{"count":1}`),
		"an image of it":           admin.do(t, "POST", "/v1/images/commit", map[string]any{"name": "stolen", "session_id": b.id}),
	} {
		try.refused(t, name, 403)
	}
	// With the right everything opens, and its owner reads of it.
	operator.do(t, "PATCH", "/v1/users/prying", `{"inspect":true}`).refused(t, "give the right", 200)
	admin.do(t, "GET", b.at("/fs/read?path=secret"), nil).refused(t, "read with the right", 200)
	var told struct {
		Inspections []struct {
			By, What  string
			SessionID string `json:"session_id"`
		}
	}
	owner.do(t, "GET", "/v1/me/inspections", nil).into(t, &told)
	if len(told.Inspections) != 2 || told.Inspections[0].By != "prying" || told.Inspections[0].SessionID != b.id || told.Inspections[1].What != "a key" {
		t.Errorf("its owner is told %+v", told.Inspections)
	}
	operator.do(t, "PATCH", "/v1/users/prying", `{"inspect":false}`).refused(t, "take the right", 200)
	admin.do(t, "GET", b.at("/fs/read?path=secret"), nil).refused(t, "read without the right", 403)
	if got := b.sh(t, "ls; cat secret"); got != "secret\ntext of its owner" {
		t.Errorf("afterwards the session has %q", got)
	}
	admin.do(t, "DELETE", b.at(""), nil).refused(t, "end it", 200)
}
