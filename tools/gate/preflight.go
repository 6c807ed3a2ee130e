package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// What the parts need of a host.
const (
	leastDiskGB = 15 // of /var/tmp: images, a virtual machine's disks, Docker engines
	leastMemGB  = 6  // a virtual machine has three
)

// fact is something about the host that makes a difference to the parts.
type fact struct {
	name, value string
	problem     string // why nothing can run here, and what to do; "" if it can
}

// preflight prints what the host is like, removes what earlier runs of the
// tests have left there, and is an error where the parts cannot run.
func preflight(ctx context.Context, out io.Writer) error {
	machine := fact{name: "machine", value: fmt.Sprintf("%s, %d processors, user id %d", runtime.GOARCH, runtime.NumCPU(), os.Geteuid())}
	facts := append(doctorFacts(), machine, diskFact("/var/tmp", leastDiskGB), memoryFact(), clockFact(ctx), entropyFact(), leftFact())
	facts = append(facts, programFacts()...)
	var errs []error
	for _, f := range facts {
		fmt.Fprintf(out, "%-10s %s\n", f.name, f.value)
		if f.problem != "" {
			errs = append(errs, fmt.Errorf("%s: %s; %s", f.name, f.value, f.problem))
		}
	}
	return errors.Join(errs...)
}

// doctorFacts are what the product's own doctor says of what no part can do
// without. Its other findings are for daemons.
func doctorFacts() []fact {
	host := doctor.ThisHost()
	host.DataDir = "/var/tmp"
	var facts []fact
	for _, found := range doctor.Examine(host) {
		if found.Check != "kernel" && found.Check != "cgroups" {
			continue
		}
		f := fact{name: found.Check, value: found.Found}
		if found.Status != doctor.OK {
			f.problem = found.Mend
		}
		facts = append(facts, f)
	}
	return facts
}

func diskFact(dir string, leastGB uint64) fact {
	f := fact{name: "disk"}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		f.value, f.problem = err.Error(), "make "+dir
		return f
	}
	free := fs.Bavail * uint64(fs.Bsize) >> 30
	f.value = fmt.Sprintf("%d GiB free in %s", free, dir)
	if free < leastGB {
		f.problem = fmt.Sprintf("the tests need %d GiB there; set %s to a directory on a larger disk", leastGB, testenv.DirVar)
	}
	return f
}

func memoryFact() fact {
	f := fact{name: "memory"}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		f.value, f.problem = err.Error(), "mount /proc"
		return f
	}
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	kb, err := strconv.Atoi(strings.Fields(rest + " 0")[0])
	f.value = fmt.Sprintf("%d GiB available", kb>>20)
	if err != nil || kb>>20 < leastMemGB {
		f.problem = fmt.Sprintf("the tests need %d GiB", leastMemGB)
	}
	return f
}

// clockFact compares the clock with the newest commit: one that is behind it
// breaks certificates, signatures and builds in ways that do not name it.
func clockFact(ctx context.Context) fact {
	now := time.Now()
	f := fact{name: "clock", value: now.UTC().Format(time.RFC3339)}
	out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
	if err != nil {
		return f // an archive without history
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if committed := time.Unix(seconds, 0); err == nil && now.Before(committed.Add(-time.Hour)) {
		f.problem = "the newest commit is of " + committed.UTC().Format(time.RFC3339) + "; set the clock"
	}
	return f
}

func entropyFact() fact {
	f := fact{name: "entropy", value: "ready"}
	if _, err := unix.Getrandom(make([]byte, 16), unix.GRND_NONBLOCK); err != nil {
		f.value = err.Error()
		f.problem = "the kernel's random numbers are not ready; wait, or install haveged"
	}
	return f
}

// programFacts are for the reader: tests use daemons and engines of their own,
// beside which others may run and take their share of the machine. One pass over
// the names of processes is the cheapest way to see them, and happens once.
func programFacts() []fact {
	daemon := fact{name: "daemon", value: "no Sandkasten runs"}
	engine := fact{name: "docker", value: "no engine runs"}
	for _, file := range glob("/proc/[0-9]*/comm") {
		comm, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		process := strings.Split(file, "/")[2]
		switch strings.TrimSpace(string(comm)) {
		case "sandkasten":
			daemon.value = "a Sandkasten runs, process " + process + "; the tests leave it alone"
		case "dockerd":
			engine.value = "an engine runs, process " + process + "; the tests use engines of their own"
		}
	}
	return []fact{engine, daemon}
}

// leftFact removes what earlier runs have left, as far as that is possible.
func leftFact() fact {
	f := fact{name: "left", value: "nothing of an earlier run"}
	marks, err := testenv.Stale()
	if err != nil {
		f.value, f.problem = err.Error(), "is /proc mounted?"
		return f
	}
	if len(marks) == 0 {
		return f
	}
	f.value = "removed what earlier runs left: " + strings.Join(marks, " ")
	if err := testenv.Sweep(marks); err != nil {
		f.value = "earlier runs have left what cannot be removed"
		f.problem = err.Error()
	}
	return f
}

// leftBehind is a part of its own at the end: nothing of the tests is on the
// host any more.
func leftBehind() result {
	r := result{part: part{name: "nothing left behind"}, state: passed}
	start := time.Now()
	marks, err := testenv.Stale()
	if err == nil && len(marks) > 0 {
		err = fmt.Errorf("%s: left by tests that have ended; the next run removes it", strings.Join(marks, " "))
	}
	if err != nil {
		r.state, r.err = failed, err
	}
	r.took = time.Since(start)
	return r
}

// glob is filepath.Glob for patterns that are ours.
func glob(pattern string) []string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		panic(err)
	}
	return found
}
