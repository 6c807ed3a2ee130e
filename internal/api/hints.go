package api

import "github.com/sandkasten/sandkasten/internal/errdefs"

// hints say where a client finds what there is, instead of what it asked for.
// Below the surfaces nobody knows of routes.
var hints = map[errdefs.Reason]string{
	errdefs.NoSuchSession:   "GET /v1/sessions lists those that there are",
	errdefs.NoSuchWorkspace: "GET /v1/workspaces lists those that there are",
	errdefs.NoSuchSecret:    "GET /v1/secrets lists those that there are",
	errdefs.NoSuchSnapshot:  "GET /v1/snapshots lists those that there are",
}
