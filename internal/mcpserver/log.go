package mcpserver

import (
	"context"
	"log/slog"
)

// QuietLog is for the library, which writes three lines for each request of a client, and
// errors for what clients do wrong: all of it is of the level debug.
func QuietLog(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(quietHandler{log.Handler()})
}

type quietHandler struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h quietHandler) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (h quietHandler) Handle(ctx context.Context, line slog.Record) error {
	line.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}
