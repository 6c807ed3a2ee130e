package v1_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/history"
	"github.com/sandkasten/sandkasten/internal/session"
)

// samples is a store that has a sample each ten seconds of the session of its name.
type samples struct{ id session.ID }

func (samples) AddHistory(context.Context, []history.Row, map[history.Step]time.Time, []session.ID) error {
	return nil
}

func (s *samples) History(_ context.Context, id session.ID, _ history.Step, since time.Time) (found []history.Sample, err error) {
	for at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC); id == s.id && at.Minute() == 0; at = at.Add(10 * time.Second) {
		if !at.Before(since) {
			found = append(found, history.Sample{At: at, CPUUsageUsec: 7, MemoryBytes: 8, DiskBytes: 9, Pids: 1, SentBytes: 2, ReceivedBytes: 3})
		}
	}
	return found, nil
}

func (s *samples) HistorySessions(context.Context) ([]session.ID, error) { return nil, nil }

func (samples) AddHostHistory(context.Context, []history.HostRow, map[history.Step]time.Time) error {
	return nil
}

func (samples) HostHistory(_ context.Context, _ history.Step, since time.Time) (found []history.HostSample, err error) {
	for at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC); at.Minute() == 0; at = at.Add(10 * time.Second) {
		if !at.Before(since) {
			found = append(found, history.HostSample{At: at, Seconds: 10, CPUUsed: 0.5, Sessions: map[string]int{"running": 2}, Creates: 3, CreateP99MS: 12.5})
		}
	}
	return found, nil
}

func TestStatsHistory(t *testing.T) {
	kept := &samples{}
	s := start(t, func(o *setup) { o.v1.History = history.New(history.Options{Store: kept}) })
	path := s.create(t) + "/stats/history"
	kept.id = session.ID(strings.Split(path, "/")[3])
	var got struct {
		StepSeconds int `json:"step_seconds"`
		Samples     []map[string]any
	}
	for query, want := range map[string]struct{ step, samples int }{
		"": {60, 6}, "?step=10": {10, 6}, "?since=2026-11-21T09:00:30Z": {60, 3}, "?since=2036-11-21T09:00:30Z": {10, 0},
	} {
		s.do(t, "GET", path+query, "").into(t, 200, &got)
		if got.StepSeconds != want.step || len(got.Samples) != want.samples {
			t.Errorf("%s: %+v", query, got)
		}
	}
	s.do(t, "GET", path+"?step=7", "").wantError(t, 400, "invalid_argument", "step")
	s.do(t, "GET", path+"?since=yesterday", "").wantError(t, 400, "invalid_argument", "since")
	s.do(t, "GET", path, "", asBob).wantError(t, 404, "not_found", "")
	without := start(t)
	without.do(t, "GET", without.create(t)+"/stats/history", "").wantError(t, 501, "unimplemented", "")
}
