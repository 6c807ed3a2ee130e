package report

import (
	"testing"
	"time"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	sample := func(n int) []time.Duration {
		var d []time.Duration
		for i := range n {
			d = append(d, time.Duration(i+1))
		}
		return d
	}
	for _, c := range []struct {
		n, p int
		want time.Duration
	}{
		{1, 50, 1},
		{1, 99, 1},
		{2, 50, 1},
		{2, 51, 2},
		{100, 50, 50},
		{100, 95, 95},
		{100, 99, 99},
		{101, 50, 51},
		{40, 99, 40},
		{1000, 99, 990},
		{10, 0, 1},
		{10, 100, 10},
	} {
		if got := percentile(sample(c.n), c.p); got != c.want {
			t.Errorf("percentile %d of 1..%d is %d, want %d", c.p, c.n, got, c.want)
		}
	}
}

func TestSummarize(t *testing.T) {
	got := Summarize([]time.Duration{30, 10, 20})
	if want := (Summary{N: 3, Min: 10, P50: 20, P95: 30, P99: 30, Max: 30}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := Summarize(nil); got != (Summary{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{5}, 5}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 3, 2, 1}, 2}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median %v is %v, want %v", c.values, got, c.want)
		}
	}
}
