package orchestrator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/session"
)

func TestSessionHasAllFields(t *testing.T) {
	s := start(t)
	made := s.do("POST", base+"/", `{"id":"`+strings.ToUpper(someID)+`","mode":"docker","memory":"64Mi","metadata":{"task":42},"unknown":1}`)
	if made.status != http.StatusCreated || made.header.Get("Location") != someID {
		t.Fatalf("%d %s, Location %q", made.status, made.body, made.header.Get("Location"))
	}
	var got object
	if err := json.Unmarshal([]byte(made.body), &got); err != nil {
		t.Fatal(err)
	}
	stamps := regexp.MustCompile(`^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
	for _, name := range []string{"last_activity_at", "last_heartbeat_at", "expires_at", "created_at", "updated_at"} {
		if text, _ := got[name].(string); !stamps.MatchString(text) {
			t.Errorf("%s is %v", name, got[name])
		}
		delete(got, name)
	}
	ref, _ := got["ref"].(string)
	core := strings.TrimPrefix(ref, "docker://")
	want := object{
		"id": someID, "mode": "docker", "image": "base", "cpu": "", "memory": "64Mi", "ephemeral_storage": "", "restore_snapshot_id": nil,
		"status": "ready", "ref": "docker://" + core, "control_endpoint": ref, "workspace_path": "/workspace", "artifact_base_url": "",
		"workspace_uid": nil, "workspace_name": nil, "idle_timeout_sec": 300.0, "max_lifetime_sec": 3600.0, "error_message": "",
		"metadata": map[string]any{"task": 42.0}, "cpu_seconds": 0.0, "storage_bytes": 0.0, "snapshot_ids": []any{}, "artifacts_count": 0.0,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got)+5 != 27 {
		t.Errorf("%d fields:\n%s", len(got)+5, diff)
	}
	if x, err := s.manager.Sessions.Get(t.Context(), auth.Principal{Owner: "alice"}, session.ID(core)); err != nil || x.Limits.MemoryMB != 64 {
		t.Errorf("%+v, %v", x, err)
	}
	for _, target := range []string{one, one + "/", base + "/" + core} {
		if again := s.object(http.StatusOK, "GET", target, ""); again["id"] != someID {
			t.Errorf("%s: %v", target, again)
		}
	}
	if again := s.object(http.StatusOK, "POST", base, `{"id":"`+someID+`"}`); again["ref"] != ref {
		t.Errorf("reused: %v", again)
	}
}

func TestRequestsWithoutAKeyAreForbidden(t *testing.T) {
	s := start(t)
	for name, test := range map[string]struct {
		edits []edit
		says  string
	}{
		"none":         {[]edit{header("X-Api-Key", "")}, `{"detail":"Authentication credentials were not provided."}`},
		"wrong":        {[]edit{header("X-Api-Key", "nonsense")}, `{"detail":"Invalid API key"}`},
		"wrong bearer": {[]edit{header("X-Api-Key", ""), header("Authorization", "Bearer nonsense")}, `{"detail":"Invalid API key"}`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, target := range []string{base, base + "/", one + "/", "/api/sandbox/nothing/"} {
				if a := s.want(http.StatusForbidden, test.says, "GET", target, "", test.edits...); a.header.Get("WWW-Authenticate") != "" {
					t.Errorf("%s asks for a scheme", target)
				}
			}
		})
	}
	s.want(http.StatusOK, "[]", "GET", base, "", header("X-Api-Key", ""), header("Authorization", "Bearer alice-key"))
}

func TestWrongRequests(t *testing.T) {
	s := start(t)
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	const unknown, uuid = base + "/00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000000"
	for name, test := range map[string]struct {
		method, target, body string
		status               int
		says                 string
	}{
		"id":               {"POST", base, `{"id":"x"}`, 400, `{"id":["Must be a valid UUID."]}`},
		"several":          {"POST", base, `{"idle_timeout_sec":59,"max_lifetime_sec":"x","mode":"podman"}`, 400, `{"idle_timeout_sec":["Ensure this value is greater than or equal to 60."],"max_lifetime_sec":["A valid integer is required."],"mode":["\"podman\" is not a valid choice."]}`},
		"idle over life":   {"POST", base, `{"idle_timeout_sec":"301","max_lifetime_sec":300}`, 400, `{"non_field_errors":["idle_timeout_sec cannot exceed max_lifetime_sec"]}`},
		"text":             {"POST", base, `{"image":["a"],"metadata":[1]}`, 400, `{"image":["Not a valid string."],"metadata":["Expected a dictionary of items but got type \"list\"."]}`},
		"memory":           {"POST", base, `{"memory":"2 apples"}`, 400, `{"memory":["must be an amount, as 512Mi or 2Gi"]}`},
		"mode":             {"POST", base, `{"mode":"k8s"}`, 501, `{"detail":"mode k8s is not there yet"}`},
		"image":            {"POST", base, `{"image":"missing","mode":"docker"}`, 400, `{"detail":"Failed to provision Docker sandbox: no image \"missing\""}`},
		"snapshot":         {"POST", base, `{"restore_snapshot_id":"` + uuid + `"}`, 404, `{"detail":"Snapshot not found"}`},
		"list":             {"POST", base, `[1]`, 400, `{"non_field_errors":["Invalid data. Expected a dictionary, but got list."]}`},
		"unknown session":  {"GET", unknown + "/", ``, 404, `{"detail":"No SandboxSession matches the given query."}`},
		"no uuid":          {"GET", base + "/x/", ``, 404, `{"detail":"Not found."}`},
		"no path":          {"GET", "/api/sandbox/nothing", ``, 404, `{"detail":"Not found."}`},
		"method":           {"PUT", one + "/", ``, 405, `{"detail":"Method \"PUT\" not allowed."}`},
		"no command":       {"POST", one + "/exec/", `{}`, 400, `{"command":["This field is required."]}`},
		"command":          {"POST", one + "/shell", `{"command":3}`, 400, `{"command":["Must be a string or list of strings"]}`},
		"long timeout":     {"POST", one + "/shell", `{"command":"true","timeout_sec":99999}`, 400, `{"timeout_sec":["Ensure this value is less than or equal to 600."]}`},
		"no path to write": {"POST", one + "/upload/", `{"content":"x"}`, 400, `{"path":["This field is required."]}`},
		"blank path":       {"POST", one + "/upload/", `{"path":"","content":null}`, 400, `{"content":["This field may not be null."],"path":["This field may not be blank."]}`},
		"base64":           {"POST", one + "/upload/", `{"path":"a","content":"?","encoding":"base64"}`, 400, `["Invalid base64 content"]`},
		"no query":         {"POST", one + "/files/upload/", `x`, 400, `{"detail":"path is required"}`},
		"nothing to read":  {"GET", one + "/files/content/", ``, 400, `{"detail":"path is required"}`},
		"export":           {"POST", one + "/files/export/", `{"path":"a"}`, 400, `{"detail":"Failed to read file a: \"a\" does not exist"}`},
		"export no path":   {"POST", one + "/files/export/", `{}`, 400, `{"path":["This field is required."]}`},
		"export fields":    {"POST", one + "/files/export/", `{"path":"a","filename":"\n","content_type":"x"}`, 400, `{"content_type":["Must be a media type, as text/plain."],"filename":["Control characters are not allowed."]}`},
		"base url":         {"POST", base, `{"artifact_base_url":"ftp://a"}`, 400, `{"artifact_base_url":["Enter a valid URL."]}`},
		"no artifact":      {"GET", "/api/sandbox/artifacts/" + uuid + "/download", ``, 404, `{"detail":"Not found."}`},
		"artifacts":        {"GET", one + "/artifacts/", ``, 200, `{"session_id":"` + someID + `","artifacts":[]}`},
		"mouse":            {"POST", one + "/input/mouse/", `{}`, 501, `{"detail":"Mouse input not yet implemented in the sandbox daemon"}`},
		"keyboard":         {"POST", one + "/input/keyboard/", `{}`, 501, `{"detail":"Keyboard input not yet implemented in the sandbox daemon"}`},
		"screenshot":       {"GET", one + "/screenshot/", ``, 501, `{"detail":"Screenshots require a desktop in the sandbox"}`},
		"view":             {"GET", one + "/stream/view/", ``, 501, `{"detail":"Live view streaming requires sandbox daemon integration"}`},
		"foreign view":     {"GET", unknown + "/stream/view/", ``, 404, `{"detail":"No SandboxSession matches the given query."}`},
		"paths":            {"POST", one + "/snapshot/", `{"include_paths":"a","exclude_paths":[1]}`, 400, `{"exclude_paths":["Not a valid string."],"include_paths":["Expected a list of items but got type \"str\"."]}`},
		"unknown shot":     {"GET", one + "/snapshots/" + uuid + "/", ``, 404, `{"detail":"Snapshot not found"}`},
	} {
		t.Run(name, func(t *testing.T) { s.want(test.status, test.says, test.method, test.target, test.body) })
	}
	if a := s.do("POST", base, `{"id":`); a.status != 400 || !strings.HasPrefix(a.body, `{"detail":"JSON parse error - `) {
		t.Errorf("%d %s", a.status, a.body)
	}
	s.want(415, `{"detail":"Unsupported media type \"text/plain\" in request."}`, "POST", base, `{}`, header("Content-Type", "text/plain"))
	if a := s.do("POST", base, `{}`, header("Content-Type", "")); a.status != http.StatusCreated {
		t.Errorf("%d %s", a.status, a.body)
	}
	s.want(415, `{"detail":"Unsupported media type \"\" in request."}`, "POST", base, `{}`, header("Content-Type", ""), header("Sec-Fetch-Site", "same-origin"))
	if a := s.do("POST", one+"/upload/", `{"path":"a","content":"`+strings.Repeat("x", 1<<20)+`"}`); a.status != 413 || !strings.HasPrefix(a.body, `{"detail":`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestForeignSessionsDoNotExist(t *testing.T) {
	s := start(t)
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	const says = `{"detail":"No SandboxSession matches the given query."}`
	bob := header("X-Api-Key", "bob-key")
	for _, call := range [][2]string{
		{"GET", ""},
		{"DELETE", ""},
		{"POST", "/stop"},
		{"POST", "/heartbeat"},
		{"GET", "/snapshots"},
		{"POST", "/snapshots"},
		{"GET", "/artifacts"},
		{"GET", "/files/content?path=a"},
		{"GET", "/screenshot"},
		{"POST", "/files/export"},
		{"GET", "/snapshots/" + someID},
	} {
		s.want(http.StatusNotFound, says, call[0], one+call[1], "", bob)
	}
	s.want(http.StatusNotFound, says, "POST", one+"/exec", `{"command":"true"}`, bob)
	s.want(http.StatusNotFound, says, "POST", one+"/upload", `{"path":"a","content":"x"}`, bob)
	s.want(http.StatusNotFound, says, "POST", one+"/files/upload?path=a", `x`, bob)
	s.want(http.StatusNotFound, says, "POST", base, `{"id":"`+someID+`"}`, bob)
	s.want(http.StatusOK, `[]`, "GET", base, "", bob)
	if got := s.object(http.StatusOK, "GET", one, ""); got["status"] != "ready" {
		t.Errorf("%v", got)
	}
}

// Of two headers with keys one valid key is enough, and two owners' keys are nobody's.
func TestEitherHeaderMayHaveTheKey(t *testing.T) {
	s := start(t)
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	bearer := func(text string) edit { return header("Authorization", text) }
	for about, edits := range map[string][]edit{
		"a wrong key beside it":        {bearer("Bearer nonsense")},
		"a token of another service":   {bearer("Token 0123456789abcdef")},
		"the same key":                 {bearer("Bearer alice-key")},
		"the other header is wrong":    {bearer("Bearer alice-key"), header("X-Api-Key", "nonsense")},
		"the other header is too long": {bearer("Bearer alice-key"), header("X-Api-Key", strings.Repeat("x", 600))},
	} {
		if got := s.do("GET", one, "", edits...); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", about, got.status, got.body)
		}
	}
	for about, edits := range map[string][]edit{
		"keys of two owners": {bearer("Bearer bob-key")},
		"two wrong keys":     {bearer("Bearer x"), header("X-Api-Key", "y")},
	} {
		if got := s.do("GET", one, "", edits...); got.status != http.StatusForbidden || !strings.Contains(got.body, "Invalid API key") {
			t.Errorf("%s: %d %s", about, got.status, got.body)
		}
	}
}

func TestExec(t *testing.T) {
	s := start(t)
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	for name, test := range map[string]struct {
		body, stdout, stderr string
		code                 float64
	}{
		"both outputs": {`{"command":"echo out; echo err >&2; exit 3"}`, "out\n", "err\n", 3},
		"words":        {`{"command":["printf","%s|","a b","it's"]}`, "a b|it's|", "", 0},
		"directory":    {`{"command":"pwd; true","cwd":"/tmp"}`, "/tmp\n", "", 0},
		"left out":     {`{"command":"echo out; echo err >&2","capture_stdout":false,"capture_stderr":false}`, "", "", 0},
		"heredoc":      {`{"command":"cat <<'E'\n$x\nE"}`, "$x\n", "", 0},
		"no text":      {`{"command":"printf 'a\\377\\r\\n'"}`, "a\uFFFD\r\n", "", 0},
		"time":         {`{"command":"cd / && echo begun && sleep 60","timeout_sec":1}`, "begun\n", "", 124},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.object(http.StatusOK, "POST", one+"/shell/", test.body)
			if _, there := got["duration_sec"].(float64); !there {
				t.Errorf("it took %v", got["duration_sec"])
			}
			delete(got, "duration_sec")
			if diff := cmp.Diff(object{"exit_code": test.code, "stdout": test.stdout, "stderr": test.stderr}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	got := s.object(http.StatusOK, "POST", one+"/exec", `{"command":"echo no","cwd":"/does/not/exist"}`)
	if text, _ := got["stderr"].(string); got["exit_code"] == 0.0 || got["stdout"] != "" || !strings.Contains(text, "/does/not/exist") {
		t.Errorf("%v", got)
	}
}

func TestFilesAreKeptByteForByte(t *testing.T) {
	s := start(t)
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	const done = `{"exit_code":0,"stdout":"","stderr":""}`
	const strange = " \n\x00\xff\r\n "
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	if err := parts.WriteField("note", "no file"); err != nil {
		t.Fatal(err)
	}
	part, err := parts.CreateFormFile("file", "x.bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write([]byte(strange)); err != nil {
		t.Fatal(err)
	}
	if err := parts.Close(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		target, body, kind, content string
		chunked                     bool
	}{
		"text":    {"/upload/", `{"path":"/workspace/d/a.py","content":"\n import os\n\n"}`, "application/json", "\n import os\n\n", false},
		"empty":   {"/upload/", `{"path":"empty","content":""}`, "application/json", "", false},
		"base64":  {"/upload", `{"path":"b","content":"IAr/IA==","encoding":"base64"}`, "application/json", " \n\xff ", false},
		"raw":     {"/files/upload/?path=/workspace/raw", strange, "application/octet-stream", strange, false},
		"chunked": {"/files/upload/?path=chunked", strange, "", strange, true},
		"form":    {"/files/upload/?path=form", form.String(), parts.FormDataContentType(), strange, false},
	} {
		t.Run(name, func(t *testing.T) {
			s.want(http.StatusOK, done, "POST", one+test.target, test.body, header("Content-Type", test.kind), func(r *http.Request) {
				if test.chunked {
					r.ContentLength = -1
				}
			})
			_, path, _ := strings.Cut(test.target, "path=")
			if path == "" {
				var body struct{ Path string }
				if err := json.Unmarshal([]byte(test.body), &body); err != nil {
					t.Fatal(err)
				}
				path = body.Path
			}
			got := s.do("GET", one+"/files/content/?path="+path, "")
			if got.body != test.content || got.status != 200 || got.header.Get("Content-Type") != "application/octet-stream" {
				t.Errorf("%d %q, %v; want %q", got.status, got.body, got.header, test.content)
			}
		})
	}
	got := s.do("GET", one+`/files/content?path=b&filename=%22%C3%A4%0A.txt`, "")
	if disposition := got.header.Get("Content-Disposition"); disposition != `attachment; filename*=utf-8''%22%C3%A4%0A.txt` {
		t.Errorf("Content-Disposition: %s", disposition)
	}
	got = s.do("GET", one+`/files/content?path=b&filename=..%2F..%5C.bashrc`, "")
	if disposition := got.header.Get("Content-Disposition"); disposition != "attachment; filename=.bashrc" {
		t.Errorf("Content-Disposition of a path: %s", disposition)
	}
	if got := s.do("GET", one+"/files/content/?path=missing", ""); got.status != 400 || !strings.HasPrefix(got.body, `{"detail":"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	failed := s.object(http.StatusOK, "POST", one+"/upload", `{"path":"/workspace/d","content":"x"}`)
	if text, _ := failed["stderr"].(string); failed["exit_code"] != 1.0 || text == "" {
		t.Errorf("%v", failed)
	}
}

func TestStoppedSessionComesBackWithItsFiles(t *testing.T) {
	s := start(t)
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	s.want(http.StatusOK, `{"exit_code":0,"stdout":"","stderr":""}`, "POST", one+"/upload/", `{"path":"a.txt","content":"kept\n"}`)
	s.want(http.StatusNoContent, "", "POST", one+"/stop/", "")
	s.want(http.StatusNoContent, "", "DELETE", one+"/", "")
	ended := s.object(http.StatusOK, "GET", one, "")
	ids, _ := ended["snapshot_ids"].([]any)
	metadata, _ := ended["metadata"].(map[string]any)
	if ended["status"] != "terminated" || len(ids) != 1 || !cmp.Equal(metadata, map[string]any{"latest_snapshot_id": ids[0]}) {
		t.Fatalf("%v", ended)
	}
	// Neither the list of snapshots nor a heartbeat begins it anew.
	list := s.object(http.StatusOK, "GET", one+"/snapshots/", "")
	beat := s.object(http.StatusOK, "POST", one+"/heartbeat/", "")
	if beat["status"] != "terminated" || len(beat) != 2 {
		t.Errorf("%v", beat)
	}
	shots, _ := list["snapshots"].([]any)
	shot, _ := shots[0].(map[string]any)
	want := []string{"archive_path", "created_at", "exclude_paths", "id", "include_paths", "label", "s3_key", "size_bytes"}
	if got := slices.Sorted(maps.Keys(shot)); !slices.Equal(got, want) || shot["label"] != "auto-stop" || !cmp.Equal(shot["include_paths"], []any{"/workspace"}) {
		t.Errorf("%v", shot)
	}
	again := s.object(http.StatusCreated, "POST", base+"/", `{"id":"`+someID+`"}`)
	if again["restore_snapshot_id"] != ids[0] || again["status"] != "ready" || again["ref"] == ended["ref"] {
		t.Errorf("%v", again)
	}
	s.want(http.StatusOK, "kept", "GET", one+"/files/content/?path=/workspace/a.txt", "")
	if all := s.do("GET", base, ""); !strings.HasPrefix(all.body, `[{"id":"`+someID) || !strings.Contains(all.body, ids[0].(string)) {
		t.Errorf("%s", all.body)
	}
}

func TestSnapshotsOnDemand(t *testing.T) {
	s := start(t)
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	s.object(http.StatusOK, "POST", one+"/shell", `{"command":"mkdir in out; echo 1 > in/a; echo 2 > out/b"}`)
	whole := s.object(http.StatusCreated, "POST", one+"/snapshot/", `{"include_paths":["/workspace/"]}`)
	part := s.object(http.StatusCreated, "POST", one+"/snapshots/", `{"label":"mine","include_paths":["/workspace/in"]}`)
	if whole["label"] != "" || part["label"] != "mine" || !cmp.Equal(part["include_paths"], []any{"/workspace/in"}) {
		t.Errorf("%v and %v", whole, part)
	}
	id, _ := part["id"].(string)
	if got := s.object(http.StatusOK, "GET", one+"/snapshots/"+id+"/", ""); !cmp.Equal(got, part) {
		t.Errorf("%v", got)
	}
	if a := s.do("POST", one+"/snapshot/", `{"label":"\u0000"}`); a.status != 400 || !strings.HasPrefix(a.body, `{"detail":"Snapshot failed: `) {
		t.Errorf("%d %s", a.status, a.body)
	}
	// Another session begins with it.
	other := s.object(http.StatusCreated, "POST", base, `{"restore_snapshot_id":"`+id+`"}`)
	got := s.object(http.StatusOK, "POST", base+"/"+other["id"].(string)+"/exec/", `{"command":"ls"}`)
	if got["stdout"] != "in\n" || other["restore_snapshot_id"] != id {
		t.Errorf("%v in %v", got, other)
	}
}

// A snapshot that is lost or damaged fails once, and is not tried again.
func TestLostSnapshotFailsOnce(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(archive []byte) []byte{
		"missing":               func([]byte) []byte { return nil },
		"cut off":               func(archive []byte) []byte { return archive[:len(archive)/2] },
		"changed in its middle": func(archive []byte) []byte { archive[len(archive)/2] ^= 1; return archive },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
			s.object(http.StatusOK, "POST", one+"/exec", `{"command":"head -c 100000 /dev/urandom > data"}`)
			s.want(http.StatusNoContent, "", "DELETE", one, "")
			ended := s.object(http.StatusOK, "GET", one, "")
			id, _ := ended["snapshot_ids"].([]any)[0].(string)
			s.spoil("snapshots/"+someID+"/"+id+".tar.gz", spoil)
			if a := s.do("POST", one+"/exec", `{"command":"true"}`); a.status != http.StatusBadRequest || !strings.HasPrefix(a.body, `{"detail":"Sandbox was not ready and auto-restore failed: `) {
				t.Errorf("%d %s", a.status, a.body)
			}
			failed := s.object(http.StatusOK, "GET", one, "")
			if metadata, _ := failed["metadata"].(map[string]any); failed["status"] != "failed" || metadata["terminated_reason"] != "restore_failed" {
				t.Errorf("%v", failed)
			}
			again := s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
			if metadata, _ := again["metadata"].(map[string]any); !cmp.Equal(metadata["skipped_snapshot_ids"], []any{id}) || again["restore_snapshot_id"] != nil {
				t.Errorf("%v", again)
			}
			ls := s.object(http.StatusOK, "POST", one+"/exec", `{"command":"ls -A"}`)
			if ls["stdout"] != "" {
				t.Errorf("the workspace has %v", ls)
			}
		})
	}
}

// spoil changes an archive, or removes it if nothing is left.
func (s *server) spoil(key string, change func([]byte) []byte) {
	s.t.Helper()
	r, err := s.blobs.Open(s.t.Context(), key, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	archive, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		s.t.Fatal(err)
	}
	if archive = change(archive); archive == nil {
		err = s.blobs.Delete(s.t.Context(), key)
	} else {
		_, err = s.blobs.Put(s.t.Context(), key, bytes.NewReader(archive))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
