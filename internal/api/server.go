package api

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// Times that a client has.
const (
	BodyTimeout  = 30 * time.Second // to send a request body
	WriteTimeout = 30 * time.Second // to take an answer, or one event or piece of it
)

// maxHeaders bounds a request's line and headers.
const maxHeaders = 32 << 10

// checkHeaders refuses what is over maxHeaders, in JSON as everything else.
func checkHeaders(r *http.Request) error {
	size := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + len(": \r\n")
		}
	}
	if size > maxHeaders {
		return errdefs.New(codeHeaders, "the request's path and headers are over their limit of %d bytes", maxHeaders)
	}
	return nil
}

// NewServer returns a server for handler with the timeouts that keep slow
// clients from holding it up. There is no ReadTimeout and no WriteTimeout: a
// command may take minutes and a stream hours, so routes set deadlines on
// bodies and on single writes instead. The caller starts it and shuts it down.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	headerTime := 5 * time.Second
	if protection.Off(protection.HeaderTime) {
		headerTime = 0
	}
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    4 * maxHeaders, // the library's, which no request that comes through Connections.Bound reaches
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
