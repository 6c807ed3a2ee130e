package report

import (
	"slices"
	"time"
)

// Summary describes a sample of latencies. Durations are nanoseconds in JSON.
type Summary struct {
	N   int           `json:"n"`
	Min time.Duration `json:"min"`
	P50 time.Duration `json:"p50"`
	P95 time.Duration `json:"p95"`
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
}

// Summarize describes sample, which it sorts. An empty sample gives zeros.
func Summarize(sample []time.Duration) Summary {
	if len(sample) == 0 {
		return Summary{}
	}
	slices.Sort(sample)
	return Summary{
		N:   len(sample),
		Min: sample[0],
		P50: percentile(sample, 50),
		P95: percentile(sample, 95),
		P99: percentile(sample, 99),
		Max: sample[len(sample)-1],
	}
}

// percentile returns the nearest-rank percentile of a sorted, non-empty
// sample: always a value that was measured.
func percentile(sorted []time.Duration, p int) time.Duration {
	rank := (p*len(sorted) + 99) / 100
	return sorted[max(rank, 1)-1]
}

// median returns the middle of values, which it sorts; of an even number the
// lower one. No values give zero.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
