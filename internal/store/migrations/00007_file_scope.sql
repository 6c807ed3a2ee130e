-- +goose Up
-- What the calls for files reach; '' is what the daemon says at the moment.
ALTER TABLE sessions ADD COLUMN file_scope TEXT NOT NULL DEFAULT '';
