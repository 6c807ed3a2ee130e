package sessionmetrics

import (
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/history"
	"github.com/sandkasten/sandkasten/protocol"
)

// faults are the outcomes of creates that are the daemon's, its driver's or its host's: all
// others are of what a client asked for.
var faults = []errdefs.Code{errdefs.Internal, errdefs.Unavailable, errdefs.InsufficientSpace}

// AddTo writes into a reading of the host what has been made and run since the daemon's
// start, and how long that took.
func (m *Metrics) AddTo(reading *history.HostReading) error {
	if m == nil {
		return nil
	}
	families, err := m.durations.Gather()
	if err != nil {
		return err
	}
	created, ran := map[string]history.Durations{}, map[string]history.Durations{}
	for _, family := range families {
		into := created
		if family.GetName() == execDurations {
			into = ran
		}
		for _, one := range family.GetMetric() {
			h := one.GetHistogram()
			d := history.Durations{Schema: int(h.GetSchema()), Counts: map[int]int64{}, Short: int64(h.GetZeroCount())}
			// Spans leave out empty buckets, and each count is told by how much it is
			// more than the one before.
			bucket, count, at := 0, int64(0), 0
			for _, span := range h.GetPositiveSpan() {
				bucket += int(span.GetOffset())
				for range span.GetLength() {
					count += h.GetPositiveDelta()[at]
					if count > 0 {
						d.Counts[bucket] = count
					}
					bucket, at = bucket+1, at+1
				}
			}
			into[one.GetLabel()[0].GetValue()] = d
		}
	}
	reading.Created = map[string]history.Durations{outcomeOK: created[outcomeOK]}
	for _, code := range faults {
		reading.FailedCreates += created[string(code)].Total()
	}
	reading.Ran, reading.Killed = ran, ran[string(protocol.CauseOOMKilled)].Total()
	return nil
}
