// Package guest is what a test machine's init and the harness on the host say
// to each other: one Plan in, then Input in and Event out, as JSON lines on a
// virtio port. It holds types and names only; package vm is the host's side
// and test/vm/init the machine's.
package guest

import "time"

// Names that both sides must agree on.
const (
	PortName   = "sandkasten.harness" // the virtio port's name
	ModulesDir = "/modules"           // in the initramfs: loaded in lexical order
	FilesDir   = "/files"             // in the initramfs: copied over the root disk
	RootDisk   = "/dev/vda"           // the host's root filesystem, writable
	ImageDisk  = "/dev/vdb"           // the image for sandboxes, read-only
	ImageMount = "/image"             // where ImageDisk is mounted
)

// Plan is what a machine does between its boot and its power off: the jobs,
// one after the other. A job that fails does not stop the next one.
type Plan struct {
	Jobs []Job `json:"jobs"`
}

// Job is one command, run as root in the machine.
type Job struct {
	Args    []string      `json:"args"`
	Env     []string      `json:"env"` // added to the machine's own
	Dir     string        `json:"dir"`
	Timeout time.Duration `json:"timeout"` // then it is killed; zero means no limit
}

// Input is standard input for the job that is running.
type Input struct {
	Data []byte `json:"data"`
	EOF  bool   `json:"eof"`
}

// Event is something that happened in the machine. Exactly one of Output, End
// and Fault is set.
type Event struct {
	Job    int    `json:"job"`
	Output []byte `json:"output,omitempty"` // stdout and stderr together
	End    *End   `json:"end,omitempty"`    // the job's last event
	Fault  string `json:"fault,omitempty"`  // the machine itself is broken and stops
}

// End says how a job ended.
type End struct {
	Code     int           `json:"code"` // 128+n for signal n
	TimedOut bool          `json:"timed_out"`
	Duration time.Duration `json:"duration"`
}
