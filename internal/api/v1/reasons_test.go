package v1_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// A program tells by the reason what is wrong with a file, a program or a name:
// it need not read the message.
func TestErrorsGiveAReason(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "mkdir -p d/sub; printf x > f; printf 'no script' > plain; printf '#!/no/such/interpreter\n' > s; chmod +x s; ln -s / out; mkfifo p")
	const absent = "/v1/sessions/aaaaaaaaaaaaaaaaaaaaaaaaaa"
	tests := []struct {
		method, path, body string
		status             int
		reason             errdefs.Reason
	}{
		{"GET", path + "/fs/read?path=absent", "", 404, errdefs.NoSuchFile},
		{"GET", path + "/fs/read?path=absent&raw=1", "", 404, errdefs.NoSuchFile},
		{"GET", path + "/fs/read?path=d", "", 400, errdefs.IsADirectory},
		{"GET", path + "/fs/read?path=f/x", "", 400, errdefs.NotADirectory},
		{"GET", path + "/fs/read?path=p", "", 400, errdefs.NotRegular},
		{"GET", path + "/fs/read?path=/etc/passwd", "", 400, errdefs.OutsideWorkspace},
		{"GET", path + "/fs/read?path=out/etc/passwd", "", 403, errdefs.OutsideWorkspace},
		{"GET", path + "/fs/list?path=absent", "", 404, errdefs.NoSuchFile},
		{"GET", path + "/fs/list?path=f", "", 400, errdefs.NotADirectory},
		{"GET", path + "/fs/stat?path=absent", "", 404, errdefs.NoSuchFile},
		{"GET", path + "/fs/archive?path=absent", "", 404, errdefs.NoSuchFile},
		{"POST", path + "/fs/write", `{"path":"d","text":""}`, 400, errdefs.IsADirectory},
		{"POST", path + "/fs/mkdir", `{"path":"d"}`, 409, errdefs.FileExists},
		{"POST", path + "/fs/mkdir", `{"path":"no/d"}`, 404, errdefs.NoSuchFile},
		{"POST", path + "/fs/move", `{"from":"f","to":"plain"}`, 409, errdefs.FileExists},
		{"POST", path + "/fs/copy", `{"from":"d","to":"e"}`, 400, errdefs.IsADirectory},
		{"POST", path + "/fs/delete", `{"path":"d"}`, 409, errdefs.DirNotEmpty},
		{"POST", path + "/fs/edit", `{"path":"f","old":"y","new":"z"}`, 422, errdefs.TextNotFound},
		{"POST", path + "/processes", `{"cmd":["no-such-program"]}`, 422, errdefs.ProgramNotFound},
		{"POST", path + "/processes", `{"cmd":["/no/such/program"]}`, 422, errdefs.ProgramNotFound},
		{"POST", path + "/processes", `{"cmd":["./plain"]}`, 422, errdefs.NotExecutable},
		{"POST", path + "/processes", `{"cmd":["./s"]}`, 422, errdefs.NotExecutable},
		{"POST", path + "/processes", `{"cmd":["true"],"cwd":"absent"}`, 422, errdefs.NoSuchFile},
		{"POST", path + "/processes", `{"cmd":["true"],"cwd":"f"}`, 422, errdefs.NotADirectory},
		{"GET", path + "/execs/aaaaaaaaaaaaaaaaaaaaaaaaaa", "", 404, errdefs.NoSuchExec},
		{"DELETE", path + "/shells/absent", "", 404, errdefs.NoSuchShell},
		{"GET", absent, "", 404, errdefs.NoSuchSession},
		{"POST", absent + "/exec", `{"cmd":"true"}`, 404, errdefs.NoSuchSession},
		{"GET", "/v1/workspaces/absent", "", 404, errdefs.NoSuchWorkspace},
		{"GET", "/v1/snapshots/aaaaaaaaaaaaaaaaaaaaaaaaaa", "", 404, errdefs.NoSuchSnapshot},
		{"GET", "/v1/secrets/absent", "", 404, errdefs.NoSuchSecret},
		{"GET", "/v1/sessions?limit=none", "", 400, ""},
	}
	for _, tt := range tests {
		got := s.do(t, tt.method, tt.path, tt.body)
		var e api.ErrorBody
		if err := json.Unmarshal(got.body, &e); err != nil || got.status != tt.status || e.Reason != tt.reason {
			t.Errorf("%s %s %s: %d with %+v (%v), want %d because of %q", tt.method, tt.path, tt.body, got.status, e, err, tt.status, tt.reason)
		}
	}
	// A watch that cannot begin says so before its stream.
	var e api.ErrorBody
	s.do(t, "GET", path+"/fs/watch?path=absent", "").into(t, http.StatusNotFound, &e)
	if e.Reason != errdefs.NoSuchFile {
		t.Errorf("a watch: %+v", e)
	}
}
