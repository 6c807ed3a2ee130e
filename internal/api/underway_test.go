package api_test

import (
	"context"
	"crypto/subtle"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// threeKeys have an owner each of the same name.
type threeKeys struct{}

func (threeKeys) Authenticate(_ context.Context, key string) (auth.Principal, error) {
	for _, known := range []string{"alice", "bob", "carol"} {
		if subtle.ConstantTimeCompare([]byte(key), []byte(known)) == 1 {
			return auth.Principal{Owner: known, Quota: known}, nil
		}
	}
	return auth.Principal{}, errdefs.New(errdefs.Unauthenticated, "unknown key")
}

// stuck has a route of each class, which answers once it is let go.
type stuck struct {
	http.Handler
	entered chan struct{}
	release chan struct{}
	wg      sync.WaitGroup
}

func newStuck(o api.Options) *stuck {
	s := &stuck{entered: make(chan struct{}), release: make(chan struct{})}
	handle := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("now") {
			return
		}
		s.entered <- struct{}{}
		<-s.release
		if r.URL.Query().Has("panic") {
			panic("on the way out")
		}
	})
	o.Authenticator = threeKeys{}
	s.Handler = api.Handler(o, api.Surface{Name: "test", Routes: []api.Route{
		{Pattern: "GET /short", Scope: api.Key, Handler: handle},
		{Pattern: "GET /long", Scope: api.Key, Class: api.Long, Handler: handle},
		{Pattern: "GET /transfer", Scope: api.Key, Class: api.Transfer, Handler: handle},
		{Pattern: "GET /public", Scope: api.Public, Handler: handle},
	}})
	return s
}

func (s *stuck) ask(owner, target string) *httptest.ResponseRecorder {
	return serve(s, request("GET", target, set("Authorization", "Bearer "+owner)))
}

// hold begins n requests and returns when all are in the handler.
func (s *stuck) hold(owner, target string, n int) {
	for range n {
		s.wg.Go(func() { s.ask(owner, target) })
		<-s.entered
	}
}

// letGo ends what is held.
func (s *stuck) letGo() {
	close(s.release)
	s.wg.Wait()
	s.release = make(chan struct{})
}

func TestConcurrentRequests(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := newStuck(api.Options{
		Registry: registry,
		Concurrent: api.Concurrencies{
			api.Short: 5, api.Long: 3,
		},
		Quotas: auth.FixedQuotas{General: auth.Quota{Requests: 2, Waiting: 3}, Of: map[string]auth.Quota{"bob": {Requests: 4}}},
	})
	for range 2 { // the second time shows that everything was given back
		s.hold("alice", "/short?panic", 2)
		over := s.ask("alice", "/short?now")
		wantError(t, over, http.StatusTooManyRequests, "resource_exhausted")
		if want := "2 requests of this key are under way, which is its limit"; !strings.Contains(over.Body.String(), want) || over.Header().Get("Retry-After") == "" {
			t.Errorf("%s, %v", over.Body, over.Header())
		}
		// The same key's streams, another's calls and what needs no key go on.
		for owner, target := range map[string]string{"alice": "/long?now", "bob": "/short?now", "carol": "/public?now"} {
			if w := s.ask(owner, target); w.Code != http.StatusOK {
				t.Errorf("%s at %s: %d %s", owner, target, w.Code, w.Body)
			}
		}
		s.hold("bob", "/short", 3)
		over = s.ask("bob", "/short?now") // would be within bob's four
		wantError(t, over, http.StatusServiceUnavailable, "unavailable")
		if want := "5 requests of all keys are under way, which is the daemon's limit"; !strings.Contains(over.Body.String(), want) || over.Header().Get("Retry-After") == "" {
			t.Errorf("%s, %v", over.Body, over.Header())
		}
		s.hold("alice", "/long", 3)
		wantError(t, s.ask("alice", "/long?now"), http.StatusTooManyRequests, "resource_exhausted")
		s.hold("alice", "/transfer", 20)
		wantMetrics(t, registry, map[string]float64{
			"sandkasten_http_requests_in_flight long": 3, "sandkasten_http_requests_in_flight short": 5, "sandkasten_http_requests_in_flight transfer": 20,
		})
		s.letGo()
	}
	wantMetrics(t, registry, map[string]float64{
		"sandkasten_http_requests_in_flight long": 0, "sandkasten_http_requests_in_flight short": 0, "sandkasten_http_requests_in_flight transfer": 0,
		"sandkasten_http_requests_refused_total daemon": 2, "sandkasten_http_requests_refused_total key": 4, "sandkasten_http_requests_refused_total rate": 0,
		"sandkasten_http_requests_in_flight_limit long daemon": 3, "sandkasten_http_requests_in_flight_limit short key": 2,
		"sandkasten_http_requests_in_flight_limit transfer key": 0,
	})
}

// wantMetrics checks values of metrics, each by its name and its labels' values.
func wantMetrics(t *testing.T, registry *prometheus.Registry, want map[string]float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, value := range want {
		if n, ok := got[name]; !ok || n != value {
			t.Errorf("%s is %g, %v; want %g", name, n, ok, value)
		}
	}
}

// changing has one quota for all, which a test changes between requests.
type changing struct{ quota auth.Quota }

func (c *changing) QuotaOf(auth.Principal) auth.Quota { return c.quota }

// Quotas are asked at each request: a change holds from the next one on.
func TestQuotasChange(t *testing.T) {
	quotas := &changing{auth.Quota{RequestsPerSecond: 0.001, Burst: 1, Requests: 1}}
	s := newStuck(api.Options{Quotas: quotas})
	want := func(when string, status int) {
		t.Helper()
		if w := s.ask("alice", "/short?now"); w.Code != status {
			t.Errorf("%s: %d %s, want %d", when, w.Code, w.Body, status)
		}
	}
	want("the first", http.StatusOK)
	want("the second", http.StatusTooManyRequests)
	quotas.quota.RequestsPerSecond = 0
	want("without a rate", http.StatusOK)

	s.hold("alice", "/short", 1)
	want("beside one under way", http.StatusTooManyRequests)
	quotas.quota.Requests = 2
	want("with room for two", http.StatusOK)
	s.letGo()
}
