package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// killAll sends every signal to a process and prints the names of the errors
// it got, once each. With "threads" it sends them to each thread that /proc
// shows as well, and as what claims to be no signal that somebody sent.
func killAll(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var threads []int
	if len(args) > 1 && args[1] == "threads" {
		entries, err := os.ReadDir("/proc/" + args[0] + "/task")
		if err != nil {
			return err
		}
		for _, e := range entries {
			if tid, err := strconv.Atoi(e.Name()); err == nil {
				threads = append(threads, tid)
			}
		}
	}
	answers := map[string]int{}
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		answers[name(errnoOf(unix.Kill(pid, sig)))]++
		answers[name(errnoOf(unix.Tgkill(pid, pid, sig)))]++
		for _, tid := range threads {
			answers[name(errnoOf(unix.Tgkill(pid, tid, sig)))]++
			claim := [16]int64{int64(sig), -1 & 0xffffffff} // si_signo, si_errno; si_code SI_QUEUE
			_, _, errno := unix.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(pid), uintptr(tid), uintptr(sig), uintptr(unsafe.Pointer(&claim)), 0, 0)
			answers[name(errno)]++
		}
	}
	return report(answers)
}

func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	return err.(syscall.Errno)
}

// flood makes as many of one thing as it can, prints how many and which error
// ended it, and lets go of them.
func flood(args []string) error {
	limit, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	makers := map[string]func(i int) error{
		"fds":     func(int) error { _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); return err },
		"inotify": func(int) error { _, err := unix.InotifyInit1(0); return err },
		"eventfd": func(int) error { _, err := unix.Eventfd(0, 0); return err },
		"epoll":   func(int) error { _, err := unix.EpollCreate1(0); return err },
		"ptys":    func(int) error { _, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0); return err },
		"pairs":   func(int) error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
		"files": func(i int) error {
			fd, err := unix.Open(args[2]+"/"+strconv.Itoa(i), unix.O_CREAT|unix.O_WRONLY, 0o600)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		},
	}
	made := 0
	for ; made < limit && err == nil; made++ {
		err = makers[args[0]](made)
	}
	if err != nil {
		made--
	}
	return report(map[string]any{"made": made, "error": name(errnoOf(err))})
}

// threads starts goroutines that each hold a thread, until the limit given.
func threads(args []string) error {
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	done := make(chan struct{})
	for range want {
		go func() {
			// The Go runtime's preemption signal may interrupt the sleep.
			left := unix.Timespec{Sec: 1}
			for unix.Nanosleep(&left, &left) == unix.EINTR {
			}
			done <- struct{}{}
		}()
	}
	for range want {
		<-done
	}
	fmt.Println("made", want)
	return nil
}

// alloc takes memory in steps of a MiB and prints how much it got, which it
// only does if nothing stops it at the number given.
func alloc(args []string) error {
	mib, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var held [][]byte
	for range mib {
		page := make([]byte, 1<<20)
		for i := 0; i < len(page); i += 4096 {
			page[i] = 1
		}
		held = append(held, page)
	}
	fmt.Println("held", len(held))
	if len(args) > 1 {
		d, err := time.ParseDuration(args[1])
		if err != nil {
			return err
		}
		time.Sleep(d)
	}
	return nil
}
