package orchestrator

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// stamp is a time as it is written here: UTC, with microseconds; zero is null.
type stamp time.Time

// MarshalJSON implements json.Marshaler.
func (s stamp) MarshalJSON() ([]byte, error) {
	if time.Time(s).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(time.Time(s).UTC().Format("2006-01-02T15:04:05.000000Z"))
}

// sessionView is a session with all its fields.
type sessionView struct {
	ID                string         `json:"id" format:"uuid"`
	Mode              string         `json:"mode" enum:"docker,native,k8s"`
	Image             string         `json:"image"`
	CPU               string         `json:"cpu"`
	Memory            string         `json:"memory"`
	EphemeralStorage  string         `json:"ephemeral_storage"`
	RestoreSnapshotID *string        `json:"restore_snapshot_id" format:"uuid"`
	Status            string         `json:"status" enum:"starting,ready,failed,terminated"`
	Ref               string         `json:"ref"`
	ControlEndpoint   string         `json:"control_endpoint"`
	WorkspacePath     string         `json:"workspace_path"`
	ArtifactBaseURL   string         `json:"artifact_base_url"`
	WorkspaceUID      *string        `json:"workspace_uid"`
	WorkspaceName     *string        `json:"workspace_name"`
	IdleTimeoutSec    int64          `json:"idle_timeout_sec"`
	MaxLifetimeSec    int64          `json:"max_lifetime_sec"`
	LastActivityAt    stamp          `json:"last_activity_at"`
	LastHeartbeatAt   stamp          `json:"last_heartbeat_at"`
	ExpiresAt         stamp          `json:"expires_at"`
	ErrorMessage      string         `json:"error_message"`
	Metadata          map[string]any `json:"metadata"`
	CPUSeconds        float64        `json:"cpu_seconds"`
	StorageBytes      int64          `json:"storage_bytes"`
	SnapshotIDs       []string       `json:"snapshot_ids" nullable:"false"`
	ArtifactsCount    int            `json:"artifacts_count"`
	CreatedAt         stamp          `json:"created_at"`
	UpdatedAt         stamp          `json:"updated_at"`
}

// viewOf is x with its snapshots, newest first, and the number of its artifacts.
func (s *surface) viewOf(x orchestrator.Session, shots []snapshots.Snapshot, kept int) sessionView {
	v := sessionView{
		ID: x.ID, Mode: x.Mode, Image: x.Image, CPU: x.CPU, Memory: x.Memory, EphemeralStorage: x.EphemeralStorage,
		Status: string(x.Status), WorkspacePath: orchestrator.Workspace, ArtifactBaseURL: x.ArtifactBaseURL,
		IdleTimeoutSec: int64(x.IdleTimeout / time.Second), MaxLifetimeSec: int64(x.MaxLifetime / time.Second),
		LastActivityAt: stamp(x.LastActivity), LastHeartbeatAt: stamp(x.LastHeartbeat), ExpiresAt: stamp(x.ExpiresAt),
		ErrorMessage: x.Error, Metadata: map[string]any{}, CPUSeconds: x.CPUSeconds, StorageBytes: x.StorageBytes,
		SnapshotIDs: []string{}, ArtifactsCount: kept, CreatedAt: stamp(x.CreatedAt), UpdatedAt: stamp(x.UpdatedAt),
	}
	if id := orchestrator.SnapshotUUID(x.RestoreSnapshot); id != "" {
		v.RestoreSnapshotID = &id
	}
	if x.Core != "" {
		v.Ref = x.Mode + "://" + string(x.Core)
		v.ControlEndpoint = v.Ref
	}
	maps.Copy(v.Metadata, x.Metadata)
	if id := orchestrator.SnapshotUUID(x.LatestSnapshot); id != "" {
		v.Metadata["latest_snapshot_id"] = id
	}
	if x.TerminatedReason != "" {
		v.Metadata["terminated_reason"] = x.TerminatedReason
	}
	if s.sessions.StorageUnbounded(x) {
		v.Metadata["ephemeral_storage_enforced"] = false
	}
	if x.Unsaved() {
		v.Metadata["unsaved"] = true
	}
	if len(x.BadSnapshots) > 0 {
		skipped := []string{}
		for _, id := range x.BadSnapshots {
			skipped = append(skipped, orchestrator.SnapshotUUID(id))
		}
		v.Metadata["skipped_snapshot_ids"] = skipped
	}
	for _, one := range shots {
		v.SnapshotIDs = append(v.SnapshotIDs, orchestrator.SnapshotUUID(one.ID))
	}
	return v
}

// view is a session as it is.
func (s *surface) view(ctx context.Context, x orchestrator.Session) (v sessionView, err error) {
	_, shots, err := s.sessions.Snapshots(ctx, api.Caller(ctx), x.ID)
	if err != nil {
		return v, err
	}
	kept, err := s.kept.Count(ctx, x.ID)
	if err != nil {
		return v, err
	}
	return s.viewOf(x, shots, kept), nil
}

type sessionsOutput struct{ Body []sessionView }

func (s *surface) list(ctx context.Context, _ *none) (*sessionsOutput, error) {
	p := api.Caller(ctx)
	all, err := s.sessions.List(ctx, p)
	if err != nil {
		return nil, err
	}
	shots, err := s.sessions.SnapshotsByName(ctx, p)
	if err != nil {
		return nil, err
	}
	owner := p.Owner
	if p.OwnsAll() {
		owner = ""
	}
	kept, err := s.kept.Counts(ctx, owner)
	if err != nil {
		return nil, err
	}
	views := make([]sessionView, 0, len(all))
	for _, x := range all {
		views = append(views, s.viewOf(x, shots[x.ID], kept[x.ID]))
	}
	return &sessionsOutput{views}, nil
}

// createOutput is a session, and where it is if it was made.
type createOutput struct {
	Status   int
	Location string
	Body     sessionView
}

func (s *surface) create(ctx context.Context, in *createInput) (*createOutput, error) {
	req := in.Body.request()
	if idle, lifetime := s.sessions.Times(req); idle > lifetime {
		return nil, fieldErrors{"non_field_errors": {"idle_timeout_sec cannot exceed max_lifetime_sec"}}
	}
	x, made, err := s.sessions.Create(ctx, api.Caller(ctx), req)
	if err != nil {
		return nil, provisionError(err, s.title(req.Mode), req.RestoreSnapshot != "")
	}
	out := &createOutput{Status: http.StatusOK}
	if made {
		api.Made(ctx, "session", string(x.Core))
		out.Status, out.Location = http.StatusCreated, x.ID
	}
	out.Body, err = s.view(ctx, x)
	return out, err
}

func (f *createFields) request() orchestrator.CreateRequest {
	req := orchestrator.CreateRequest{
		ID: f.ID, Mode: f.Mode, Image: f.Image, CPU: f.CPU, Memory: f.Memory, EphemeralStorage: f.EphemeralStorage,
		IdleTimeout: time.Duration(f.IdleTimeout) * time.Second, MaxLifetime: time.Duration(f.MaxLifetime) * time.Second,
		Metadata: f.Metadata, ArtifactBaseURL: string(f.ArtifactBaseURL),
	}
	if f.RestoreSnapshot != "" {
		req.RestoreSnapshot, _ = orchestrator.SnapshotID(f.RestoreSnapshot)
	}
	return req
}

type sessionOutput struct{ Body sessionView }

func (s *surface) get(ctx context.Context, in *ofSession) (*sessionOutput, error) {
	view, err := s.view(ctx, in.session)
	return &sessionOutput{view}, err
}

func (s *surface) stop(ctx context.Context, in *ofEnd) (*kit.Nothing, error) {
	ref, err := in.ref()
	if err != nil {
		return nil, err
	}
	return &kit.Nothing{}, s.sessions.Stop(ctx, api.Caller(ctx), ref, in.Force)
}

// beat is the answer to a heartbeat.
type beat struct {
	Status          string `json:"status" enum:"starting,ready,failed,terminated"`
	LastHeartbeatAt stamp  `json:"last_heartbeat_at"`
}

type beatOutput struct{ Body beat }

func (s *surface) heartbeat(ctx context.Context, in *ofSession) (*beatOutput, error) {
	ref, err := in.ref()
	if err != nil {
		return nil, err
	}
	x, err := s.sessions.Heartbeat(ctx, api.Caller(ctx), ref)
	if err != nil {
		return nil, err
	}
	return &beatOutput{beat{string(x.Status), stamp(x.LastHeartbeat)}}, nil
}

// snapshotView is a snapshot with all its fields.
type snapshotView struct {
	ID           string   `json:"id" format:"uuid"`
	Label        string   `json:"label"`
	S3Key        string   `json:"s3_key"`
	ArchivePath  string   `json:"archive_path"`
	SizeBytes    int64    `json:"size_bytes"`
	IncludePaths []string `json:"include_paths" nullable:"false"`
	ExcludePaths []string `json:"exclude_paths" nullable:"false"`
	CreatedAt    stamp    `json:"created_at"`
}

// viewSnapshot is a snapshot of the session x.
func (s *surface) viewSnapshot(x string, one snapshots.Snapshot) snapshotView {
	v := snapshotView{
		ID: orchestrator.SnapshotUUID(one.ID), Label: one.Label, SizeBytes: one.Size,
		IncludePaths: append([]string{}, one.Manifest.Include...), ExcludePaths: append([]string{}, one.Manifest.Exclude...),
		CreatedAt: stamp(one.CreatedAt),
	}
	v.ArchivePath = strings.Join([]string{"snapshots", x, v.ID}, "/")
	if one.Manifest.Key != "" {
		v.ArchivePath = one.Manifest.Key
	}
	if s.opts.Bucket && one.Manifest.Key != "" {
		v.S3Key = s.opts.BucketPrefix + one.Manifest.Key
	}
	if len(v.IncludePaths) == 0 {
		v.IncludePaths = []string{orchestrator.Workspace}
	}
	return v
}

type snapshotOutput struct{ Body snapshotView }

func (s *surface) snapshot(ctx context.Context, in *snapshotInput) (*snapshotOutput, error) {
	req := orchestrator.SnapshotRequest{Label: in.Body.Label, Include: in.Body.Include, Exclude: in.Body.Exclude}
	if len(req.Include) == 1 && strings.TrimSuffix(req.Include[0], "/") == orchestrator.Workspace {
		req.Include = nil
	}
	made, err := s.sessions.Snapshot(ctx, api.Caller(ctx), in.session.ID, req)
	if err != nil {
		return nil, snapshotError(err)
	}
	return &snapshotOutput{s.viewSnapshot(in.session.ID, made)}, nil
}

// snapshotList is the snapshots of one session.
type snapshotList struct {
	SessionID string         `json:"session_id"`
	Snapshots []snapshotView `json:"snapshots" nullable:"false"`
}

type snapshotsOutput struct{ Body snapshotList }

func (s *surface) snapshots(ctx context.Context, in *ofSession) (*snapshotsOutput, error) {
	list, err := s.listSnapshots(ctx, &in.SessionPath)
	if err != nil {
		return nil, err
	}
	return &snapshotsOutput{list}, nil
}

func (s *surface) listSnapshots(ctx context.Context, of *SessionPath) (list snapshotList, err error) {
	ref, err := of.ref()
	if err != nil {
		return list, err
	}
	x, all, err := s.sessions.Snapshots(ctx, api.Caller(ctx), ref)
	list = snapshotList{x.ID, make([]snapshotView, 0, len(all))}
	for _, one := range all {
		list.Snapshots = append(list.Snapshots, s.viewSnapshot(x.ID, one))
	}
	return list, err
}

func (s *surface) getSnapshot(ctx context.Context, in *ofSnapshot) (*snapshotOutput, error) {
	list, err := s.listSnapshots(ctx, &in.SessionPath)
	if err != nil {
		return nil, err
	}
	id, ok := orchestrator.ParseUUID(in.Snapshot)
	for _, one := range list.Snapshots {
		if ok && one.ID == id {
			return &snapshotOutput{one}, nil
		}
	}
	return nil, &statusError{status: http.StatusNotFound, text: "Snapshot not found"}
}
