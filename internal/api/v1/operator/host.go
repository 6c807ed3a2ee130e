// Package operator has the handlers of /v1/host: how full the host of the daemon was, and
// what is wrong with it. Both tell of the sessions of all, and are for admins alone.
package operator

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/findings"
	"github.com/sandkasten/sandkasten/internal/history"
)

// Handlers answer the calls.
type Handlers struct {
	History  *history.Recorder  // nil has none, and answers so
	Findings *findings.Examiner // nil has none, and answers so
}

// HostHistory is how full the host was, and what the daemon did.
type HostHistory struct {
	StepSeconds int          `json:"step_seconds" example:"10"`
	Samples     []HostSample `json:"samples" nullable:"false" doc:"Oldest first. Where the daemon did not run there is a hole."`
}

// HostSample is how full the host was at a time, and what the daemon did since the
// sample before. Its fields are those of history.HostSample.
type HostSample struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds" doc:"Since the sample before: the interval of what was done." example:"10"`

	CPUUsed       float64        `json:"cpu_used" doc:"Processors that all programs of the host had, on average over the interval." example:"1.25"`
	CPULimit      int            `json:"cpu_limit" doc:"Processors of the host." example:"8"`
	MemoryBytes   int64          `json:"memory_bytes" doc:"That nobody else can have. With a step of 60 the most of the minute." example:"8589934592"`
	MemoryLimit   int64          `json:"memory_limit" doc:"Of the host." example:"34359738368"`
	DiskBytes     int64          `json:"disk_bytes" doc:"Written on the file system of data_dir, by whomever." example:"53687091200"`
	DiskLimit     int64          `json:"disk_limit" doc:"Its size." example:"214748364800"`
	DiskPoolBytes int64          `json:"disk_pool_bytes,omitempty" doc:"Written in the pool of disks, with disk.pool_mb."`
	DiskPoolLimit int64          `json:"disk_pool_limit,omitempty" doc:"Its size; absent without a pool."`
	Sessions      map[string]int `json:"sessions" nullable:"false" doc:"How many there were by state, those of all owners." example:"{\"running\":12,\"stopped\":3}"`
	SessionsLimit int            `json:"sessions_limit" doc:"How many may be alive at once; 0 is no limit." example:"100"`
	PoolReady     int            `json:"pool_ready" doc:"Sandboxes that were ready for sessions to come." example:"3"`
	PoolWanted    int            `json:"pool_wanted" doc:"Sandboxes that were to be ready." example:"3"`

	Creates       int64   `json:"creates" doc:"Sessions made in the interval." example:"4"`
	CreateErrors  int64   `json:"create_errors" doc:"Creates that the daemon, its driver or its host failed at. Those that were refused for what they asked for do not count."`
	CreateP50MS   float64 `json:"create_p50_ms,omitempty" doc:"Half of the creates took at most so long, in milliseconds; absent without any. Like the other percentiles at most 4.5 % off; 9 % when durations since the daemon's start are spread over more than three orders of magnitude." example:"9.6"`
	CreateP90MS   float64 `json:"create_p90_ms,omitempty" example:"14.8"`
	CreateP99MS   float64 `json:"create_p99_ms,omitempty" example:"41.9"`
	Execs         int64   `json:"execs" doc:"Commands that ended in the interval, without background ones." example:"31"`
	ExecOOMKills  int64   `json:"exec_oom_kills" doc:"Those that were ended for want of memory."`
	ExecP50MS     float64 `json:"exec_p50_ms,omitempty" doc:"Half of the commands ran at most so long, in milliseconds; absent without any." example:"38.3"`
	ExecP90MS     float64 `json:"exec_p90_ms,omitempty" example:"420"`
	ExecP99MS     float64 `json:"exec_p99_ms,omitempty" example:"5120"`
	Requests      int64   `json:"requests" doc:"Answered in the interval." example:"64"`
	RequestErrors int64   `json:"request_errors" doc:"Those that the daemon failed at: with a status of 500 or more, but for 501, 503 and 507."`
}

// HistoryOutput is HostHistory as the kit wants it.
type HistoryOutput struct{ Body HostHistory }

// GetHistory lists samples of the host from a time on.
func (h *Handlers) GetHistory(ctx context.Context, step history.Step, since time.Time) (*HistoryOutput, error) {
	if h.History == nil {
		return nil, errdefs.New(errdefs.Unimplemented, "this daemon keeps no history")
	}
	samples, found, err := h.History.OfHost(ctx, step, since)
	if err != nil {
		return nil, err
	}
	out := &HistoryOutput{HostHistory{StepSeconds: int(time.Duration(found) / time.Second), Samples: make([]HostSample, len(samples))}}
	for i, one := range samples {
		one.At = one.At.UTC()
		out.Body.Samples[i] = HostSample(one)
	}
	return out, nil
}

// HostFindings is what is wrong with the host and with the daemon's data.
type HostFindings struct {
	At       time.Time     `json:"at" doc:"When it was looked for; a few seconds ago at most."`
	Findings []HostFinding `json:"findings" nullable:"false" doc:"The gravest first; none where all is well."`
}

// HostFinding is one thing that is wrong.
type HostFinding struct {
	Source   string `json:"source" enum:"doctor,fsck" doc:"doctor: the host is not as it should be. fsck: the database and what there is differ." example:"doctor"`
	Severity string `json:"severity" enum:"warn,fail" doc:"warn: it works, but weaker or slower than it could, or the daemon mends it itself. fail: something is lost, or cannot be used." example:"warn"`
	What     string `json:"what" doc:"The doctor's check, or the kind of thing." example:"processes"`
	Where    string `json:"where,omitempty" doc:"Of fsck: the thing's path, process or id."`
	Expected string `json:"expected,omitempty" doc:"Of fsck: what should be there."`
	Found    string `json:"found" doc:"What there is." example:"kernel.pid_max is 4096, for up to 1000 sessions"`
	Mend     string `json:"mend,omitempty" doc:"What to do." example:"sysctl -w kernel.pid_max=16000 and write kernel.pid_max=16000 into /etc/sysctl.d/sandkasten.conf, or lower max_sessions"`
	Command  string `json:"command,omitempty" doc:"A command that mends it, as root on the host; absent where none does. mend says what else there is to know." example:"sysctl -w kernel.pid_max=16000"`
}

// FindingsOutput is HostFindings as the kit wants it.
type FindingsOutput struct{ Body HostFindings }

// GetFindings tells what is wrong.
func (h *Handlers) GetFindings(ctx context.Context, _ *struct{}) (*FindingsOutput, error) {
	if h.Findings == nil {
		return nil, errdefs.New(errdefs.Unimplemented, "this daemon does not examine its host")
	}
	report, err := h.Findings.Report(ctx)
	if err != nil {
		return nil, err
	}
	out := &FindingsOutput{HostFindings{At: report.At.UTC(), Findings: make([]HostFinding, len(report.Findings))}}
	for i, f := range report.Findings {
		out.Body.Findings[i] = HostFinding{
			Source: f.Source, Severity: string(f.Severity), What: f.What, Where: f.Where, Expected: f.Expected, Found: f.Found, Mend: f.Mend, Command: f.Command,
		}
	}
	return out, nil
}
