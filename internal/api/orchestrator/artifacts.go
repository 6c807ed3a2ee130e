package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
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
func (s *surface) viewArtifact(ctx context.Context, x orchestrator.Session, a artifacts.Artifact) artifactView {
	return artifactView{
		ID: a.ID, Filename: a.Filename, ContentType: a.ContentType, SizeBytes: a.Size, StoragePath: a.StoragePath,
		DownloadURL: s.kept.Link(ctx, api.Caller(ctx), a, x.ArtifactBaseURL), CreatedAt: stamp(a.CreatedAt),
	}
}

type artifactOutput struct{ Body artifactView }

// export keeps a copy of a file outside the sandbox.
func (s *surface) export(ctx context.Context, in *exportInput) (*artifactOutput, error) {
	x, given := in.session, in.Body.Path
	a := artifacts.Artifact{
		Owner: x.Owner, SessionID: x.ID, StoragePath: given, Filename: string(in.Body.Filename), ContentType: cmp.Or(string(in.Body.ContentType), octets),
	}
	if !path.IsAbs(a.StoragePath) {
		a.StoragePath = path.Join(orchestrator.Workspace, a.StoragePath)
	}
	if a.Filename == "" {
		a.Filename = strings.ToValidUTF8(path.Base(a.StoragePath), "_")
	}
	err := s.sessions.Use(ctx, api.Caller(ctx), x.ID, func(p auth.Principal, id session.ID) error {
		info, content, err := s.manager.Files.Read(ctx, p, string(id), protocol.Read{Path: given})
		if err != nil {
			return readFailed(given, err)
		}
		a, err = s.kept.Export(ctx, a, orchestrator.NewID(), info.Size, content)
		return errors.Join(err, content.Close())
	})
	if err != nil {
		return nil, err
	}
	return &artifactOutput{s.viewArtifact(ctx, x, a)}, nil
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

// artifactList is the artifacts of one session.
type artifactList struct {
	SessionID string         `json:"session_id"`
	Artifacts []artifactView `json:"artifacts"`
}

type artifactsOutput struct{ Body artifactList }

// artifacts answers with those of a session, newest first.
func (s *surface) artifacts(ctx context.Context, in *ofSession) (*artifactsOutput, error) {
	all, err := s.kept.List(ctx, in.session.ID)
	if err != nil {
		return nil, err
	}
	list := artifactList{in.session.ID, make([]artifactView, 0, len(all))}
	for _, a := range all {
		list.Artifacts = append(list.Artifacts, s.viewArtifact(ctx, in.session, a))
	}
	return &artifactsOutput{list}, nil
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
func (s *surface) download(ctx context.Context, in *ofArtifact) (*kit.Stream, error) {
	a, err := s.kept.Get(ctx, api.Caller(ctx), in.Artifact)
	if err != nil {
		return nil, err
	}
	content, err := s.kept.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) { send(w, r, a.Filename, a.ContentType, a.Size, content) }), nil
}
