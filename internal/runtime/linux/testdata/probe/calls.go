package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is one system call to make. An argument is a number or a text, of which
// the address is passed.
type call struct {
	Name string `json:"name"`
	Nr   uintptr
	Args []any
}

// calls makes the calls that standard input lists and prints the name of each
// one's error, or "ok". What a call opened stays open: closing could end more.
func calls([]string) error {
	// Some of them change the calling thread, if they are allowed to.
	runtime.LockOSThread()
	in := json.NewDecoder(os.Stdin)
	in.UseNumber()
	var list []call
	if err := in.Decode(&list); err != nil {
		return err
	}
	answers := map[string]string{}
	for _, c := range list {
		answer, err := c.do()
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		answers[c.Name] = answer
	}
	return report(answers)
}

func (c call) do() (string, error) {
	var args [6]uintptr
	var keep [6][]byte
	for i, arg := range c.Args {
		switch v := arg.(type) {
		case json.Number:
			var n uint64
			if _, err := fmt.Sscan(strings.TrimPrefix(v.String(), "-"), &n); err != nil {
				return "", err
			}
			if strings.HasPrefix(v.String(), "-") {
				n = -n
			}
			args[i] = uintptr(n)
		case string:
			keep[i] = append([]byte(v), 0)
			args[i] = uintptr(unsafe.Pointer(&keep[i][0]))
		}
	}
	_, _, errno := unix.Syscall6(c.Nr, args[0], args[1], args[2], args[3], args[4], args[5])
	runtime.KeepAlive(keep)
	return name(errno), nil
}

func name(errno syscall.Errno) string {
	if errno == 0 {
		return "ok"
	}
	return unix.ErrnoName(errno)
}

// onTerminal runs this program with the given arguments as the leader of a
// session on a terminal of its own, which is its standard error.
func onTerminal(args []string) error {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return err
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer slave.Close()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
	return cmd.Run()
}

// sockets tries every family, type and some protocols, plain and with garbage
// in the high halves, and prints what it got a descriptor for.
func sockets([]string) error {
	protocols := []uintptr{0, 1, 2, 3, 6, 9, 12, 15, 16, 17, 33, 47, 50, 58, 115, 132, 136, 255, 256, 262}
	open := map[string]bool{}
	for domain := range uintptr(64) {
		for kind := range uintptr(11) {
			for _, protocol := range protocols {
				for _, high := range []uintptr{0, 1 << 32} {
					fd, _, errno := unix.Syscall(unix.SYS_SOCKET, high|domain, high|kind|unix.SOCK_CLOEXEC, high|protocol)
					if errno == 0 {
						open[fmt.Sprintf("%d %d %d", domain, kind, protocol)] = true
						unix.Close(int(fd))
					}
				}
			}
		}
	}
	return report(open)
}
