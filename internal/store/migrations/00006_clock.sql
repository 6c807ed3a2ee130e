-- +goose Up
-- One row: between which clocks the times of the other tables were told.
CREATE TABLE clock (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    boot      TEXT NOT NULL,   -- the kernel's name for its run
    offset_us INTEGER NOT NULL -- what the wall clock was ahead of the time since boot
) STRICT;
