package orchestrator

import (
	"errors"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// artifactView is an artifact with all its fields.
type artifactView struct {
	ID          string `json:"id"`
	Filename    string `json:"filename"`
	ContentType string `json:"content_type"`
	SizeBytes   int64  `json:"size_bytes"`
	StoragePath string `json:"storage_path"`
	DownloadURL string `json:"download_url"`
	CreatedAt   stamp  `json:"created_at"`
}

// viewArtifact is an artifact of x, with a link that works from now on.
func (s *surface) viewArtifact(r *http.Request, x orchestrator.Session, a artifacts.Artifact) artifactView {
	return artifactView{
		ID: a.ID, Filename: a.Filename, ContentType: a.ContentType, SizeBytes: a.Size, StoragePath: a.StoragePath,
		DownloadURL: s.kept.Link(r.Context(), api.Caller(r.Context()), a, x.ArtifactBaseURL), CreatedAt: stamp(a.CreatedAt),
	}
}

const (
	maxFilename    = 255
	octets         = "application/octet-stream"
	maxContentType = 255
)

// export keeps a copy of a file outside the sandbox.
func (s *surface) export(w http.ResponseWriter, r *http.Request) error {
	x, err := s.find(r)
	if err != nil {
		return err
	}
	f, err := s.readFields(w, r)
	if err != nil {
		return err
	}
	a := artifacts.Artifact{Owner: x.Owner, SessionID: x.ID, StoragePath: f.filled("path"), Filename: f.filename("filename"), ContentType: f.contentType("content_type")}
	if err := f.errors.orNil(); err != nil {
		return err
	}
	given := a.StoragePath
	if !path.IsAbs(a.StoragePath) {
		a.StoragePath = path.Join(orchestrator.Workspace, a.StoragePath)
	}
	if a.Filename == "" {
		a.Filename = strings.ToValidUTF8(path.Base(a.StoragePath), "_")
	}
	err = s.sessions.Use(r.Context(), api.Caller(r.Context()), x.ID, func(p auth.Principal, id session.ID) error {
		info, content, err := s.manager.Files.Read(r.Context(), p, string(id), protocol.Read{Path: given})
		if err != nil {
			return readFailed(given, err)
		}
		a, err = s.kept.Export(r.Context(), a, orchestrator.NewID(), info.Size, content)
		return errors.Join(err, content.Close())
	})
	if err != nil {
		return err
	}
	api.WriteJSON(w, r, http.StatusCreated, s.viewArtifact(r, x, a))
	return nil
}

// readFailed is the error of a file that cannot be read. What is no fault of the
// request stays what it is.
func readFailed(name string, err error) error {
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok || e.Reason == "" && e.Code != errdefs.InvalidArgument && e.Code != errdefs.NotFound {
		return err
	}
	return &statusError{http.StatusBadRequest, "Failed to read file " + name + ": " + e.Message, err}
}

// filename is the name of a file, or "".
func (f *fields) filename(name string) string {
	text := f.text(name, false)
	switch {
	case len(text) > maxFilename:
		f.errors.add(name, "Ensure this field has no more than %d characters.", maxFilename)
	case strings.ContainsFunc(text, unicode.IsControl):
		f.errors.add(name, "Control characters are not allowed.")
	}
	return text
}

// contentType is a media type; without one that of any bytes.
func (f *fields) contentType(name string) string {
	text := f.text(name, false)
	if text == "" {
		return octets
	}
	kind, params, err := mime.ParseMediaType(text)
	if text = mime.FormatMediaType(kind, params); err != nil || text == "" || !strings.Contains(kind, "/") || len(text) > maxContentType {
		f.errors.add(name, "Must be a media type, as text/plain.")
	}
	return text
}

// artifactList is the artifacts of one session.
type artifactList struct {
	SessionID string         `json:"session_id"`
	Artifacts []artifactView `json:"artifacts"`
}

// artifacts answers with those of a session, newest first.
func (s *surface) artifacts(w http.ResponseWriter, r *http.Request) error {
	x, err := s.find(r)
	if err != nil {
		return err
	}
	all, err := s.kept.List(r.Context(), x.ID)
	if err != nil {
		return err
	}
	list := artifactList{x.ID, make([]artifactView, 0, len(all))}
	for _, a := range all {
		list.Artifacts = append(list.Artifacts, s.viewArtifact(r, x, a))
	}
	api.WriteJSON(w, r, http.StatusOK, list)
	return nil
}

// linkTicket lets a signed link open the artifact that it is for.
func (s *surface) linkTicket(r *http.Request) (p auth.Principal, shown bool, err error) {
	query := r.URL.Query()
	if !query.Has("signature") {
		return p, false, nil
	}
	a, err := s.kept.Check(r.Context(), r.PathValue("artifact"), query)
	return auth.Principal{Owner: a.Owner, ID: "artifact-link", Quota: a.Owner, ReadOnly: true}, true, err
}

// download answers with the content of an artifact, to its owner and to who has a
// link.
func (s *surface) download(w http.ResponseWriter, r *http.Request) error {
	a, err := s.kept.Get(r.Context(), api.Caller(r.Context()), r.PathValue("artifact"))
	if err != nil {
		return err
	}
	content, err := s.kept.Open(r.Context(), a)
	if err != nil {
		return err
	}
	send(w, r, a.Filename, a.ContentType, a.Size, content)
	return nil
}
