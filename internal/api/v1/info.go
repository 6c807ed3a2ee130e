package v1

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/files"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// Info is what this daemon is and allows.
type Info struct {
	Version  string   `json:"version" example:"0.1.0"`
	API      string   `json:"api" example:"v1"`
	Driver   string   `json:"driver" doc:"Of a session that asks for none. It has the workspaces." example:"native"`
	Drivers  []string `json:"drivers" doc:"All that a session may ask for." nullable:"false" example:"[\"native\",\"docker\"]"`
	Defaults Defaults `json:"defaults"`
	Limits   Maxima   `json:"limits"`

	AbsentDrivers []string `json:"absent_drivers,omitempty" doc:"Those of drivers that do not answer now, as a Docker engine that is down. Their sessions keep their state, and what needs a sandbox is a 503." nullable:"false" example:"[\"docker\"]"`

	Workspaces *WorkspaceInfo `json:"workspaces,omitempty" doc:"Absent if no workspace outlives its session here."`
}

// WorkspaceInfo is what workspaces are given, and may have at most.
type WorkspaceInfo struct {
	PersistByDefault bool  `json:"persist_by_default" doc:"A session created without a workspace_id gets a new one."`
	DefaultSizeMB    int64 `json:"default_size_mb" example:"1024"`
	MaxSizeMB        int64 `json:"max_size_mb" example:"10240"`
	MaxCount         int   `json:"max_count,omitempty" doc:"Of all keys together; absent if there is no maximum."`
	RetentionSeconds int64 `json:"retention_seconds,omitempty" doc:"One that no session has had for this long is removed; absent if none is."`
}

// Defaults are for what a request leaves out.
type Defaults struct {
	Image          string `json:"image" example:"base"`
	TTLSeconds     int64  `json:"ttl_seconds" example:"1800"`
	OnExpiry       string `json:"on_expiry,omitempty" enum:"named,stop,destroy" doc:"After ttl_seconds. named is stop for a session that has a name, and destroy for others." example:"named"`
	IdleTimeout    int64  `json:"idle_timeout_seconds" doc:"Of a session to be paused or stopped." example:"300"`
	Retention      int64  `json:"stopped_retention_seconds" doc:"Of a stopped session, for the owner of the request's key." example:"604800"`
	TimeoutMS      int64  `json:"timeout_ms" doc:"Of a command." example:"60000"`
	NetworkMode    string `json:"network_mode" example:"none"`
	ReadonlyRootfs bool   `json:"readonly_rootfs"`
	Limits         Limits `json:"limits"`
}

// Maxima are what a request may ask for at most.
type Maxima struct {
	TTLSeconds      int64  `json:"ttl_seconds" example:"86400"`
	LifetimeSeconds int64  `json:"lifetime_seconds,omitempty" doc:"Of a session, however active; absent if there is no maximum."`
	TimeoutMS       int64  `json:"timeout_ms" example:"600000"`
	Sessions        int    `json:"sessions,omitempty" doc:"At once; absent if there is no maximum."`
	SessionsPerKey  int    `json:"sessions_per_key,omitempty" doc:"At once, of the owner of the request's key; absent if there is no maximum beside sessions."`
	Limits          Limits `json:"limits"`
	CommandBytes    int64  `json:"command_bytes" example:"1048576"`
	OutputBytes     int64  `json:"output_bytes" doc:"In one answer." example:"1048576"`
	ReadBytes       int64  `json:"read_bytes" doc:"In one JSON answer of fs/read." example:"67108864"`
	WriteBytes      int64  `json:"write_bytes" doc:"In one request of fs/write." example:"4194304"`
	UploadBytes     int64  `json:"upload_bytes" doc:"In one request of fs/upload." example:"1073741824"`
	FileBytes       int64  `json:"file_bytes" doc:"Of one file written." example:"1073741824"`
}

type infoOutput struct{ Body Info }

func (s *surface) info(ctx context.Context, _ *struct{}) (*infoOutput, error) {
	d, x, quota := s.manager.Sessions.Limits(api.Caller(ctx))
	drivers := s.manager.Drivers()
	var workspaces *WorkspaceInfo
	if w, ok := s.manager.Workspaces.Options(); ok {
		workspaces = &WorkspaceInfo{
			PersistByDefault: w.PersistByDefault, DefaultSizeMB: w.DefaultSizeMB, MaxSizeMB: w.MaxSizeMB,
			MaxCount: w.MaxCount, RetentionSeconds: int64(w.Retention / time.Second),
		}
	}
	return &infoOutput{Info{
		Workspaces: workspaces, AbsentDrivers: s.manager.Absent(),
		Version: s.opts.Version, API: "v1", Driver: drivers[0], Drivers: drivers,
		Defaults: Defaults{
			Image: d.Image, TTLSeconds: int64(d.TTL / time.Second), OnExpiry: cmp.Or(string(d.OnExpiry), "named"), IdleTimeout: int64(d.IdleTimeout / time.Second), Retention: int64(d.Retention / time.Second), TimeoutMS: d.ExecTimeout.Milliseconds(),
			NetworkMode: networkMode(s.manager.Networks.Default(api.Caller(ctx)).Mode), ReadonlyRootfs: d.ReadonlyRoot,
			Limits: Limits{CPU: d.Limits.CPU, MemoryMB: d.Limits.MemoryMB, Pids: d.Limits.Pids, DiskMB: d.Limits.DiskMB},
		},
		Limits: Maxima{
			TTLSeconds: int64(x.TTL / time.Second), LifetimeSeconds: int64(x.Lifetime / time.Second),
			TimeoutMS: x.ExecTimeout.Milliseconds(), Sessions: x.Sessions, SessionsPerKey: quota.Sessions,
			Limits:       Limits{CPU: x.Limits.CPU, MemoryMB: x.Limits.MemoryMB, Pids: x.Limits.Pids, DiskMB: x.Limits.DiskMB},
			CommandBytes: protocol.MaxCommand, OutputBytes: s.opts.OutputBytes, ReadBytes: files.MaxRead,
			WriteBytes: s.opts.WriteBytes, UploadBytes: s.opts.UploadBytes, FileBytes: x.FileBytes,
		},
	}}, nil
}

// Health is the answer of the probes.
type Health struct {
	Status        string   `json:"status" example:"ok" enum:"ok,disk_full" doc:"disk_full, of readyz: the disk of the daemon's data is full. What is there can be used and removed, and no session be made."`
	AbsentDrivers []string `json:"absent_drivers,omitempty" doc:"Of readyz: see info." nullable:"false" example:"[\"docker\"]"`
}

type healthOutput struct{ Body Health }

func (s *surface) healthz(context.Context, *struct{}) (*healthOutput, error) {
	return &healthOutput{Health{Status: "ok"}}, nil
}

func (s *surface) readyz(context.Context, *struct{}) (*healthOutput, error) {
	if !s.manager.Ready() {
		return nil, errdefs.New(errdefs.Unavailable, "the daemon is starting and takes up its sessions; try again in a second")
	}
	if err := s.opts.Writable(); err != nil {
		return nil, err
	}
	status := "ok"
	if s.opts.DiskFull() {
		status = "disk_full"
	}
	return &healthOutput{Health{Status: status, AbsentDrivers: s.manager.Absent()}}, nil
}

func (s *surface) serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(s.openapi()); err != nil {
		return // the client is gone
	}
}
