-- +goose Up
CREATE TABLE snapshots (
    id              TEXT PRIMARY KEY,
    owner           TEXT NOT NULL,
    name            TEXT NOT NULL,
    label           TEXT NOT NULL,
    state           TEXT NOT NULL,
    size            INTEGER NOT NULL, -- of the archive in bytes
    manifest        TEXT NOT NULL, -- a JSON object
    created_at      INTEGER NOT NULL, -- microseconds since 1970, UTC
    idempotency_key TEXT NOT NULL,
    request_hash    TEXT NOT NULL
) STRICT;

CREATE INDEX snapshots_owner ON snapshots (owner, created_at);
CREATE UNIQUE INDEX snapshots_key ON snapshots (owner, idempotency_key) WHERE idempotency_key <> '' AND state <> 'deleting';
