-- +goose Up
-- What its owner calls a session; empty if it has no name. Only those that have not
-- ended are told apart by it, which the manager sees to.
ALTER TABLE sessions ADD COLUMN name TEXT NOT NULL DEFAULT '';
