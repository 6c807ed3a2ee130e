package v1_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/findings"
	"github.com/sandkasten/sandkasten/internal/fsck"
	"github.com/sandkasten/sandkasten/internal/history"
)

func TestHostHistory(t *testing.T) {
	s := start(t, func(o *setup) { o.v1.History = history.New(history.Options{Store: &samples{}}) })
	var got struct {
		StepSeconds int `json:"step_seconds"`
		Samples     []map[string]any
	}
	for query, want := range map[string]struct{ step, samples int }{
		"": {60, 6}, "?step=10": {10, 6}, "?since=2026-11-21T09:00:30Z": {60, 3}, "?since=2036-11-21T09:00:30Z": {10, 0},
	} {
		s.do(t, "GET", "/v1/host/history"+query, "").into(t, 200, &got)
		if got.StepSeconds != want.step || len(got.Samples) != want.samples {
			t.Errorf("%s: %+v", query, got)
		}
	}
	s.do(t, "GET", "/v1/host/history", "").into(t, 200, &got)
	one := got.Samples[0]
	if _, there := one["exec_p50_ms"]; there || one["cpu_used"] != 0.5 || one["creates"] != 3.0 || one["create_p99_ms"] != 12.5 {
		t.Errorf("a sample is %v", one)
	}
	s.do(t, "GET", "/v1/host/history?step=7", "").wantError(t, 400, "invalid_argument", "step")
	s.do(t, "GET", "/v1/host/history?since=yesterday", "").wantError(t, 400, "invalid_argument", "since")
	start(t).do(t, "GET", "/v1/host/history", "").wantError(t, 501, "unimplemented", "")
}

func TestHostFindings(t *testing.T) {
	s := start(t, func(o *setup) {
		o.v1.Findings = findings.New(findings.Options{
			Doctor: func(context.Context) []doctor.Finding {
				return []doctor.Finding{{Check: "swap", Status: doctor.Warn, Found: "on", Mend: "swapoff -a, or encrypt the swap", Command: "swapoff -a"}}
			},
			Fsck: func(context.Context) ([]fsck.Difference, error) {
				return []fsck.Difference{{What: "process", Where: "7", Expected: "none", Found: "a runner", Mend: "restart"}}, nil
			},
		})
	})
	var got struct{ Findings []map[string]string }
	s.do(t, "GET", "/v1/host/findings", "").into(t, 200, &got)
	if len(got.Findings) != 2 || got.Findings[0]["command"] != "swapoff -a" || got.Findings[0]["severity"] != "warn" || got.Findings[1]["source"] != "fsck" || got.Findings[1]["where"] != "7" {
		t.Errorf("%+v", got)
	}
	start(t).do(t, "GET", "/v1/host/findings", "").wantError(t, 501, "unimplemented", "")
}

// What a program in a sandbox answers is no error of the daemon's.
func TestAnswers(t *testing.T) {
	answers := &api.Answers{}
	s := start(t, func(o *setup) { o.api.Answers = answers })
	path := s.create(t)
	port := inside(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	if a := s.do(t, "GET", path+"/ports/"+port+"/", ""); a.status != http.StatusInternalServerError {
		t.Errorf("status %d", a.status)
	}
	s.do(t, "GET", "/v1/nothing", "")
	s.do(t, "GET", "/v1/host/history", "").wantError(t, 501, "unimplemented", "")
	s.counted(t, 4)
	// What this daemon cannot do is no fault either.
	if all, failed := answers.All.Load(), answers.Failed.Load(); all != 4 || failed != 0 {
		t.Errorf("%d answers, %d failed", all, failed)
	}
}
