package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/findings"
	"github.com/sandkasten/sandkasten/internal/fsck"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// sick is a host with something to mend.
func sick() *findings.Examiner {
	return findings.New(findings.Options{
		Doctor: func(context.Context) []doctor.Finding {
			return []doctor.Finding{{Check: "swap", Status: doctor.Warn, Found: "on", Mend: "swapoff -a, or encrypt the swap", Command: "swapoff -a"}}
		},
		Fsck: func(context.Context) ([]fsck.Difference, error) {
			return []fsck.Difference{{What: "snapshot", Where: "abc", Expected: "its archive", Found: "none\x1b[31m", Mend: "remove it", Grave: true}}, nil
		},
	})
}

func TestHostFindings(t *testing.T) {
	tm := startDaemon(t)
	r := tm.run("host", "findings")
	want := "fail  snapshot abc: none\\x1b[31m (expected: its archive)\n      -> remove it\nwarn  swap: on\n      -> swapoff -a, or encrypt the swap\n"
	if r.code != cli.ExitFailed || r.out != want {
		t.Errorf("%d %q\nwant %q", r.code, r.out, want)
	}
	var got sandkasten.HostFindings
	if r := tm.run("host", "findings", "--json"); json.Unmarshal([]byte(r.out), &got) != nil || r.code != cli.ExitFailed || len(got.Findings) != 2 || got.Findings[1].Command != "swapoff -a" {
		t.Errorf("%+v", r)
	}
}

func TestHostHistory(t *testing.T) {
	tm := startDaemon(t)
	if r := tm.run("host", "history"); r.code != 0 || r.out != "" || !strings.Contains(r.errOut, "every ten seconds") {
		t.Errorf("%+v", r)
	}
	var got sandkasten.HostHistory
	if err := json.Unmarshal([]byte(tm.want("host", "history", "--since", "2h", "--json")), &got); err != nil || got.StepSeconds != 60 {
		t.Errorf("%+v, %v", got, err)
	}
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.Local)
	rows := hostRows([]sandkasten.HostSample{
		{At: at, Seconds: 10, CPUUsed: 0.5, CPULimit: 4, Sessions: map[string]int{"running": 3}, PoolReady: 1, PoolWanted: 2, Creates: 5, CreateP50MS: 9.64, CreateP99MS: 20, RequestErrors: 7},
	})
	want := []string{"09:00:00", "0.50", "4", "0 B", "0 B", "0 B", "0 B", "3", "1/2", "30", "9.6", "20.0", "0", "-", "-", "7"}
	if diff := cmp.Diff(want, rows[1]); diff != "" || len(rows[0]) != len(want) {
		t.Error(diff)
	}
}
