package sandkasten

import (
	"context"
	"time"
)

// HostHistory is how full the host was, oldest first. Where the daemon did not run there
// is a hole.
type HostHistory struct {
	StepSeconds int          `json:"step_seconds"`
	Samples     []HostSample `json:"samples"`
}

// HostSample is how full the host was at a time, and what the daemon did in the seconds
// before. Percentiles are in milliseconds, at most 4.5 % off, and 0 where there were none;
// 9 % where durations are spread over more than three orders of magnitude.
type HostSample struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"` // since the sample before

	CPUUsed       float64        `json:"cpu_used"` // processors, on average
	CPULimit      int            `json:"cpu_limit"`
	MemoryBytes   int64          `json:"memory_bytes"` // with a step of 60 the most of the minute
	MemoryLimit   int64          `json:"memory_limit"`
	DiskBytes     int64          `json:"disk_bytes"`
	DiskLimit     int64          `json:"disk_limit"`
	DiskPoolBytes int64          `json:"disk_pool_bytes,omitempty"`
	DiskPoolLimit int64          `json:"disk_pool_limit,omitempty"` // 0 is no pool of disks
	Sessions      map[string]int `json:"sessions"`                  // by state
	SessionsLimit int            `json:"sessions_limit"`            // 0 is none
	PoolReady     int            `json:"pool_ready"`
	PoolWanted    int            `json:"pool_wanted"`

	Creates       int64   `json:"creates"`
	CreateErrors  int64   `json:"create_errors"`
	CreateP50MS   float64 `json:"create_p50_ms,omitempty"`
	CreateP90MS   float64 `json:"create_p90_ms,omitempty"`
	CreateP99MS   float64 `json:"create_p99_ms,omitempty"`
	Execs         int64   `json:"execs"`
	ExecOOMKills  int64   `json:"exec_oom_kills"`
	ExecP50MS     float64 `json:"exec_p50_ms,omitempty"`
	ExecP90MS     float64 `json:"exec_p90_ms,omitempty"`
	ExecP99MS     float64 `json:"exec_p99_ms,omitempty"`
	Requests      int64   `json:"requests"`
	RequestErrors int64   `json:"request_errors"` // with a status of 500 or more
}

// HostHistory returns how full the host was. Only admins may ask.
func (c *Client) HostHistory(ctx context.Context, o *StatsHistoryOptions) (HostHistory, error) {
	var history HostHistory
	err := c.call(ctx, historyRequest("/v1/host/history", o), &history)
	return history, err
}

// HostFindings is what is wrong with the host and the daemon's data, the gravest first.
type HostFindings struct {
	At       time.Time     `json:"at"` // when it was looked for
	Findings []HostFinding `json:"findings"`
}

// HostFinding is one thing that is wrong.
type HostFinding struct {
	Source   string `json:"source"`             // doctor or fsck
	Severity string `json:"severity"`           // warn or fail
	What     string `json:"what"`               // the doctor's check, or the kind of thing
	Where    string `json:"where,omitempty"`    // of fsck: its path, process or id
	Expected string `json:"expected,omitempty"` // of fsck
	Found    string `json:"found"`
	Mend     string `json:"mend,omitempty"`
	Command  string `json:"command,omitempty"` // that mends it, as root on the host
}

// HostFindings returns what sandkasten doctor and sandkasten fsck find while the daemon
// works. It takes some seconds where something is wrong. Only admins may ask.
func (c *Client) HostFindings(ctx context.Context) (HostFindings, error) {
	var findings HostFindings
	err := c.call(ctx, get("/v1/host/findings"), &findings)
	return findings, err
}
