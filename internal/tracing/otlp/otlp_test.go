package otlp_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/internal/tracing/otlp"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// safe is a buffer that several may write to.
type safe struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// A collector that is not there, one that answers nothing and one that refuses:
// no request waits for it, the end does not, and the log says it once.
func TestDeadCollectorHoldsNobodyUp(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer silent.Close()
	defer close(release)
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	for name, url := range map[string]string{"gone": gone.URL, "silent": silent.URL, "refusing": refusing.URL} {
		t.Run(name, func(t *testing.T) {
			var log safe
			exporter, err := otlp.New(t.Context(), otlp.Options{Endpoint: url, Ratio: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			tracer := exporter.Tracer()
			begun := time.Now()
			for i := range 20_000 { // several times what may wait
				_, span := tracer.Request(t.Context(), nil, false)
				span.Answered("GET /x", http.StatusOK, fmt.Sprint(i))
			}
			took := time.Since(begun)
			begun = time.Now()
			exporter.Close(context.Background())
			closing := time.Since(begun)
			t.Logf("20,000 spans in %s, closed in %s", took, closing)
			if took > 20*time.Second || closing > otlp.CloseTimeout+10*time.Second {
				t.Errorf("20,000 spans took %s, closing %s", took, closing)
			}
			if n := strings.Count(log.String(), "level=WARN"); n < 1 || n > 2 {
				t.Errorf("the log:\n%s", log.String())
			}
		})
	}
}

func TestRatio(t *testing.T) {
	var mu sync.Mutex
	var came int
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		came++
	}))
	defer collector.Close()
	for ratio, want := range map[float64]bool{0: false, 1: true} {
		exporter, err := otlp.New(t.Context(), otlp.Options{Endpoint: collector.URL, Ratio: ratio, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		_, span := exporter.Tracer().Request(t.Context(), nil, false)
		span.Answered("GET /x", http.StatusOK, "id")
		exporter.Close(t.Context())
		mu.Lock()
		if (came > 0) != want {
			t.Errorf("ratio %v: %d exports", ratio, came)
		}
		came = 0
		mu.Unlock()
	}
}
