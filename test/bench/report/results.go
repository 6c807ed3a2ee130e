// Package report has the results of a benchmark: their types, what the project
// promises itself of them, and how both are written down for readers. Names and
// numbers that a promise or a table speaks of are here too. It measures nothing
// and does not look at the host: who measures fills in Results.
package report

import (
	"time"

	"github.com/sandkasten/sandkasten/test/bench/machine"
)

// Names of subjects and rows that the promises are about.
const (
	Ours            = "sandkasten, HTTP"
	Pooled          = "sandkasten, HTTP, with a pool"
	Networked       = "sandkasten, HTTP, with a network"
	PooledNetworked = "sandkasten, HTTP, with a pool and a network"
	Program         = "sandkasten, HTTP, a process" // run without a shell
	HostProgram     = "fork and exec on the host"

	FilesCopy = "cp inside the sandbox"
	FilesUp   = "sandkasten, HTTP, raw write"
	FilesDown = "sandkasten, HTTP, raw read"

	ForkCold    = "cold create"
	ForkSettled = "fork, settled"
	Bullied     = "true, beside five bullies"

	CPUProbe     = "GET /healthz, one at a time"
	CPUExec      = "exec of true, one at a time"
	CPUProbeBusy = "GET /healthz, 8 clients"
	CPUExecBusy  = "exec of true, 8 clients"
)

// Sizes of what is measured that the promises name.
const (
	BurstN          = 100 // ready sandboxes, and how many sessions are wanted at once
	TogetherN       = 200 // sandboxes
	TogetherWorkers = 16
	ForkedMB        = 500 // written to the session that is forked
)

// Results is everything that a run measured. What was not measured is empty.
type Results struct {
	Date       time.Time                     `json:"date"`
	Machine    machine.Info                  `json:"machine"`
	Lifecycle  map[string]map[string]Summary `json:"lifecycle,omitempty"` // "ready" and "total" -> subject
	Claim      map[string]Summary            `json:"claim,omitempty"`
	Network    map[string]Summary            `json:"network,omitempty"`
	Burst      []Load                        `json:"burst,omitempty"`
	Exec       map[string]Summary            `json:"exec,omitempty"`
	DaemonCPU  map[string]time.Duration      `json:"daemon_cpu,omitempty"` // of one request
	FirstByte  map[string]Summary            `json:"first_byte,omitempty"`
	Output     map[string]float64            `json:"output_bytes_per_second,omitempty"`
	Files      map[string]float64            `json:"file_bytes_per_second,omitempty"`
	Snapshots  map[string]float64            `json:"snapshot_bytes_per_second,omitempty"`
	Busy       []Load                        `json:"busy,omitempty"`
	Together   []Load                        `json:"together,omitempty"`
	Throughput []Load                        `json:"throughput,omitempty"`
	Rates      []Load                        `json:"rates,omitempty"`
	Memory     map[string]Memory             `json:"memory,omitempty"`
	Bullies    map[string]Summary            `json:"bullies,omitempty"`
	Fork       map[string]map[string]Summary `json:"fork,omitempty"` // "plain" and "pool" -> what
	Density    []Density                     `json:"density,omitempty"`
	Restart    *Restart                      `json:"restart,omitempty"`
	Leftovers  []string                      `json:"leftovers"`
}

// Load is what one subject did under one load.
type Load struct {
	Subject string  `json:"subject"`
	What    string  `json:"what"`
	Level   int     `json:"level"` // sandboxes at once, or operations per second
	N       int     `json:"n"`
	Outcome Outcome `json:"outcome"`
}

// Outcome is what a load did.
type Outcome struct {
	Latency  Summary `json:"latency"`
	PerSec   float64 `json:"per_second"`
	Failures int     `json:"failures"`
	FirstErr string  `json:"first_error,omitempty"`
}

// Memory is what the host pays for one idle sandbox, in bytes.
type Memory struct {
	N           int   `json:"n"`
	Available   int64 `json:"available"` // drop of the host's MemAvailable: all of it
	Anonymous   int64 `json:"anonymous"` // the processes' own pages
	Slab        int64 `json:"slab"`      // kernel objects
	KernelStack int64 `json:"kernel_stack"`
	PageTables  int64 `json:"page_tables"`
	PerCPU      int64 `json:"per_cpu"`
}

// Cost is the larger of what the host lost and the sum of the known parts: on
// a host where others free memory meanwhile the former can even be negative.
func (m Memory) Cost() int64 {
	return max(m.Available, m.Anonymous+m.Slab+m.KernelStack+m.PageTables+m.PerCPU)
}

// Density is what so many idle sessions cost, each of them.
type Density struct {
	N            int     `json:"n"`
	CreatePerSec float64 `json:"create_per_second"` // since the count before
	Memory       Memory  `json:"memory"`
	Daemon       Usage   `json:"daemon"`
	Disk         int64   `json:"disk"`  // bytes
	Tasks        float64 `json:"tasks"` // processes and threads of the host
	Exec         Summary `json:"exec"`  // of true, once in each session
}

// Usage is a part of the daemon per session.
type Usage struct {
	Bytes       int64   `json:"bytes"` // resident
	Descriptors float64 `json:"descriptors"`
}

// Restart is a daemon killed and started again above living sessions.
type Restart struct {
	N             int           `json:"n"`
	Ready         time.Duration `json:"ready"`
	Exec          Summary       `json:"exec"` // the first true in each session
	DestroyPerSec float64       `json:"destroy_per_second"`
}
