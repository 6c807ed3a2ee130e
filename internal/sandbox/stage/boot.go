// Package stage is the way into a sandbox: what the runner does between its
// start in fresh namespaces and the moment it serves. The daemon sends a Boot
// with open descriptors over a socket; Enter assembles the root filesystem,
// moves into it and gives up every right that serving does not need. What is
// mounted is decided by the driver and only carried out here.
package stage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// ControlFD is the one descriptor of a runner at its start: a message socket
// whose other end the daemon has.
const ControlFD = 3

// Boot is the daemon's one message to a runner. It is followed by descriptors
// in this order: the layers, the disk, the facade, the volume if there is one, the
// listening socket, the file that counts OOM kills, the cgroup v2 directory
// that the workload's processes are cloned into, the tasks files.
type Boot struct {
	Layers       int     `json:"layers"`           // detached read-only mounts, top first
	Volume       bool    `json:"volume,omitempty"` // a detached mount with a workspace comes behind the disk
	ReadonlyRoot bool    `json:"readonly_root"`
	Volatile     bool    `json:"volatile"` // nothing that is written to the root has to survive a crash of the host
	Mounts       []Mount `json:"mounts"`   // in order, below the new root
	Masks        Masks   `json:"masks"`    // after the mounts
	Faces        []Face  `json:"faces"`    // after the masks
	Links        []Link  `json:"links"`
	Hostname     string  `json:"hostname"`
	HostsFile    string  `json:"hosts_file,omitempty"` // content of /etc/hosts where it differs from the disk's
	MachineID    string  `json:"machine_id,omitempty"` // for an /etc/machine-id, which is the image's or another sandbox's
	Workspace    string  `json:"workspace"`
	Env          Env     `json:"env"`
	Quiet        bool    `json:"quiet,omitempty"` // no program is started before somebody asks for one

	CPUs []int `json:"cpus,omitempty"` // that programs begin on; none is all

	TasksFiles int `json:"tasks_files"` // of cgroup v1, which the workload's processes join by writing to them

	RunnerFilter   Filter `json:"runner_filter,omitempty"`
	WorkloadFilter Filter `json:"workload_filter,omitempty"`
	NetlinkFilter  Filter `json:"netlink_filter,omitempty"` // has the kernel ask the runner
	Landlock       bool   `json:"landlock"`
	KeepCaps       bool   `json:"keep_caps,omitempty"` // a build that is weaker for a test
}

// BootIDFile has the kernel's name for its run. It would tell the sandboxes of one
// host that they are neighbours, and when it was started anew.
const BootIDFile = "/proc/sys/kernel/random/boot_id"

// Env is an environment, each variable ended by a zero byte: as bytes, whatever
// is in it takes no more than four thirds of its size in the message.
type Env []byte

// NewEnv encodes a list of variables, which have no zero bytes.
func NewEnv(vars []string) Env {
	var e Env
	for _, v := range vars {
		e = append(append(e, v...), 0)
	}
	return e
}

// Vars is NewEnv's reverse.
func (e Env) Vars() []string {
	var out []string
	for v := range bytes.SplitAfterSeq(e, []byte{0}) {
		if len(v) > 0 {
			out = append(out, string(v[:len(v)-1]))
		}
	}
	return out
}

// Filter is a seccomp program as the kernel reads it: an array of struct
// sock_filter in this machine's byte order. Both sides are one machine, and
// hundreds of JSON objects would cost a tenth of the time that a create takes.
type Filter []byte

// NewFilter encodes a program.
func NewFilter(prog []unix.SockFilter) Filter {
	if len(prog) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&prog[0])), len(prog)*unix.SizeofSockFilter)
}

// program is NewFilter's reverse.
func (f Filter) program() []unix.SockFilter {
	prog := make([]unix.SockFilter, len(f)/unix.SizeofSockFilter)
	if len(prog) > 0 {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&prog[0])), len(prog)*unix.SizeofSockFilter), f)
	}
	return prog
}

// Mount puts one file system or copy of a mount below the new root. The
// target must exist and be neither a symbolic link nor behind one.
type Mount struct {
	From    Source `json:"from"`
	Path    string `json:"path,omitempty"` // for the sources that are copies
	FS      string `json:"fs,omitempty"`
	Options string `json:"options,omitempty"` // as mount(8) takes them: "size=64k,newinstance"
	Target  string `json:"target"`
	Make    Kind   `json:"make,omitempty"` // make the target first
	Attrs   uint64 `json:"attrs,omitempty"`
}

// Masks are paths below the new root that are covered or made read-only. One
// that does not exist is skipped.
type Masks struct {
	Files    []string `json:"files"` // appear empty
	Dirs     []string `json:"dirs"`  // appear empty
	ReadOnly []string `json:"read_only"`
}

// Face covers a file of /proc with one of the facade. A path that does not exist
// is skipped.
type Face struct {
	Path string `json:"path"`
	File string `json:"file"` // its name in the facade
}

// EmptyFile is the file of the facade that masks show.
const EmptyFile = "empty"

// Source says where a Mount comes from.
type Source string

// The sources.
const (
	FromNew  Source = "new"  // a new file system of type FS
	FromHost Source = "host" // Path as the host has it: for tests
	FromDisk Source = "disk" // Path on the sandbox's disk
	// FromFacade is Path on the file system of devices and of files for /proc that
	// the host's root made for this sandbox alone.
	FromFacade Source = "facade"
	// FromVolume is Path on the volume that comes with the Boot.
	FromVolume Source = "volume"
)

// Kind of a target that must be made.
type Kind string

// The kinds.
const (
	MakeFile Kind = "file"
	MakeDir  Kind = "dir"
)

// Link is a symbolic link to make below the new root.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

const (
	maxMessage = 192 << 10
	maxFDs     = 160
)

// Send gives a runner its Boot. The descriptors stay the caller's.
func Send(sock int, b *Boot, fds []int) error {
	msg, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode boot: %w", err)
	}
	if len(msg) > maxMessage || len(fds) > maxFDs {
		return fmt.Errorf("boot of %d bytes and %d descriptors is over the limit", len(msg), len(fds))
	}
	return sys.Send(sock, msg, fds)
}

// AwaitReady waits for the runner's answer and returns its error, or one of
// its own if the runner ended without an answer. The socket's receive timeout
// bounds the wait.
func AwaitReady(sock int) error {
	buf := make([]byte, 4096)
	n, err := sys.Read(sock, buf)
	switch {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("the runner ended before it was ready")
	case string(buf[:n]) == ready:
		return nil
	}
	return fmt.Errorf("in the sandbox: %.1000q", buf[:n])
}

const ready = "ready"

// receive is Send's other end.
func receive(sock int) (*Boot, []int, error) {
	buf := make([]byte, maxMessage)
	oob := make([]byte, unix.CmsgSpace(maxFDs*4))
	n, oobn, err := sys.Receive(sock, buf, oob)
	if err != nil {
		return nil, nil, err
	}
	var b Boot
	if err := json.Unmarshal(buf[:n], &b); err != nil {
		return nil, nil, fmt.Errorf("decode boot of %d bytes: %w", n, err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, nil, os.NewSyscallError("recvmsg", err)
	}
	var fds []int
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			return nil, nil, os.NewSyscallError("recvmsg", err)
		}
		fds = append(fds, got...)
	}
	if want := b.descriptors(); len(fds) != want {
		return nil, nil, fmt.Errorf("boot came with %d descriptors, not %d", len(fds), want)
	}
	return &b, fds, nil
}

// Warm decodes a Boot that says nothing, so that the one that somebody waits
// for is not the first.
func Warm() error {
	b := Boot{
		Mounts: []Mount{{}}, Links: []Link{{}}, Masks: Masks{Files: []string{""}, Dirs: []string{""}, ReadOnly: []string{""}}, Faces: []Face{{}}, CPUs: []int{0},
		Env: Env{0}, RunnerFilter: Filter{0},
	}
	msg, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return json.Unmarshal(msg, &b)
}

// descriptors is how many come with the message.
func (b *Boot) descriptors() int { return b.mounts() + 3 + b.TasksFiles }

// mounts is how many of them are mounts: the layers, the disk, the facade, the volume.
func (b *Boot) mounts() int {
	if b.Volume {
		return b.Layers + 3
	}
	return b.Layers + 2
}
