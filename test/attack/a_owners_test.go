package attack

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// document is what the daemon says of its API.
type document struct {
	Paths      map[string]map[string]operation
	Components struct {
		Schemas map[string]schema
	}
}

type operation struct {
	ID         string `json:"operationId"`
	Parameters []struct {
		Name, In string
		Schema   schema
	}
	RequestBody struct {
		Content map[string]struct{ Schema schema }
	}
}

type schema struct {
	Ref        string `json:"$ref"`
	Type       any
	Properties map[string]schema
}

// document reads it.
func (c *caller) document(t testing.TB) (d document) {
	t.Helper()
	if err := json.Unmarshal([]byte(c.do(t, "GET", "/openapi.json", nil).body), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// body is the schema of an operation's JSON, nil if it takes none.
func (d document) body(o operation) *schema {
	media, ok := o.RequestBody.Content["application/json"]
	if !ok {
		return nil
	}
	s := media.Schema
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		s = d.Components.Schemas[name]
	}
	return &s
}

// calls is a request that each operation would carry out for whom it belongs
// to: the query, or the body if it begins with a brace. Operations on one thing
// must be here, or A02 fails.
var calls = map[string]string{
	"get-session": "", "destroy-session": "", "get-stats": "", "get-stats-history": "", "heartbeat": "", "resume-session": "", "stop-session": "", "start-session": "",
	"update-session": `{"ttl_seconds":60}`, "pause-session": `{}`, "fork-session": `{"count":1}`, "create-snapshot": `{"name":"stolen"}`,
	"exec": `{"cmd":"touch stolen"}`, "exec-stream": `{"cmd":"touch stolen"}`, "exec-events": "cmd=touch+stolen",
	"list-execs": "", "get-exec": "", "cancel-exec": "", "exec-output": "", "attach-stream": "",
	"resize-exec": `{"rows":1,"cols":1}`, "signal-exec": `{"signal":9}`, "exec-stdin": `{"data":"stolen"}`, "wait-exec": `{"timeout_ms":1}`,
	"list-processes": "", "get-process": "", "cancel-process": "", "process-output": "", "attach-process-stream": "", "delete-process": "",
	"resize-process": `{"rows":1,"cols":1}`, "signal-process": `{"signal":9}`, "process-stdin": `{"data":"stolen"}`, "wait-process": `{"timeout_ms":1}`,
	"start-process": `{"cmd":["touch","stolen"]}`, "process-stream": `{"cmd":["touch","stolen"]}`, "list-shells": "", "close-shell": "",
	"open-terminal": "cmd=touch+stolen", "open-tunnel": "port=80", "list-ports": "", "create-preview": `{"port":80}`, "watch-files": "path=.",
	"get-snapshot": "", "delete-snapshot": "", "download-snapshot": "", "get-workspace": "", "delete-workspace": "force=true",
	"workspace-files": "path=.",
	"get-network":     "", "set-network": `{"mode":"internet"}`, "allow-network": `{"entries":["stolen.example.org"]}`, "get-network-log": "", "follow-network-log": "",
	"create-context": `{"language":"python"}`, "list-contexts": "", "get-context": "", "interrupt-context": "", "restart-context": "", "delete-context": "",
	"run-in-context": `{"code":"stolen"}`, "run-in-context-stream": `{"code":"stolen"}`, "run-code": `{"code":"stolen"}`, "run-code-stream": `{"code":"stolen"}`,
	"get-run": "", "follow-run": "",
	"get-user": "", "get-user-usage": "", "update-user": `{"email":"thief@example.org"}`, "delete-user": "", "revoke-key": "",
}

// fileOperations is calls for files of a session, and those of a workspace,
// whose ids begin with "workspace-".
var fileOperations = map[string]string{
	"read-file": "path=secret", "stat-file": "path=secret", "list-files": "path=.", "find-files": "path=.&pattern=*", "search-files": "path=.&pattern=e",
	"download-archive": "path=.&format=tar", "upload-archive": "path=.&format=tar", "write-file-raw": "path=stolen", "upload-files": "",
	"write-file": `{"path":"stolen","text":"x"}`, "change-mode": `{"path":"secret","mode":"0777"}`, "copy-file": `{"from":"secret","to":"stolen"}`,
	"move-file": `{"from":"secret","to":"stolen"}`, "delete-file": `{"path":"secret"}`, "edit-file": `{"path":"secret","old":"e","new":"x"}`,
	"make-directory": `{"path":"stolen"}`,
}

// callOf is the request for an operation.
func callOf(id string) (call string, ok bool) {
	if call, ok = calls[id]; !ok {
		call, ok = fileOperations[strings.TrimPrefix(id, "workspace-")]
	}
	return call, ok
}

// send makes a request of callOf.
func (c *caller) send(t testing.TB, method, path, id, call string, edits ...edit) reply {
	t.Helper()
	var body any
	switch {
	case strings.HasPrefix(call, "{"):
		body = call
	case call != "":
		path += "?" + call
	}
	if id == "upload-files" || id == "workspace-upload-files" {
		body = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"stolen\"\r\n\r\nx\r\n--x--\r\n"
		edits = append(edits, header("Content-Type", "multipart/form-data; boundary=x"))
	}
	if method == http.MethodPut && !strings.HasPrefix(call, "{") {
		body = string(tarOf(t, entry{name: "stolen"}))
		edits = append(edits, header("Content-Type", "application/x-tar"))
	}
	if id == "open-terminal" || id == "open-tunnel" {
		edits = append(edits, header("Connection", "Upgrade"), header("Upgrade", "websocket"),
			header("Sec-WebSocket-Version", "13"), header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="))
	}
	return c.do(t, method, path, body, edits...)
}

// A02: what belongs to the key of one owner does not exist for that of another,
// in every operation that names it. The operations are those that the daemon
// itself lists.
func TestA02_ForeignIDs(t *testing.T) {
	s := stage(t, "")
	b := s.a.session(t, map[string]any{"name": "of-the-first-owner"})
	b.put(t, "secret", "text of the first owner")
	execID := b.run(t, "echo secret").ExecID
	workspace := "w" + b.id
	s.a.workspace(t, workspace).put(t, "secret", "text of the first owner")
	snapshot := b.snapshot(t, nil)
	theirs := s.b.session(t, nil)
	doc := s.a.document(t)
	ids := map[string]string{"/v1/sessions/{id}": b.id, "/v1/snapshots/{id}": snapshot, "/v1/workspaces/{id}": workspace}
	tried := 0
	for _, pattern := range slices.Sorted(maps.Keys(doc.Paths)) {
		if !strings.Contains(pattern, "{") {
			continue // A15 is about lists, and creation is below
		}
		if strings.HasPrefix(pattern, "/v1/image") {
			continue // images have no owner: TestOthersMayNotChangeImages and TestOthersSeeAllowedImages
		}
		if strings.HasPrefix(pattern, "/v1/secrets/") {
			continue // each owner has names of their own, so none is another's: internal/api/v1.TestSecretOwners
		}
		if strings.HasPrefix(pattern, "/v1/scopes/") {
			continue // the same holds for scopes: internal/scope.TestScopesAreTheirOwners
		}
		for method, o := range doc.Paths[pattern] {
			call, ok := callOf(o.ID)
			if !ok {
				t.Errorf("%s %s (%s) has no entry in calls: add one, and see that another owner's id is a 404", method, pattern, o.ID)
				continue
			}
			path := strings.NewReplacer("{exec_id}", execID, "{ctx}", execID, "{run_id}", execID, "{name}", "default").Replace(pattern)
			for prefix, id := range ids {
				path = strings.Replace(path, prefix, strings.Replace(prefix, "{id}", id, 1), 1)
			}
			method = strings.ToUpper(method)
			a := s.b.send(t, method, path, o.ID, call)
			a.refused(t, method+" "+path, 404)
			if strings.Contains(a.body, "first owner") || !strings.Contains(a.body, `"not_found"`) {
				t.Errorf("%s %s: %s", method, path, a.body)
			}
			tried++
			never := strings.NewReplacer(b.id, strings.Repeat("a", 26), snapshot, strings.Repeat("a", 26), workspace, "w"+strings.Repeat("a", 26)).Replace(path)
			if other := s.b.send(t, method, never, o.ID, call); refusal(a.body) != refusal(other.body) {
				t.Errorf("%s %s: %s; of one that never was: %s", method, path, a.body, other.body)
			}
			if strings.HasPrefix(pattern, "/v1/sessions/{id}") {
				for _, ref := range []string{"of-the-first-owner", b.id[:10], b.id[:25]} {
					other := strings.Replace(path, b.id, ref, 1)
					s.b.send(t, method, other, o.ID, call).refused(t, method+" "+other, 404)
				}
			}
			// The first owner's command by way of the second one's session.
			if strings.Contains(pattern, "{exec_id}") || strings.Contains(pattern, "{ctx}") {
				s.b.send(t, method, strings.Replace(path, b.id, theirs.id, 1), o.ID, call).refused(t, method+" "+path+" of the second owner's session", 404)
			}
		}
	}
	if tried < 75 {
		t.Errorf("only %d operations were tried", tried)
	}
	for _, path := range []string{b.at("/ports/80/"), b.at("/ports/80/x?y=z")} {
		for _, method := range []string{"GET", "POST", "DELETE", "PROPFIND"} {
			s.b.do(t, method, path, nil).refused(t, method+" "+path, 404)
		}
	}
	s.b.do(t, "POST", "/v1/sessions", map[string]any{"restore_snapshot_id": snapshot}).refused(t, "restore", 404, 422, 400)
	s.ownWorkspace(t, workspace)
	if got := b.sh(t, "ls; cat secret"); got != "secret\ntext of the first owner" {
		t.Errorf("afterwards the first owner's session has %q", got)
	}
	if got := s.a.do(t, "GET", "/v1/workspaces/"+workspace+"/fs/read?path=secret&raw=1", nil); got.body != "text of the first owner" {
		t.Errorf("and the workspace %d %q", got.status, got.body)
	}
	s.a.do(t, "GET", "/v1/snapshots/"+snapshot, nil).refused(t, "the first owner's snapshot", 200)
}

// ownWorkspace sees that a workspace of the same id is the second owner's own.
func (s *scene) ownWorkspace(t testing.TB, id string) {
	t.Helper()
	mine := s.b.session(t, map[string]any{"workspace_id": id})
	if got := mine.sh(t, "ls -A"); got != "" {
		t.Errorf("by the id of the first owner's workspace the second one sees %q", got)
	}
	mine.end(t)
	s.b.do(t, "DELETE", "/v1/workspaces/"+id, nil).refused(t, "remove the second owner's", 200)
}

// drive is a workspace of a caller, with files of its own.
type drive struct {
	*caller
	id string
}

// workspace makes one, which goes with the test.
func (c *caller) workspace(t testing.TB, id string) *drive {
	t.Helper()
	c.do(t, "POST", "/v1/workspaces", map[string]any{"id": id}).refused(t, "make a workspace", 201)
	t.Cleanup(func() { c.forget(t, "/v1/workspaces/"+id+"?force=true") })
	return &drive{c, id}
}

func (w *drive) put(t testing.TB, path, text string) {
	t.Helper()
	w.do(t, "POST", "/v1/workspaces/"+w.id+"/fs/write", map[string]any{"path": path, "text": text}).refused(t, "write", 200)
}

// A15: pages and filters have bounds, cursors of another's making lead nowhere,
// and lists have nothing of another owner's.
func TestA15_Lists(t *testing.T) {
	s := stage(t, "")
	b := s.a.session(t, map[string]any{"labels": map[string]string{"secret": "text of the first owner"}})
	b.sh(t, `touch a b c`)
	b.snapshot(t, map[string]any{"name": "the-first-owners"})
	s.a.workspace(t, "the-first-owners")
	var theirs []struct{ Cursor string }
	s.a.do(t, "GET", "/v1/sessions?limit=1", nil).into(t, &theirs)
	if len(theirs) != 1 || theirs[0].Cursor == "" {
		t.Fatalf("a page of the first owner: %+v", theirs)
	}
	for _, path := range []string{
		"/v1/sessions", "/v1/sessions?include_ended=true", "/v1/sessions?owner=a&usage=true", "/v1/sessions?search=first", "/v1/sessions?label=secret",
		"/v1/sessions?sort=-activity&limit=5", "/v1/sessions?limit=5&after=" + theirs[0].Cursor, "/v1/workspaces", "/v1/snapshots", "/v1/snapshots?session_id=" + b.id,
		"/v1/snapshots?name=the-first-owners", "/v1/snapshots?name=%25", "/v1/snapshots?name=the%25", "/v1/snapshots?session_id=%25", "/v1/snapshots?name=_",
	} {
		a := s.b.do(t, "GET", path, nil)
		a.sane(t, path, b.id, "first owner", "the-first-owners")
		if a.status != 200 && a.status != 400 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	as(t, s.d, s.d.Key).do(t, "GET", "/metrics", nil).hides(t, "/metrics", b.id, "first owner", "the-first-owners")
	for _, query := range []string{
		"limit=-1", "limit=0", "limit=1000000000", "limit=9223372036854775808", "limit=1e3", "depth=0", "depth=-2", "depth=99999999999999999999",
		"cursor=%21", "cursor=Li4vYQ", "cursor=L2V0Yw", "cursor=YQBi", "cursor=YS8uLi9i", "cursor=" + strings.Repeat("YQ", 5000), "unknown=1",
	} {
		b.do(t, "GET", b.at("/fs/list?"+query), nil).refused(t, query, 400)
	}
	var page struct {
		Entries []struct{ Name string }
	}
	// A cursor that names what is not there is a place between two names.
	b.do(t, "GET", b.at("/fs/list?limit=1&cursor=YWE"), nil).into(t, &page)
	if len(page.Entries) != 1 || page.Entries[0].Name != "b" {
		t.Errorf("behind aa there are %v", page.Entries)
	}
	for query, status := range map[string]int{"since_seq=-1": 400, "max_chunks=0": 400, "max_chunks=1000000": 400, "wait_ms=99999999999": 400} {
		b.do(t, "GET", b.at("/execs/"+b.run(t, "true").ExecID+"/output?"+query), nil).refused(t, query, status)
	}
	for _, query := range []string{"include_ended=2", "limit=0", "limit=1001", "sort=owner", "status=gone", "after=%21", "unknown=1"} {
		s.b.do(t, "GET", "/v1/sessions?"+query, nil).refused(t, query, 400)
	}
}

// A03: what is no id of that kind is a 404 or 400 and reaches no file.
func TestA03_OddIDs(t *testing.T) {
	s := stage(t, "")
	b := s.a.session(t, nil)
	execID := b.run(t, "true").ExecID
	snapshot := b.snapshot(t, nil)
	odd := []string{
		"..", ".", "..%2f..%2f..%2fetc%2fpasswd", "..%5c..%5cx", "%2e%2e", "%00", b.id + "%00", "x", strings.Repeat("a", 10000), strings.ToUpper(b.id), b.id + "%20", "%20" + b.id,
		b.id[:2], b.id[1:], b.id + "a", "'%20or%201=1--", "%25", "_%25", strings.Repeat("_", 26), "*", execID, snapshot, "null", "-1", "0", "%ff%fe", "%0d%0aX:y", b.id + "/../" + b.id, "%252e%252e",
		"$(reboot)", ";reboot", "{id}", strings.Repeat("a", 26),
	}
	for _, id := range odd {
		for _, path := range []string{
			"/v1/sessions/" + id, "/v1/sessions/" + id + "/fs/read?path=a", "/v1/sessions/" + id + "/execs", "/v1/sessions/" + id + "/ports/80/",
			"/v1/snapshots/" + id, "/v1/snapshots/" + id + "/download", "/v1/workspaces/" + id, "/v1/workspaces/" + id + "/fs/list",
			b.at("/execs/" + id), b.at("/execs/" + id + "/stream"), b.at("/processes/" + id + "/output"), b.at("/fs/" + id),
		} {
			if strings.HasPrefix(path, "/v1/snapshots/"+snapshot) || strings.HasPrefix(path, b.at("/execs/"+execID)) || strings.HasPrefix(path, b.at("/processes/"+execID)) || strings.Contains(path, b.id+"/../") {
				continue // that is one of that kind
			}
			a, err := s.a.try(t, "GET", path, nil)
			if err != nil {
				t.Errorf("%.100s: %v", path, err)
				continue
			}
			a.refused(t, path, 400, 404, 405, 307, 308, 301)
			if strings.Contains(a.body, "root:") || strings.Contains(a.body, s.d.Data) {
				t.Errorf("%.100s: %s", path, a.body)
			}
		}
		s.a.do(t, "DELETE", "/v1/sessions/"+id, nil).sane(t, "DELETE "+id)
		s.a.do(t, "POST", "/v1/sessions/"+id+"/exec", `{"cmd":"true"}`).sane(t, "exec in "+id)
	}
	for _, id := range []string{"../x", "a/b", "", ".", "..", "a\x00b", strings.Repeat("w", 65), "a b", "a\nb", "%"} {
		for field, path := range map[string]string{"name": "/v1/sessions", "workspace_id": "/v1/sessions", "restore_snapshot_id": "/v1/sessions", "id": "/v1/workspaces"} {
			s.a.do(t, "POST", path, map[string]any{field: id}).refused(t, fmt.Sprintf("%s %q", field, id), 400, 404)
		}
	}
}

var requestIDs = regexp.MustCompile(`,"request_id":"[^"]*"`)

// refusal is the body of a refusal without what differs for each request.
func refusal(body string) string { return requestIDs.ReplaceAllString(body, "") }
