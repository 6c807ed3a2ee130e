package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type statsCmd struct {
	cli.ListFlags
	Sessions []string      `arg:"" optional:"" name:"session" help:"Session ids; all by default."`
	History  time.Duration `placeholder:"TIME" help:"What one session used since then, such as 1h or a day at most: a line every 10 seconds of the last hour, or each minute."`
}

func (statsCmd) Help() string {
	return `The daemon measures from outside the sandbox. This does not count as use.

  sandkasten stats
  sandkasten stats $id --json | jq .[0].memory_bytes
  sandkasten stats $id --history 10m`
}

// namedStats is one line of the result.
type namedStats struct {
	ID    string `json:"id"`
	Name  string `json:"name,omitempty"`
	Owner string `json:"owner,omitempty"`
	sandkasten.Stats
}

func (c statsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	if c.History > 0 {
		return c.printHistory(ctx, a, cl)
	}
	all, err := gatherStats(ctx, cl, c.Sessions, sandkasten.ListSessionsOptions{Mine: true})
	if err != nil {
		return err
	}
	return c.Print(a, all, statsRows(all), "")
}

func (c statsCmd) printHistory(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	if len(c.Sessions) != 1 {
		return cli.Wrong("--history is of one session: name it")
	}
	history, err := cl.Session(c.Sessions[0]).StatsHistory(ctx, &sandkasten.StatsHistoryOptions{Since: time.Now().Add(-c.History)})
	if err != nil {
		return err
	}
	return c.Print(a, history, historyRows(history.Samples), "nothing was recorded since then")
}

// historyRows has what counters grew by between samples; a dash where they began anew.
func historyRows(samples []sandkasten.StatsSample) [][]string {
	rows := [][]string{{"TIME", "CPU", "MEMORY", "DISK", "PIDS", "SENT", "RECEIVED"}}
	for i, s := range samples {
		cpu, sent, received := "-", "-", "-"
		if i > 0 {
			before := samples[i-1]
			if used := s.CPUUsageUsec - before.CPUUsageUsec; used >= 0 {
				cpu = fmt.Sprintf("%.2f", float64(used)/float64(s.At.Sub(before.At).Microseconds()))
			}
			if s.SentBytes >= before.SentBytes && s.ReceivedBytes >= before.ReceivedBytes {
				sent, received = show.Size(s.SentBytes-before.SentBytes), show.Size(s.ReceivedBytes-before.ReceivedBytes)
			}
		}
		rows = append(rows, []string{s.At.Local().Format(time.TimeOnly), cpu, show.Size(s.MemoryBytes), show.Size(s.DiskBytes), strconv.FormatInt(s.Pids, 10), sent, received})
	}
	return rows
}

// gatherStats asks what sessions use: those named, or those that run, of the key's owner or of all.
func gatherStats(ctx context.Context, cl *sandkasten.Client, ids []string, of sandkasten.ListSessionsOptions) ([]namedStats, error) {
	named := len(ids) > 0
	infos := make(map[string]sandkasten.SessionInfo)
	if !named {
		list, err := cl.ListSessions(ctx, &of)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			ids = append(ids, s.ID)
			infos[s.ID] = s.Info
		}
	}
	all := []namedStats{}
	for _, id := range ids {
		s, err := cl.Session(id).Stats(ctx)
		if !named && (errors.Is(err, sandkasten.ErrNotFound) || errors.Is(err, sandkasten.ErrConflict)) {
			continue // it ended since the list was made, or is stopped
		}
		if err != nil {
			return nil, err
		}
		all = append(all, namedStats{id, infos[id].Name, infos[id].Owner, s})
	}
	return all, nil
}

func statsRows(all []namedStats) [][]string {
	rows := [][]string{{"ID", "MEMORY", "OF", "CPU TIME", "CORES", "PIDS", "OF", "DISK", "OF", "FILES", "OF", "OOM KILLS"}}
	for _, s := range all {
		rows = append(rows, []string{
			s.ID,
			show.Size(s.MemoryBytes), show.Size(s.MemoryLimit),
			(time.Duration(s.CPUUsageUsec) * time.Microsecond).Round(time.Millisecond).String(),
			strconv.FormatFloat(s.CPULimit, 'f', -1, 64),
			strconv.FormatInt(s.Pids, 10), strconv.FormatInt(s.PidsLimit, 10),
			show.Size(s.DiskBytes), show.Size(s.DiskLimit),
			strconv.FormatInt(s.Files, 10), strconv.FormatInt(s.FilesLimit, 10),
			strconv.FormatInt(s.OOMKills, 10),
		})
	}
	return rows
}
