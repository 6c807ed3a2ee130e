package daemon

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/preview"
	"github.com/sandkasten/sandkasten/internal/session"
)

// The orchestrator's API is there only if it was asked for, and then beside all
// others.
func TestOrchestratorIsAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		enabled bool
		says    string
	}{
		"by default": {false, `{"error":"there is no such path; GET /docs lists them all","code":"not_found","request_id":"x"}` + "\n"},
		"enabled":    {true, `{"detail":"Not found."}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default(drivers.Names())
			cfg.Orchestrator.Enabled = test.enabled
			manager := session.New(session.Options{})
			named := newOrchestrator(cfg, nil, manager, nil, &drivers.Set{}, silent)
			if (named != nil) != test.enabled {
				t.Errorf("the service is %v", named)
			}
			previews := preview.New(preview.Options{Manager: manager})
			d := &Daemon{cfg: cfg, manager: manager, named: named}
			handler := api.Handler(api.Options{}, d.surfaces(previews, prometheus.NewRegistry())...)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/sandbox/sessions/x/", nil)
			r.Header.Set("X-Request-Id", "x")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != http.StatusNotFound || w.Body.String() != test.says {
				t.Errorf("%d %s, want %s", w.Code, w.Body, test.says)
			}
		})
	}
}
