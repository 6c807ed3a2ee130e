-- +goose Up
-- The session whose files a fork began with.
ALTER TABLE sessions ADD COLUMN forked_from TEXT NOT NULL DEFAULT '';
