package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/relay"
)

// sandbox is a handle. All it knows is in the container's labels too.
type sandbox struct {
	d      *Driver
	id     runtime.ID
	limits runtime.Limits
	memory bool // its workspace is in memory
}

// Volatile implements runtime.Volatile.
func (s *sandbox) Volatile() bool { return s.memory }

// ID implements runtime.Sandbox.
func (s *sandbox) ID() runtime.ID { return s.id }

// DialRunner implements runtime.Sandbox, over the link that all share.
func (s *sandbox) DialRunner(ctx context.Context) (conn net.Conn, err error) {
	err = s.linked(ctx, func(l *relay.Link) error {
		conn, err = l.Dial(ctx)
		return err
	})
	return conn, err
}

// linked calls do with the link, and with a new one if that has just ended.
func (s *sandbox) linked(ctx context.Context, do func(*relay.Link) error) error {
	for range 2 {
		l, err := s.d.link(ctx, s.id)
		if err != nil {
			return err
		}
		if err = do(l); err == nil || !l.Ended() {
			return err
		}
	}
	return s.d.notRunning(s.id)
}

// Stats implements runtime.Sandbox, as the engine reads the control groups:
// with the runner's own use. The disk's is counted where there is a limit.
func (s *sandbox) Stats(ctx context.Context) (stats runtime.Stats, err error) {
	got, err := s.d.engine.ContainerStats(ctx, s.d.container(s.id), client.ContainerStatsOptions{})
	if err != nil {
		return stats, s.d.classify(err, s.id)
	}
	defer func() { err = errors.Join(err, got.Body.Close()) }()
	var c container.StatsResponse
	if err := json.NewDecoder(got.Body).Decode(&c); err != nil {
		return stats, fmt.Errorf("read the engine's statistics of sandbox %s: %w", s.id, err)
	}
	if c.MemoryStats.Usage == 0 { // so the engine says it of what has ended
		return stats, s.d.notRunning(s.id)
	}
	disk, err := s.diskBytes(ctx)
	return runtime.Stats{
		DiskBytes:    disk,
		DiskLimit:    s.limits.DiskMB << 20,
		MemoryBytes:  int64(c.MemoryStats.Usage),
		MemoryPeak:   int64(max(c.MemoryStats.MaxUsage, c.MemoryStats.Usage)), // cgroup v2 has no peak here
		MemoryLimit:  s.limits.MemoryMB << 20,
		CPUUsageUsec: int64(c.CPUStats.CPUUsage.TotalUsage / 1000),
		CPULimit:     s.limits.CPU,
		Pids:         min(int64(c.PidsStats.Current), s.limits.Pids), // some are the runner's
		PidsLimit:    s.limits.Pids,
	}, err
}

// diskBytes is what the engine counts of what was written, where there is a
// limit.
func (s *sandbox) diskBytes(ctx context.Context) (int64, error) {
	if s.limits.DiskMB == 0 {
		return 0, nil
	}
	got, err := s.d.engine.ContainerInspect(ctx, s.d.container(s.id), client.ContainerInspectOptions{Size: true})
	if err != nil || got.Container.SizeRw == nil {
		return 0, s.d.classify(err, s.id)
	}
	return *got.Container.SizeRw, nil
}

// Pause implements runtime.Pauser from inside: the engine's own would hold up
// the runner, too.
func (s *sandbox) Pause(ctx context.Context) error {
	return s.linked(ctx, func(l *relay.Link) error { return l.Pause(ctx) })
}

// Resume implements runtime.Pauser.
func (s *sandbox) Resume(ctx context.Context) error {
	return s.linked(ctx, func(l *relay.Link) error { return l.Resume(ctx) })
}

// Paused implements runtime.Pauser.
func (s *sandbox) Paused() (paused bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), linkTime) //nolint:forbidigo // the contract has none
	defer cancel()
	err = s.linked(ctx, func(l *relay.Link) error {
		paused, err = l.Paused(ctx)
		return err
	})
	return paused, err
}

// linkTime is how long a new link may take: a process is started for it.
const linkTime = 30 * time.Second
