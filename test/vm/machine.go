// Package vm runs commands in a virtual machine that is an ordinary Linux
// host: a distribution's own kernel, a pure cgroup v2 hierarchy with all
// controllers, a root filesystem on a disk. The driver's tests run in it, so
// that they are proved on that kind of host wherever the suite itself runs.
//
// Machines are emulated by qemu in software, so they need no virtualisation
// support and are ten times slower than their host. What a machine does is
// told to it by package guest; what the tests in it mean belongs to the tests.
package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/test/vm/guest"
)

// Machine describes one machine. Run boots it, and nothing of it is left when
// Run returns.
type Machine struct {
	Kernel   Kernel
	Init     string            // test/vm/init, statically linked
	Disk     string            // an ext4 image made by MakeDisk: the root filesystem and the image; never written
	Root     string            // a copy of Disk to be the root filesystem, which keeps what the machine writes; empty keeps nothing
	Files    map[string]string // path in the machine -> file or directory on the host
	MemoryMB int
	CPUs     int
	Jobs     []guest.Job
	Stdin    io.Reader // for the jobs; nil means an empty one
}

// machineModules are what a machine needs that distributions do not build
// into their kernels: its devices, and what a driver may expect to be loaded.
var machineModules = []string{"virtio_pci", "virtio_blk", "virtio_console", "loop", "overlay", "xfs"}

// connectTimeout bounds the start of qemu itself, before any guest code runs.
const connectTimeout = 20 * time.Second

// Run boots the machine, calls on for each event in order and returns when the
// machine is off. An error means that the machine did not do its jobs: it
// could not be made, broke, or ctx ended. The error carries the end of the
// console. A job that failed is an event, not an error.
func (m Machine) Run(ctx context.Context, on func(guest.Event)) error {
	dir, err := os.MkdirTemp("", "sandkasten-vm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := m.writeInitramfs(ctx, filepath.Join(dir, "initramfs")); err != nil {
		return fmt.Errorf("make the initramfs: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", m.qemuArgs(dir)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+dir) // its snapshot files
	if err := cmd.Start(); err != nil {
		return err
	}
	talkErr := m.talk(ctx, filepath.Join(dir, "port"), on)
	if talkErr != nil {
		cancel()
	}
	waitErr := cmd.Wait()
	if err := errors.Join(talkErr, waitErr); err != nil {
		return fmt.Errorf("%w\n%s%s", err, stderr.String(), consoleTail(filepath.Join(dir, "console")))
	}
	return nil
}

// qemuArgs is the machine as qemu's command line. -no-reboot and panic=-1
// together make a kernel panic end qemu instead of looping.
func (m Machine) qemuArgs(dir string) []string {
	root := "snapshot=on,file=" + m.Disk
	if m.Root != "" {
		root = "file=" + m.Root
	}
	return []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,la57=off",
		"-m", strconv.Itoa(m.MemoryMB), "-smp", strconv.Itoa(m.CPUs),
		"-kernel", m.Kernel.Image,
		"-initrd", filepath.Join(dir, "initramfs"),
		"-append", "console=ttyS0 panic=-1 cgroup_no_v1=all mitigations=off",
		"-chardev", "file,id=console,path=" + filepath.Join(dir, "console"),
		"-serial", "chardev:console",
		"-drive", "id=root,if=none,format=raw," + root,
		"-device", "virtio-blk-pci,drive=root",
		"-drive", "id=image,if=none,format=raw,readonly=on,file=" + m.Disk,
		"-device", "virtio-blk-pci,drive=image",
		"-device", "virtio-serial-pci",
		"-chardev", "socket,id=port,server=on,wait=on,path=" + filepath.Join(dir, "port"),
		"-device", "virtserialport,chardev=port,name=" + guest.PortName,
	}
}

func (m Machine) writeInitramfs(ctx context.Context, file string) error {
	modules, err := m.Kernel.loadOrder(ctx, machineModules...)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := bufio.NewWriterSize(f, 1<<20)
	archive := newCPIOWriter(buf)
	archive.hostFile("init", m.Init)
	for i, mod := range modules {
		name := fmt.Sprintf("%s/%02d-%s.ko", guest.ModulesDir, i, mod.name)
		archive.file(name, 0o600, strings.NewReader(string(mod.data)), int64(len(mod.data)))
	}
	for name, hostPath := range m.Files {
		archive.hostFile(path.Join(guest.FilesDir, name), hostPath)
	}
	return errors.Join(archive.close(), buf.Flush())
}

// talk sends the plan and reads events until every job has ended.
func (m Machine) talk(ctx context.Context, socket string, on func(guest.Event)) error {
	conn, err := dialRetry(ctx, socket)
	if err != nil {
		return fmt.Errorf("connect to qemu: %w", err)
	}
	// Closing the connection is what ends the reads below and the copy of
	// stdin when ctx does.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		if stop() {
			conn.Close()
		}
	}()
	out := json.NewEncoder(conn)
	if err := out.Encode(guest.Plan{Jobs: m.Jobs}); err != nil {
		return fmt.Errorf("send the plan: %w", err)
	}
	if m.Stdin != nil {
		// It ends with the process if stdin never does: a read of a terminal
		// cannot be interrupted.
		go sendStdin(out, m.Stdin)
	} else if err := out.Encode(guest.Input{EOF: true}); err != nil {
		return fmt.Errorf("send the end of stdin: %w", err)
	}
	return readEvents(conn, len(m.Jobs), on)
}

// readEvents passes events on until every job has ended.
func readEvents(r io.Reader, jobs int, on func(guest.Event)) error {
	in := json.NewDecoder(r)
	for ended := 0; ended < jobs; {
		var ev guest.Event
		if err := in.Decode(&ev); err != nil {
			return fmt.Errorf("the machine stopped after %d of %d jobs: %w", ended, jobs, err)
		}
		if ev.Fault != "" {
			return fmt.Errorf("the machine is broken: %s", ev.Fault)
		}
		if ev.End != nil {
			ended++
		}
		on(ev)
	}
	return nil
}

func sendStdin(out *json.Encoder, stdin io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := stdin.Read(buf)
		if sendErr := out.Encode(guest.Input{Data: buf[:n], EOF: err != nil}); err != nil || sendErr != nil {
			return
		}
	}
}

// dialRetry connects to a socket that qemu is about to make.
func dialRetry(ctx context.Context, socket string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

// consoleTail is the end of the machine's console, for an error.
func consoleTail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Sprintf("(no console: %v)", err)
	}
	const tail = 6000
	if len(data) > tail {
		data = data[len(data)-tail:]
	}
	return "console:\n" + string(data)
}
