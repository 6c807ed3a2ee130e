package audit_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/audit"
)

// However many requests without a key come, of however many addresses: what
// owners have done stays, the first refusals of a minute have lines, and the
// others are counted.
func TestRefusedRequestsKeepHistory(t *testing.T) {
	for name, remote := range map[string]func(i int) string{
		"one address":    func(int) string { return "192.0.2.1:1" },
		"many addresses": func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i%60000) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { flood(t, dir, remote) })
		})
	}
}

func flood(t *testing.T, dir string, remote func(i int) string) {
	t.Helper()
	const perMinute, minutes = 1000, 200
	log, err := audit.Open(audit.Options{Dir: dir, MaxBytes: 64 << 10, MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- log.Run(ctx) }()
	log.Append(t.Context(), audit.Entry{Event: "answered", Owner: "alice", Route: "DELETE /v1/sessions/{id}"})
	for minute := range minutes {
		for i := range perMinute {
			log.Refuse(t.Context(), audit.Entry{Event: "answered", Remote: remote(minute*perMinute + i), Route: "POST (none)", Status: 401})
		}
		time.Sleep(time.Minute + 2*time.Second)
	}
	log.Append(t.Context(), audit.Entry{Event: "answered", Owner: "bob"})
	if files, err := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 || err != nil {
		t.Errorf("there are %v, %v; want no other file begun", files, err)
	}
	var first, last string
	var lines, counted int64
	files, err := audit.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Verify(files, func(l audit.Line) error {
		switch {
		case l.Owner != "" && first == "":
			first = l.Owner
		case l.Owner != "":
			last = l.Owner
		case l.Event == "refused":
			counted += l.Requests
		default:
			lines++
		}
		return nil
	}); err != nil || first != "alice" || last != "bob" {
		t.Errorf("%v; the first line is of %q, the last of %q", err, first, last)
	}
	if lines == 0 || counted == 0 || lines+counted > perMinute*minutes {
		t.Errorf("%d lines and %d counted of %d refusals", lines, counted, perMinute*minutes)
	}
	stop()
	if err := errors.Join(<-ran, log.Close()); err != nil {
		t.Error(err)
	}
}

func TestSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s audit.Sampler
		taken := 0
		for i := range 1000 {
			if s.Take(fmt.Sprintf("192.0.2.%d:99", i%2)) {
				taken++
			}
		}
		if taken != 20 || s.Left() != 0 {
			t.Errorf("%d of two addresses have a line, %d are told before the minute is over", taken, s.Left())
		}
		time.Sleep(time.Minute)
		if left := s.Left(); left != 980 {
			t.Errorf("%d have none", left)
		}
		if !s.Take("192.0.2.1:5") || s.Left() != 0 {
			t.Error("the next minute is like the last")
		}
	})
}
