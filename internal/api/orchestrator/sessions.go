package orchestrator

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
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

// answer sends a session as it is.
func (s *surface) answer(w http.ResponseWriter, r *http.Request, status int, x orchestrator.Session) error {
	_, shots, err := s.sessions.Snapshots(r.Context(), api.Caller(r.Context()), x.ID)
	if err != nil {
		return err
	}
	kept, err := s.kept.Count(r.Context(), x.ID)
	if err != nil {
		return err
	}
	api.WriteJSON(w, r, status, s.viewOf(x, shots, kept))
	return nil
}

func (s *surface) list(w http.ResponseWriter, r *http.Request) error {
	p := api.Caller(r.Context())
	all, err := s.sessions.List(r.Context(), p)
	if err != nil {
		return err
	}
	shots, err := s.sessions.SnapshotsByName(r.Context(), p)
	if err != nil {
		return err
	}
	owner := p.Owner
	if p.OwnsAll() {
		owner = ""
	}
	kept, err := s.kept.Counts(r.Context(), owner)
	if err != nil {
		return err
	}
	views := make([]sessionView, 0, len(all))
	for _, x := range all {
		views = append(views, s.viewOf(x, shots[x.ID], kept[x.ID]))
	}
	api.WriteJSON(w, r, http.StatusOK, views)
	return nil
}

// The least that a client may ask for, in seconds.
const (
	leastIdle     = 60
	leastLifetime = 300
)

func (s *surface) create(w http.ResponseWriter, r *http.Request) error {
	req, err := s.createRequest(w, r)
	if err != nil {
		return err
	}
	x, made, err := s.sessions.Create(r.Context(), api.Caller(r.Context()), req)
	if err != nil {
		return provisionError(err, req.Mode, req.RestoreSnapshot != "")
	}
	if !made {
		return s.answer(w, r, http.StatusOK, x)
	}
	api.Made(r.Context(), "session", string(x.Core))
	w.Header().Set("Location", x.ID)
	return s.answer(w, r, http.StatusCreated, x)
}

func (s *surface) createRequest(w http.ResponseWriter, r *http.Request) (req orchestrator.CreateRequest, err error) {
	f, err := s.readFields(w, r)
	if err != nil {
		return req, err
	}
	req = orchestrator.CreateRequest{
		ID: f.uuid("id"), Mode: f.choice("mode", "docker", "native", "k8s"), Image: f.text("image", false),
		CPU: f.text("cpu", false), Memory: f.text("memory", false), EphemeralStorage: f.text("ephemeral_storage", false),
		IdleTimeout: f.seconds("idle_timeout_sec", leastIdle), MaxLifetime: f.seconds("max_lifetime_sec", leastLifetime),
		Metadata: f.object("metadata"), ArtifactBaseURL: f.webAddress("artifact_base_url"),
	}
	if id := f.uuid("restore_snapshot_id"); id != "" {
		req.RestoreSnapshot, _ = orchestrator.SnapshotID(id)
	}
	if err := f.errors.orNil(); err != nil {
		return req, err
	}
	idle, lifetime := s.sessions.Times(req)
	if idle > lifetime {
		return req, fieldErrors{"non_field_errors": {"idle_timeout_sec cannot exceed max_lifetime_sec"}}
	}
	return req, nil
}

func (s *surface) get(w http.ResponseWriter, r *http.Request) error {
	x, err := s.find(r)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, x)
}

func (s *surface) stop(w http.ResponseWriter, r *http.Request) error {
	ref, err := refOf(r)
	if err != nil {
		return err
	}
	force := false
	if text := r.URL.Query().Get("force"); text != "" {
		if force, err = strconv.ParseBool(text); err != nil {
			return fieldErrors{"force": {"Must be a valid boolean."}}
		}
	}
	if err := s.sessions.Stop(r.Context(), api.Caller(r.Context()), ref, force); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// beat is the answer to a heartbeat.
type beat struct {
	Status          string `json:"status" enum:"starting,ready,failed,terminated"`
	LastHeartbeatAt stamp  `json:"last_heartbeat_at"`
}

func (s *surface) heartbeat(w http.ResponseWriter, r *http.Request) error {
	ref, err := refOf(r)
	if err != nil {
		return err
	}
	x, err := s.sessions.Heartbeat(r.Context(), api.Caller(r.Context()), ref)
	if err != nil {
		return err
	}
	api.WriteJSON(w, r, http.StatusOK, beat{string(x.Status), stamp(x.LastHeartbeat)})
	return nil
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

func (s *surface) snapshot(w http.ResponseWriter, r *http.Request) error {
	x, err := s.find(r)
	if err != nil {
		return err
	}
	f, err := s.readFields(w, r)
	if err != nil {
		return err
	}
	req := orchestrator.SnapshotRequest{Label: f.text("label", false), Include: f.texts("include_paths"), Exclude: f.texts("exclude_paths")}
	if err := f.errors.orNil(); err != nil {
		return err
	}
	if len(req.Include) == 1 && strings.TrimSuffix(req.Include[0], "/") == orchestrator.Workspace {
		req.Include = nil
	}
	made, err := s.sessions.Snapshot(r.Context(), api.Caller(r.Context()), x.ID, req)
	if err != nil {
		return snapshotError(err)
	}
	api.WriteJSON(w, r, http.StatusCreated, s.viewSnapshot(x.ID, made))
	return nil
}

// snapshotList is the snapshots of one session.
type snapshotList struct {
	SessionID string         `json:"session_id"`
	Snapshots []snapshotView `json:"snapshots" nullable:"false"`
}

func (s *surface) snapshots(w http.ResponseWriter, r *http.Request) error {
	list, err := s.listSnapshots(r)
	if err != nil {
		return err
	}
	api.WriteJSON(w, r, http.StatusOK, list)
	return nil
}

func (s *surface) listSnapshots(r *http.Request) (list snapshotList, err error) {
	ref, err := refOf(r)
	if err != nil {
		return list, err
	}
	x, all, err := s.sessions.Snapshots(r.Context(), api.Caller(r.Context()), ref)
	list = snapshotList{x.ID, make([]snapshotView, 0, len(all))}
	for _, one := range all {
		list.Snapshots = append(list.Snapshots, s.viewSnapshot(x.ID, one))
	}
	return list, err
}

func (s *surface) getSnapshot(w http.ResponseWriter, r *http.Request) error {
	list, err := s.listSnapshots(r)
	if err != nil {
		return err
	}
	id, ok := orchestrator.ParseUUID(r.PathValue("snapshot"))
	for _, one := range list.Snapshots {
		if ok && one.ID == id {
			api.WriteJSON(w, r, http.StatusOK, one)
			return nil
		}
	}
	return &statusError{status: http.StatusNotFound, text: "Snapshot not found"}
}
