package pool

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Status is what a pool has and has done since the daemon's start.
type Status struct {
	Ready     int
	MaxReady  int
	Unmatched int64  // creates that no image of the pool is for
	Short     string // what the host is short of, so that the pool gives back; "" is nothing
	Images    []ImageStatus
}

// ImageStatus is the part of one image.
type ImageStatus struct {
	Image    string
	Digest   string // "" while the image cannot be had
	Auto     bool
	Wanted   int
	Ready    int
	Hits     int64         // sessions that got a ready sandbox
	Misses   int64         // sessions that could have had one, and waited for theirs to be made
	MakeTime time.Duration // for one, on average; 0 before the first
	Err      string        // why there are fewer than wanted, if something is wrong
}

// Status returns the pool as it is now, images by name. A nil Pool has none.
func (p *Pool) Status() Status {
	if p == nil {
		return Status{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	st := Status{Ready: p.readyNow(), MaxReady: p.opts.MaxReady, Unmatched: p.unmatched, Short: p.short}
	for _, s := range p.shelves {
		one := ImageStatus{
			Image: s.image, Digest: s.spec.Image, Auto: s.size == Auto, Wanted: s.wanted(now), Ready: len(s.ready),
			Hits: s.hits, Misses: s.misses, Err: s.err,
		}
		if s.made > 0 {
			one.MakeTime = s.making / time.Duration(s.made)
		}
		st.Images = append(st.Images, one)
	}
	return st
}

var (
	readyDesc     = prometheus.NewDesc("sandkasten_pool_ready", "Sandboxes that are ready.", []string{"image"}, nil)
	wantedDesc    = prometheus.NewDesc("sandkasten_pool_wanted", "Sandboxes that are to be ready.", []string{"image"}, nil)
	hitsDesc      = prometheus.NewDesc("sandkasten_pool_hits_total", "Sessions that got a ready sandbox.", []string{"image"}, nil)
	missesDesc    = prometheus.NewDesc("sandkasten_pool_misses_total", "Sessions that could have had a ready sandbox, and waited for theirs to be made.", []string{"image"}, nil)
	unmatchedDesc = prometheus.NewDesc("sandkasten_pool_unmatched_total", "Sessions that no image of the pool is for.", nil, nil)
)

func newHistogram() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "sandkasten_pool_refill_duration_seconds", Help: "Time to make a sandbox ready.",
		Buckets: []float64{.0025, .005, .01, .025, .05, .1, .25, 1, 5, 30},
	})
}

// Describe is for the registry.
func (p *Pool) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{readyDesc, wantedDesc, hitsDesc, missesDesc, unmatchedDesc} {
		out <- d
	}
	p.refills.Describe(out)
}

// Collect is for the registry.
func (p *Pool) Collect(out chan<- prometheus.Metric) {
	st := p.Status()
	out <- prometheus.MustNewConstMetric(unmatchedDesc, prometheus.CounterValue, float64(st.Unmatched))
	for _, s := range st.Images {
		out <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, float64(s.Ready), s.Image)
		out <- prometheus.MustNewConstMetric(wantedDesc, prometheus.GaugeValue, float64(s.Wanted), s.Image)
		out <- prometheus.MustNewConstMetric(hitsDesc, prometheus.CounterValue, float64(s.Hits), s.Image)
		out <- prometheus.MustNewConstMetric(missesDesc, prometheus.CounterValue, float64(s.Misses), s.Image)
	}
	p.refills.Collect(out)
}
