package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// memory is what the host pays for one idle sandbox, in bytes.
type memory struct {
	N           int   `json:"n"`
	Available   int64 `json:"available"` // drop of the host's MemAvailable: all of it
	Anonymous   int64 `json:"anonymous"` // the processes' own pages
	Slab        int64 `json:"slab"`      // kernel objects
	KernelStack int64 `json:"kernel_stack"`
	PageTables  int64 `json:"page_tables"`
	PerCPU      int64 `json:"per_cpu"`
}

// cost is the larger of what the host lost and the sum of the known parts: on
// a host where others free memory meanwhile the former can even be negative.
func (m memory) cost() int64 {
	return max(m.Available, m.Anonymous+m.Slab+m.KernelStack+m.PageTables+m.PerCPU)
}

// settleTime is how long the host may finish what it does in the background
// before its memory is read.
const settleTime = 2 * time.Second

// measureMemory makes n sandboxes, leaves them idle, and compares the host
// with itself before. It destroys them again.
func measureMemory(ctx context.Context, s subject, n, workers int) (m memory, err error) {
	before, err := readMeminfo(ctx)
	if err != nil {
		return memory{}, err
	}
	boxes := make([]sandbox, n)
	made := closedLoop(ctx, workers, budget{n: n}, func(ctx context.Context, i int) (time.Time, error) {
		var err error
		boxes[i], err = s.create(ctx)
		return time.Now(), err
	})
	defer func() { err = errors.Join(err, destroyAll(ctx, boxes, workers)) }()
	if made.Failures > 0 {
		return memory{}, fmt.Errorf("%s: %d of %d not made: %s", s.name(), made.Failures, n, made.FirstErr)
	}
	after, err := readMeminfo(ctx)
	if err != nil {
		return memory{}, err
	}
	return perSandbox(before, after, n), nil
}

// perSandbox is what each of n sandboxes costs a host whose /proc/meminfo was
// before and is after.
func perSandbox(before, after map[string]int64, n int) memory {
	per := func(key string) int64 { return (after[key] - before[key]) / int64(n) }
	return memory{
		N: n, Available: -per("MemAvailable"), Anonymous: per("AnonPages"), Slab: per("Slab"),
		KernelStack: per("KernelStack"), PageTables: per("PageTables"), PerCPU: per("Percpu"),
	}
}

func destroyAll(ctx context.Context, boxes []sandbox, workers int) error {
	gone := closedLoop(ctx, workers, budget{n: len(boxes)}, func(ctx context.Context, i int) (time.Time, error) {
		if boxes[i] == nil {
			return time.Now(), nil
		}
		err := boxes[i].destroy(ctx)
		return time.Now(), err
	})
	if gone.Failures > 0 {
		return fmt.Errorf("%d of %d not destroyed: %s", gone.Failures, len(boxes), gone.FirstErr)
	}
	return nil
}

// readMeminfo reads /proc/meminfo once the host has settled.
func readMeminfo(ctx context.Context) (map[string]int64, error) {
	select {
	case <-time.After(settleTime):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	return parseMeminfo(string(text))
}

// parseMeminfo returns the fields of /proc/meminfo in bytes.
func parseMeminfo(text string) (map[string]int64, error) {
	fields := map[string]int64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("/proc/meminfo: %q is not understood", line)
		}
		if unit == "kB" {
			n *= 1024
		}
		fields[name] = n
	}
	return fields, nil
}

// processesBelow returns the descendants of a process.
func processesBelow(pid int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		child, parent, err := parseStat(string(text))
		if err != nil {
			return nil, err
		}
		children[parent] = append(children[parent], child)
	}
	all := slices.Clone(children[pid])
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

// parseStat reads pid and parent from /proc/PID/stat. The name between them
// may contain anything, parentheses too.
func parseStat(text string) (pid, parent int, err error) {
	end := strings.LastIndexByte(text, ')')
	begin := strings.IndexByte(text, ' ')
	if begin < 0 || end < begin {
		return 0, 0, fmt.Errorf("%q is not a process's status", text)
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("%q is not a process's status", text)
	}
	pid, err = strconv.Atoi(text[:begin])
	if err != nil {
		return 0, 0, err
	}
	parent, err = strconv.Atoi(fields[1])
	return pid, parent, err
}

func commandName(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "(gone)"
	}
	return strings.TrimSpace(string(name))
}
