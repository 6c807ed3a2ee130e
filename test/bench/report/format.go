package report

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// fastestFirst returns the names in summaries by p50.
func fastestFirst(summaries map[string]Summary) []string {
	return slices.SortedFunc(maps.Keys(summaries), func(a, b string) int { return int(summaries[a].P50 - summaries[b].P50) })
}

func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func times(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 10 {
		return fmt.Sprintf("%.3f", ms)
	}
	return fmt.Sprintf("%.1f", ms)
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.2f MB", float64(bytes)/1e6) }
