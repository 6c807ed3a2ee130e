package api

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/sandkasten/sandkasten/internal/weaken"
)

// Times that a client has.
const (
	BodyTimeout  = 30 * time.Second // to send a request body
	WriteTimeout = 30 * time.Second // to take an answer, or one event or piece of it
)

// NewServer returns a server for handler with the timeouts that keep slow
// clients from holding it up. There is no ReadTimeout and no WriteTimeout: a
// command may take minutes and a stream hours, so routes set deadlines on
// bodies and on single writes instead. The caller starts it and shuts it down.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	headerTime := 5 * time.Second
	if weaken.Off(weaken.HeaderTime) {
		headerTime = 0
	}
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
