-- +goose Up
CREATE TABLE sessions (
    id              TEXT PRIMARY KEY,
    sandbox         TEXT NOT NULL,
    image           TEXT NOT NULL,
    image_digest    TEXT NOT NULL,
    state           TEXT NOT NULL,
    end_state       TEXT NOT NULL, -- while stopping: the state it is on its way to
    end_reason      TEXT NOT NULL,
    workspace_id    TEXT NOT NULL,
    cwd             TEXT NOT NULL,
    hostname        TEXT NOT NULL,
    cpu             REAL NOT NULL,
    memory_mb       INTEGER NOT NULL,
    pids            INTEGER NOT NULL,
    disk_mb         INTEGER NOT NULL,
    network         TEXT NOT NULL,
    readonly_root   INTEGER NOT NULL,
    labels          TEXT NOT NULL, -- a JSON object
    owner           TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    request_hash    TEXT NOT NULL,
    created_at      INTEGER NOT NULL, -- times are microseconds since 1970, UTC
    last_activity   INTEGER NOT NULL,
    ttl_us          INTEGER NOT NULL,
    max_lifetime_us INTEGER NOT NULL, -- 0 is none
    ended_at        INTEGER NOT NULL  -- 0 while it lives
) STRICT;

-- A key whose create failed may be used again.
CREATE UNIQUE INDEX sessions_idempotency ON sessions (owner, idempotency_key)
    WHERE idempotency_key <> '' AND state <> 'failed';

CREATE INDEX sessions_alive ON sessions (created_at) WHERE ended_at = 0;
CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at <> 0;
