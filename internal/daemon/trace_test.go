package daemon

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestTracingIsOffUnlessThereIsAnEndpoint(t *testing.T) {
	d := &Daemon{cfg: testConfig(t), log: silent}
	if tracer, err := d.trace(t.Context()); tracer != nil || err != nil || len(d.closers) > 0 {
		t.Errorf("trace = %v, %v, and %d to close", tracer, err, len(d.closers))
	}
}

// The daemon starts without its collector and stops without it.
func TestDaemonDoesNotWaitForItsCollector(t *testing.T) {
	release := make(chan struct{})
	silentCollector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silentCollector.Close()
	defer close(release)
	d := &Daemon{cfg: testConfig(t), log: silent}
	d.cfg.Tracing.Endpoint = silentCollector.URL
	last := errors.New("closed")
	d.closers = append(d.closers, func() error { return last })
	tracer, err := d.trace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Request(t.Context(), nil, false)
	span.Answered("GET /x", http.StatusOK, "id")
	begun := time.Now()
	if err := d.Close(); !errors.Is(err, last) {
		t.Errorf("Close = %v", err)
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("Close took %s", took)
	}
}
