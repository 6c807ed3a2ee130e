-- +goose Up
-- What happens to a session at the end of its ttl; those that there are end, as they were told.
ALTER TABLE sessions ADD COLUMN on_expiry TEXT NOT NULL DEFAULT 'destroy';
-- A client stopped it; those that are stopped make no room for others, whoever stopped them.
ALTER TABLE sessions ADD COLUMN by_hand INTEGER NOT NULL DEFAULT 1;
CREATE INDEX sessions_named ON sessions (owner, name) WHERE name <> '';
