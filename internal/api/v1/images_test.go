package v1_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	imageshapes "github.com/sandkasten/sandkasten/internal/api/v1/images"
	imagestore "github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// withLibrary gives the server an image store of its own, which alice may change.
func withLibrary(tb testing.TB, allowed ...string) func(*setup) {
	tb.Helper()
	return func(o *setup) {
		store, err := imagestore.Open(imagestore.Options{Dir: tb.TempDir(), Allowed: allowed})
		if err != nil {
			tb.Fatal(err)
		}
		m := jobs.New(tb.Context(), nil)
		tb.Cleanup(func() {
			if err := m.Close(); err != nil {
				tb.Error(err)
			}
		})
		inUse := func(string) ([]string, error) { return nil, nil }
		o.v1.Images, o.api.Authenticator = &jobs.Library{Store: store, Jobs: m, InUse: inUse}, keys{operator: "alice"}
	}
}

// rootTar is the archive of a root file system, with a file of its own.
func rootTar(tb testing.TB, file string) string {
	tb.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range []string{"bin/sh", file} {
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: 2, Uid: os.Getuid(), Gid: os.Getgid()}
		if err := w.WriteHeader(h); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write([]byte("#!")); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return buf.String()
}

func (s *server) importImage(tb testing.TB, name string) imageshapes.Image {
	tb.Helper()
	var made imageshapes.Image
	s.do(tb, "POST", "/v1/images/import?name="+url.QueryEscape(name), rootTar(tb, "of-"+strings.ReplaceAll(name, "/", "-"))).into(tb, http.StatusCreated, &made)
	return made
}

// ended polls a job until it has.
func (s *server) ended(tb testing.TB, id string) imageshapes.ImageJob {
	tb.Helper()
	var job imageshapes.ImageJob
	testenv.Eventually(tb, "the job ends", func() bool {
		job = imageshapes.ImageJob{}
		s.do(tb, "GET", "/v1/image-jobs/"+id, "").into(tb, 200, &job)
		return job.EndedAt != nil
	})
	return job
}

func TestImages(t *testing.T) {
	s := start(t, withLibrary(t))
	bob := header("Authorization", "Bearer "+bobKey)
	made := s.importImage(t, "team/tool:1")
	if !slices.Equal(made.Names, []string{"team/tool:1"}) || made.Shell != "/bin/sh" || !made.Allowed || made.Files != 2 || len(made.Layers) != 1 || made.Source != "upload" {
		t.Errorf("imported %+v", made)
	}
	for _, as := range []edit{header("Authorization", "Bearer "+aliceKey), bob} {
		var list imageshapes.Images
		s.do(t, "GET", "/v1/images", "", as).into(t, 200, &list)
		if len(list.Images) != 1 || list.Images[0].Digest != made.Digest {
			t.Errorf("list %+v", list)
		}
		for _, name := range []string{url.PathEscape("team/tool:1"), made.Digest} {
			var got imageshapes.Image
			s.do(t, "GET", "/v1/images/"+name, "", as).into(t, 200, &got)
			if got.Digest != made.Digest {
				t.Errorf("%s is %+v", name, got)
			}
		}
	}
	s.do(t, "GET", "/v1/images/missing", "").wantError(t, 404, "not_found", "")
	s.do(t, "POST", "/v1/images/import?name=Tool", rootTar(t, "a")).wantError(t, 400, "invalid_argument", "image")
	s.do(t, "POST", "/v1/images/import?name=tool", "no archive").wantError(t, 422, "unprocessable", "")
	s.do(t, "DELETE", "/v1/images/team%2Ftool:1", "").into(t, 200, &struct{}{})
	s.do(t, "DELETE", "/v1/images/team%2Ftool:1", "").wantError(t, 404, "not_found", "")
}

// Images belong to all, so that only admins change them, and users whom one lets.
func TestOthersMayNotChangeImages(t *testing.T) {
	s := start(t, withLibrary(t))
	s.importImage(t, "base")
	bob := header("Authorization", "Bearer "+bobKey)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/images/pull", `{"ref":"127.0.0.1:1/a"}`},
		{"POST", "/v1/images/build", `{"name":"base"}`},
		{"POST", "/v1/images/commit", `{"name":"a","session_id":"b"}`},
		{"POST", "/v1/images/import?name=a", "x"},
		{"DELETE", "/v1/images/base", ""},
		{"GET", "/v1/image-jobs", ""},
		{"GET", "/v1/image-jobs/a", ""},
		{"GET", "/v1/image-jobs/a/events", ""},
		{"DELETE", "/v1/image-jobs/a", ""},
	} {
		refused := s.do(t, c.method, c.path, c.body, bob)
		refused.wantError(t, 403, "permission_denied", "")
		if said := string(refused.body); !strings.Contains(said, "admins make") || !strings.Contains(said, "image from-session") && !strings.Contains(said, "--images pull") {
			t.Errorf("%s %s: %s", c.method, c.path, said)
		}
	}
	if left := len(s.list(t)); left != 1 {
		t.Errorf("%d images are left", left)
	}
}

func (s *server) list(tb testing.TB, as ...edit) []imageshapes.Image {
	tb.Helper()
	var list imageshapes.Images
	s.do(tb, "GET", "/v1/images", "", as...).into(tb, 200, &list)
	return list.Images
}

// Whoever may not use an image is not told of it.
func TestOthersSeeAllowedImages(t *testing.T) {
	s := start(t, withLibrary(t, "open"))
	s.importImage(t, "open")
	hidden := s.importImage(t, "hidden")
	bob := header("Authorization", "Bearer "+bobKey)
	if list := s.list(t, bob); len(list) != 1 || list[0].Names[0] != "open" || !list[0].Allowed {
		t.Errorf("bob sees %+v", list)
	}
	for _, name := range []string{"hidden", hidden.Digest} {
		s.do(t, "GET", "/v1/images/"+name, "", bob).wantError(t, 404, "not_found", "")
	}
	if list := s.list(t); len(list) != 2 {
		t.Errorf("alice sees %+v", list)
	}
	var seen imageshapes.Image
	s.do(t, "GET", "/v1/images/hidden", "").into(t, 200, &seen)
	if seen.Allowed {
		t.Errorf("hidden is %+v", seen)
	}
}

// A job fails, is followed to its end, and says why.
func TestImageJobFails(t *testing.T) {
	s := start(t, withLibrary(t))
	registry := httptest.NewServer(http.NotFoundHandler())
	defer registry.Close()
	ref := strings.TrimPrefix(registry.URL, "http://") + "/tool:1"
	var job imageshapes.ImageJob
	s.do(t, "POST", "/v1/images/pull", `{"ref":"`+ref+`","name":"tool"}`).into(t, http.StatusAccepted, &job)
	if job.Kind != jobs.Pull || job.Name != "tool" || job.ID == "" {
		t.Errorf("started %+v", job)
	}
	last := s.followJob(t, job.ID)
	if last.Status != jobs.Failed || last.Code != "not_found" || !strings.Contains(last.Error, "has no image") {
		t.Errorf("ended as %+v", last)
	}
	s.do(t, "POST", "/v1/images/pull", `{"ref":"No Reference"}`).wantError(t, 400, "invalid_argument", "")
	s.do(t, "POST", "/v1/images/build", `{"name":"nothing"}`).wantError(t, 404, "not_found", "")
	s.do(t, "POST", "/v1/images/build", `{"name":"a","recipe":"packages: 1"}`).wantError(t, 400, "invalid_argument", "recipe")
	s.do(t, "POST", "/v1/images/commit", `{"name":"a"}`).wantError(t, 400, "invalid_argument", "session_id")
	s.do(t, "POST", "/v1/images/commit", `{"name":"a","session_id":"b"}`).wantError(t, 404, "not_found", "")
	s.do(t, "GET", "/v1/image-jobs/nothing", "").wantError(t, 404, "not_found", "")
	s.do(t, "GET", "/v1/image-jobs/nothing/events", "").wantError(t, 404, "not_found", "")
}

// followJob reads a job's events to the end, which it returns.
func (s *server) followJob(tb testing.TB, id string) (last imageshapes.ImageJob) {
	tb.Helper()
	events := s.do(tb, "GET", "/v1/image-jobs/"+id+"/events", "")
	if events.header.Get("Content-Type") != "text/event-stream" {
		tb.Fatalf("%d: %s", events.status, events.body)
	}
	name := ""
	for lines := bufio.NewScanner(bytes.NewReader(events.body)); lines.Scan(); {
		if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = event
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && name == "done" {
			if err := json.Unmarshal([]byte(data), &last); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if name != "done" {
		tb.Fatalf("the last event is %q", name)
	}
	return last
}

// A job goes on without its client, and ends when it is canceled.
func TestImageJobIsCanceled(t *testing.T) {
	s := start(t, withLibrary(t))
	asked, release := make(chan struct{}, 8), make(chan struct{})
	registry := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	defer registry.Close()
	defer close(release)
	body := `{"ref":"` + strings.TrimPrefix(registry.URL, "http://") + `/tool:1","name":"tool"}`
	var job, same, canceled imageshapes.ImageJob
	s.do(t, "POST", "/v1/images/pull", body).into(t, http.StatusAccepted, &job)
	<-asked
	s.do(t, "POST", "/v1/images/pull", body).into(t, http.StatusAccepted, &same)
	if same.ID != job.ID {
		t.Errorf("the same request is the job %s, not %s", same.ID, job.ID)
	}
	var list imageshapes.ImageJobs
	s.do(t, "GET", "/v1/image-jobs", "").into(t, 200, &list)
	if len(list.Jobs) != 1 || list.Jobs[0].Status != jobs.Running || !strings.HasPrefix(list.Jobs[0].Progress.Phase, "resolve") {
		t.Errorf("jobs %+v", list)
	}
	s.do(t, "DELETE", "/v1/image-jobs/"+job.ID, "").into(t, 200, &canceled)
	if canceled.Status != jobs.Canceled || canceled.EndedAt == nil {
		t.Errorf("canceled %+v", canceled)
	}
	if got := s.ended(t, job.ID); got.Status != jobs.Canceled {
		t.Errorf("then %+v", got)
	}
}
