package store_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/history"
	"github.com/sandkasten/sandkasten/internal/session"
)

func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s := open(t, path)
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	row := func(id session.ID, step history.Step, after time.Duration) history.Row {
		return history.Row{Session: id, Step: step, Sample: history.Sample{At: at.Add(after), CPUUsageUsec: 1, MemoryBytes: 2, DiskBytes: 3, Pids: 4, SentBytes: 5, ReceivedBytes: 6}}
	}
	rows := []history.Row{row("a", history.Fine, 0), row("a", history.Fine, 10*time.Second), row("a", history.Coarse, 0), row("b", history.Fine, 0)}
	for range 2 { // again is no error: it was not known whether it was written
		if err := s.AddHistory(t.Context(), rows, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, path) // beside the first, as a later daemon would
	got, err := s.History(t.Context(), "a", history.Fine, at)
	if err != nil || !slices.Equal(got, []history.Sample{rows[0].Sample, rows[1].Sample}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.History(t.Context(), "a", history.Fine, at.Add(time.Second)); err != nil || len(got) != 1 {
		t.Errorf("since later: %+v, %v", got, err)
	}
	before := map[history.Step]time.Time{history.Fine: at.Add(5 * time.Second)}
	if err := s.AddHistory(t.Context(), []history.Row{row("a", history.Fine, 20*time.Second)}, before, []session.ID{"b"}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[session.ID]map[history.Step]int{"a": {history.Fine: 2, history.Coarse: 1}, "b": {history.Fine: 0}} {
		for step, n := range want {
			if got, err := s.History(t.Context(), id, step, time.Time{}); err != nil || len(got) != n {
				t.Errorf("%s, %v: %d samples, want %d: %v", id, time.Duration(step), len(got), n, err)
			}
		}
	}
	if ids, err := s.HistorySessions(t.Context()); err != nil || !slices.Equal(ids, []session.ID{"a"}) {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestHostHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s := open(t, path)
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	row := func(step history.Step, after time.Duration) history.HostRow {
		return history.HostRow{Step: step, HostSample: history.HostSample{At: at.Add(after), CPUUsed: 0.5, MemoryBytes: 7, Sessions: map[string]int{"running": 2}, CreateP99MS: 12.5, Requests: 9}}
	}
	rows := []history.HostRow{row(history.Fine, 0), row(history.Fine, 10*time.Second), row(history.Coarse, 0)}
	for range 2 { // again is no error: it was not known whether it was written
		if err := s.AddHostHistory(t.Context(), rows, nil); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, path) // beside the first, as a later daemon would
	got, err := s.HostHistory(t.Context(), history.Fine, at)
	if err != nil || !reflect.DeepEqual(got, []history.HostSample{rows[0].HostSample, rows[1].HostSample}) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := s.AddHostHistory(t.Context(), nil, map[history.Step]time.Time{history.Fine: at.Add(5 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	for step, want := range map[history.Step]int{history.Fine: 1, history.Coarse: 1} {
		if got, err := s.HostHistory(t.Context(), step, time.Time{}); err != nil || len(got) != want {
			t.Errorf("%v: %d samples, want %d: %v", time.Duration(step), len(got), want, err)
		}
	}
}
