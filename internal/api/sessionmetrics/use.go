package sessionmetrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/session"
)

const (
	useFresh    = 10 * time.Second // to measure a thousand sessions takes a tenth of a second of work
	useTimeout  = 2 * time.Second  // for all of them; an engine may not answer
	useParallel = 4
)

// use is what the living sessions of a driver have and may have, together.
type use struct {
	memory, memoryLimit float64 // bytes
	pids, pidsLimit     float64
	disk, diskLimit     float64 // bytes
	unmeasured          float64 // sessions, of which only the limits are known
}

// gauges are what is shown of a use.
var gauges = []struct {
	desc *prometheus.Desc
	of   func(use) float64
}{
	{useDesc("memory_bytes", "Memory that the sessions that run or are paused have, all together."), func(u use) float64 { return u.memory }},
	{useDesc("memory_limit_bytes", "Memory that they may come to have."), func(u use) float64 { return u.memoryLimit }},
	{useDesc("pids", "Processes and threads of the sessions that run or are paused."), func(u use) float64 { return u.pids }},
	{useDesc("pids_limit", "Processes and threads that they may come to have."), func(u use) float64 { return u.pidsLimit }},
	{useDesc("disk_bytes", "What the sessions that run or are paused have written, their own workspaces included."), func(u use) float64 { return u.disk }},
	{useDesc("disk_limit_bytes", "What they may come to write; 0 where the driver has no limit."), func(u use) float64 { return u.diskLimit }},
	{useDesc("unmeasured", "Sessions that run or are paused and whose use is not in the sums, because it could not be read in time."), func(u use) float64 { return u.unmeasured }},
}

func useDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("sandkasten_sessions_"+name, help, []string{"driver"}, nil)
}

// useCounter adds up what sessions use when somebody looks, at most every useFresh.
type useCounter struct {
	manager *session.Manager

	mu        sync.Mutex
	measuring bool           // guarded by mu
	at        time.Time      // guarded by mu; when last was measured
	last      map[string]use // guarded by mu; by driver, not changed any more
}

// Describe is for the registry.
func (*useCounter) Describe(out chan<- *prometheus.Desc) {
	for _, g := range gauges {
		out <- g.desc
	}
}

// Collect is for the registry.
func (c *useCounter) Collect(out chan<- prometheus.Metric) {
	for driver, u := range c.now() {
		for _, g := range gauges {
			out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.of(u), driver)
		}
	}
}

// now is what was measured last, or is now if that is old and nobody measures.
func (c *useCounter) now() map[string]use {
	c.mu.Lock()
	if c.measuring || time.Since(c.at) < useFresh {
		defer c.mu.Unlock()
		return c.last
	}
	c.measuring = true
	c.mu.Unlock()
	found, err := c.measure()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.measuring = false
	if err == nil {
		c.last, c.at = found, time.Now()
	}
	return c.last
}

// measure takes no longer than useTimeout.
func (c *useCounter) measure() (map[string]use, error) {
	ctx, cancel := context.WithTimeout(context.Background(), useTimeout) //nolint:forbidigo // a collector is given none
	defer cancel()
	all, err := c.manager.Sessions.List(ctx, reader, session.ListRequest{})
	if err != nil {
		return nil, err
	}
	found := make(map[string]use)
	for _, driver := range c.manager.Drivers() {
		found[driver] = use{}
	}
	var mu sync.Mutex // of found
	var readers errgroup.Group
	readers.SetLimit(useParallel)
	for _, s := range all {
		if !s.State.Alive() {
			continue
		}
		readers.Go(func() error {
			st, err := c.manager.Sessions.Stats(ctx, reader, s.ID)
			mu.Lock()
			defer mu.Unlock()
			u := found[s.Driver()]
			u.memoryLimit += float64(s.Limits.MemoryMB << 20)
			u.pidsLimit += float64(s.Limits.Pids)
			u.diskLimit += float64(s.Limits.DiskMB << 20)
			if err != nil {
				u.unmeasured++
			}
			u.memory += float64(st.MemoryBytes)
			u.pids += float64(st.Pids)
			u.disk += float64(st.DiskBytes)
			found[s.Driver()] = u
			return nil
		})
	}
	return found, readers.Wait()
}
