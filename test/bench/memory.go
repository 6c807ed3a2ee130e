package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/machine"
	"github.com/sandkasten/sandkasten/test/bench/report"
)

// settleTime is how long the host may finish what it does in the background
// before its memory is read.
const settleTime = 2 * time.Second

// measureMemory makes n sandboxes, leaves them idle, and compares the host
// with itself before. It destroys them again.
func measureMemory(ctx context.Context, s subject, n, workers int) (m report.Memory, err error) {
	before, err := readMeminfo(ctx)
	if err != nil {
		return report.Memory{}, err
	}
	boxes := make([]sandbox, n)
	made := closedLoop(ctx, workers, budget{n: n}, func(ctx context.Context, i int) (time.Time, error) {
		var err error
		boxes[i], err = s.create(ctx)
		return time.Now(), err
	})
	defer func() { err = errors.Join(err, destroyAll(ctx, boxes, workers)) }()
	if made.Failures > 0 {
		return report.Memory{}, fmt.Errorf("%s: %d of %d not made: %s", s.name(), made.Failures, n, made.FirstErr)
	}
	after, err := readMeminfo(ctx)
	if err != nil {
		return report.Memory{}, err
	}
	return perSandbox(before, after, n), nil
}

// perSandbox is what each of n sandboxes costs a host whose /proc/meminfo was
// before and is after.
func perSandbox(before, after map[string]int64, n int) report.Memory {
	per := func(key string) int64 { return (after[key] - before[key]) / int64(n) }
	return report.Memory{
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
	return machine.Meminfo(string(text))
}
