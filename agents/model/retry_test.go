package model

import (
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "soon": 0, "7": 7 * time.Second, "Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: %v; want %v", header, got, want)
		}
	}
}
