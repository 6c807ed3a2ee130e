package orchestrator_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// artifacts lists those of the session.
func (s *server) artifacts() []any {
	s.t.Helper()
	list, _ := s.object(http.StatusOK, "GET", one+"/artifacts/", "")["artifacts"].([]any)
	return list
}

// noKey is of requests of strangers.
var noKey = header("X-Api-Key", "")

// stored counts the contents that are kept.
func (s *server) stored() (n int) {
	s.t.Helper()
	for _, err := range s.blobs.List(s.t.Context(), "artifacts/") {
		if err != nil {
			s.t.Fatal(err)
		}
		n++
	}
	return n
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	s.object(http.StatusOK, "POST", one+"/exec", `{"command":"echo one > a.txt; echo two > b"}`)
	first := s.object(http.StatusCreated, "POST", one+"/files/export/", `{"path":"/workspace/a.txt"}`)
	want := object{"filename": "a.txt", "content_type": "application/octet-stream", "size_bytes": 4.0, "storage_path": "/workspace/a.txt"}
	if diff := cmp.Diff(want, first, cmpopts.IgnoreMapEntries(func(key string, _ any) bool { return key == "id" || key == "download_url" || key == "created_at" })); diff != "" {
		t.Error(diff)
	}
	second := s.object(http.StatusCreated, "POST", one+"/files/export/", `{"path":"b","filename":"r\u00e9sum\u00e9 \"1\".html","content_type":"text/html; charset=utf-8"}`)
	link, _ := second["download_url"].(string)
	s.object(http.StatusCreated, "POST", one+"/files/export/", `{"path":"a.txt","filename":"again"}`)
	if s.stored() != 2 {
		t.Errorf("%d contents are kept of two files", s.stored())
	}
	if x := s.object(http.StatusOK, "GET", one, ""); x["artifacts_count"] != 3.0 {
		t.Errorf("%v", x)
	}
	s.object(http.StatusOK, "POST", one+"/exec", `{"command":"echo changed > b"}`)
	s.want(http.StatusNoContent, "", "DELETE", one, "")
	list := s.artifacts()
	if len(list) != 3 || list[0].(map[string]any)["filename"] != "again" || list[2].(map[string]any)["id"] != first["id"] {
		t.Errorf("%v", list)
	}
	a := s.want(http.StatusOK, "two", "GET", link, "", noKey)
	for name, value := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": "sandbox", "X-Content-Type-Options": "nosniff",
		"Content-Disposition": "attachment; filename*=utf-8''r%C3%A9sum%C3%A9%20%221%22.html", "Content-Length": "4",
	} {
		if a.header.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, a.header.Get(name), value)
		}
	}
	if a := s.do("HEAD", link, "", noKey); a.status != http.StatusOK || a.body != "" {
		t.Errorf("HEAD: %d %q", a.status, a.body)
	}
}

func TestArtifactLinks(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	s.object(http.StatusOK, "POST", one+"/exec", `{"command":"echo one > a; echo two > b"}`)
	made := s.object(http.StatusCreated, "POST", one+"/files/export", `{"path":"a"}`)
	other := s.object(http.StatusCreated, "POST", one+"/files/export", `{"path":"b"}`)
	link, _ := made["download_url"].(string)
	plain, query, _ := strings.Cut(link, "?")
	otherPlain, _, _ := strings.Cut(other["download_url"].(string), "?")
	const invalid = `{"detail":"this link is not valid: ask for the session's artifacts to get another one"}`
	later := strings.Replace(query, "expires=", "expires=1", 1)
	for name, target := range map[string]string{
		"of another artifact": otherPlain + "?" + query,
		"with a later end":    plain + "?" + later,
		"of another key":      plain + "?" + strings.Replace(query, "key=a", "key=b", 1),
		"changed":             link[:len(link)-1] + map[bool]string{true: "0", false: "1"}[link[len(link)-1] != '0'],
		"without its end":     plain + "?signature=" + strings.TrimPrefix(query, "x"),
		"empty":               plain + "?expires=&signature=",
	} {
		t.Run(name, func(t *testing.T) {
			if a := s.do("GET", target, "", noKey); a.status != http.StatusForbidden || strings.TrimSpace(a.body) != invalid {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	s.want(http.StatusForbidden, `{"detail":"Authentication credentials were not provided."}`, "GET", plain, "", noKey)
	s.want(http.StatusOK, "one", "GET", plain, "")
	s.want(http.StatusNotFound, `{"detail":"Not found."}`, "GET", plain, "", header("X-Api-Key", "bob-key"))
	s.want(http.StatusNotFound, `{"detail":"No SandboxSession matches the given query."}`, "GET", one+"/artifacts/", "", header("X-Api-Key", "bob-key"))
	s.want(http.StatusNotFound, `{"detail":"No SandboxSession matches the given query."}`, "POST", one+"/files/export/", `{"path":"a"}`, header("X-Api-Key", "bob-key"))
}

// A link ends with the key or the sign-in of a user that it was made with, and with
// nothing else of the user's.
func TestArtifactLinksEndWithWhatMadeThem(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.newUser("dora")
	cookies, token := s.login("dora")
	csrf := header("X-CSRFToken", token)
	made := s.object(http.StatusCreated, "POST", "/api/api-keys/", `{"name":"laptop"}`, cookies, csrf)
	byKey := header("X-Api-Key", made["key"].(string))
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`, byKey)
	s.object(http.StatusOK, "POST", one+"/exec", `{"command":"echo one > a"}`, byKey)
	ofKey, _ := s.object(http.StatusCreated, "POST", one+"/files/export", `{"path":"a"}`, byKey)["download_url"].(string)
	list, _ := s.object(http.StatusOK, "GET", one+"/artifacts/", "", cookies)["artifacts"].([]any)
	if len(list) != 1 {
		t.Fatalf("%v", list)
	}
	ofSignIn, _ := list[0].(map[string]any)["download_url"].(string)
	check := func(link string, want int) {
		t.Helper()
		if a := s.do("GET", link, "", noKey); a.status != want {
			t.Errorf("%s: %d %s, want %d", link, a.status, a.body, want)
		}
	}
	check(ofKey, http.StatusOK)
	check(ofSignIn, http.StatusOK)
	s.want(http.StatusNoContent, "", "DELETE", "/api/api-keys/"+made["id"].(string)+"/", "", cookies, csrf)
	check(ofKey, http.StatusForbidden)
	check(ofSignIn, http.StatusOK)
	s.want(http.StatusNoContent, "", "POST", "/api/auth/logout/", "", cookies, csrf)
	check(ofSignIn, http.StatusForbidden)
}

func TestArtifactBaseURL(t *testing.T) {
	t.Parallel()
	s := start(t)
	x := s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`","artifact_base_url":"https://cdn.example.net/x/"}`)
	s.object(http.StatusOK, "POST", one+"/exec", `{"command":"echo one > 'a b.txt'"}`)
	made := s.object(http.StatusCreated, "POST", one+"/files/export", `{"path":"/workspace/a b.txt"}`)
	if made["download_url"] != "https://cdn.example.net/x/workspace/a%20b.txt" || x["artifact_base_url"] != "https://cdn.example.net/x/" {
		t.Errorf("%v of %v", made, x)
	}
}

func TestArtifactLimits(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.object(http.StatusCreated, "POST", base, `{"id":"`+someID+`"}`)
	s.object(http.StatusOK, "POST", one+"/exec", `{"command":"head -c 1048577 /dev/zero > large; for i in 1 2 3; do head -c 1048576 /dev/urandom > f$i; done; ln -s f1 link; mkdir d"}`)
	for _, name := range []string{"f1", "f2", "f1", "link"} {
		s.object(http.StatusCreated, "POST", one+"/files/export", fmt.Sprintf(`{"path":%q}`, name))
	}
	for name, want := range map[string]answer{
		"f3":    {status: http.StatusInsufficientStorage, body: `{"detail":"the artifacts of this owner would have more than 2 MiB`},
		"large": {status: http.StatusRequestEntityTooLarge, body: `{"detail":"the file has more than 1048576 bytes`},
		"d":     {status: http.StatusBadRequest, body: `{"detail":"Failed to read file d: `},
	} {
		if a := s.do("POST", one+"/files/export", fmt.Sprintf(`{"path":%q}`, name)); a.status != want.status || !strings.HasPrefix(a.body, want.body) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if n := len(s.artifacts()); n != 4 || s.stored() != 2 {
		t.Errorf("%d artifacts with %d contents", n, s.stored())
	}
	if err := s.kept.RemoveOwner(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	if n := len(s.artifacts()); n != 0 || s.stored() != 0 {
		t.Errorf("%d artifacts with %d contents stay of an owner that is gone", n, s.stored())
	}
	s.object(http.StatusCreated, "POST", one+"/files/export", `{"path":"f3"}`)
}
