package history

import (
	"maps"
	"math"
	"slices"
)

// Durations counts how often something took how long, as a native histogram of
// Prometheus does: in buckets whose bounds grow by the same factor, 2^(2^-Schema).
type Durations struct {
	Schema int
	// Counts has the number in each bucket that is not empty. Bucket i ends at the i-th
	// power of the factor, in seconds.
	Counts map[int]int64
	Short  int64 // those that were too short for any bucket
}

// Total is how many there were.
func (d Durations) Total() int64 {
	n := d.Short
	for _, count := range d.Counts {
		n += count
	}
	return n
}

// at returns d in the buckets of a schema that is not finer: two become one for each
// step.
func (d Durations) at(schema int) Durations {
	counts := maps.Clone(d.Counts)
	for ; d.Schema > schema; d.Schema-- {
		halved := make(map[int]int64, len(counts))
		for i, n := range counts {
			halved[(i+1)>>1] += n
		}
		counts = halved
	}
	d.Counts = counts
	return d
}

// plus is d with sign times the counts of other, in the coarser buckets of both.
func (d Durations) plus(other Durations, sign int64) Durations {
	switch {
	case len(other.Counts) == 0:
		other.Schema = d.Schema
	case len(d.Counts) == 0:
		d.Schema = other.Schema
	}
	schema := min(d.Schema, other.Schema)
	sum, other := d.at(schema), other.at(schema)
	if sum.Counts == nil {
		sum.Counts = map[int]int64{}
	}
	for i, n := range other.Counts {
		sum.Counts[i] += sign * n
	}
	sum.Short += sign * other.Short
	return sum
}

// since is what came to d after before. A histogram with less than before has begun
// anew: Prometheus's do so when they have too many buckets.
func (d Durations) since(before Durations) Durations {
	grown := d.plus(before, -1)
	if grown.Short < 0 {
		return d
	}
	for _, n := range grown.Counts {
		if n < 0 {
			return d
		}
	}
	return grown
}

// allSince adds up what came to each of now after before.
func allSince(now, before map[string]Durations) (sum Durations) {
	for name, d := range now {
		sum = sum.plus(d.since(before[name]), 1)
	}
	return sum
}

// Percentile is the time in seconds that a part p of all took at most: the middle of its
// bucket, as factors go. With a schema of 3 it is at most 4.5 % off, with one of 2 at
// most 9 %. It is 0 where there were none.
func (d Durations) Percentile(p float64) float64 {
	rank := int64(math.Ceil(p * float64(d.Total())))
	seen := d.Short
	if rank <= seen {
		return 0
	}
	for _, i := range slices.Sorted(maps.Keys(d.Counts)) {
		if seen += d.Counts[i]; seen >= rank {
			return math.Exp2((float64(i) - 0.5) * math.Exp2(-float64(d.Schema)))
		}
	}
	return 0
}
