-- +goose Up
CREATE TABLE workspaces (
    owner      TEXT NOT NULL,
    id         TEXT NOT NULL,
    volume     TEXT NOT NULL UNIQUE, -- the driver's name for its files
    state      TEXT NOT NULL,
    size_mb    INTEGER NOT NULL,
    labels     TEXT NOT NULL, -- a JSON object
    created_at INTEGER NOT NULL, -- times are microseconds since 1970, UTC
    last_used  INTEGER NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT;

-- A session that serves a workspace's files to calls without a session.
ALTER TABLE sessions ADD COLUMN helper INTEGER NOT NULL DEFAULT 0;

CREATE INDEX sessions_workspace ON sessions (owner, workspace_id) WHERE workspace_id <> '' AND NOT helper;
