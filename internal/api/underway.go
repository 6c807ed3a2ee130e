package api

import (
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Class says what a request waits for. Each class has a limit of its own on how
// many are under way, so that those that may take hours keep nobody from those
// that take milliseconds.
type Class int

// The classes.
const (
	Short    Class = iota // for the daemon: a second, or a minute on a busy host
	Long                  // for a program or an event, as long as the client and the program want
	Transfer              // for the bytes of files
	classes  = iota
)

func (c Class) String() string { return [classes]string{"short", "long", "transfer"}[c] }

// under tells a client what there are too many of.
func (c Class) under() string {
	return [classes]string{"requests", "requests that wait or stream", "requests that carry files"}[c]
}

// Concurrencies is how many requests of each class may be under way at once, of
// all owners together. Zero is no limit.
type Concurrencies [classes]int

// quotaOf is how many of them one owner may have.
func (c Class) quotaOf(quota auth.Quota) int {
	return [classes]int{quota.Requests, quota.Waiting, quota.Transfers}[c]
}

// underway counts the requests under way. Owners come from valid keys only, and
// those without requests are not in it.
type underway struct {
	limits Concurrencies
	quotas auth.Quotas

	mu    sync.Mutex
	owned map[string]*[classes]int // guarded by mu
	total [classes]int             // guarded by mu

	refused *prometheus.CounterVec // nil keeps no count
}

var (
	inFlightDesc = prometheus.NewDesc("sandkasten_http_requests_in_flight", "Requests under way, by what they wait for.", []string{"class"}, nil)
	atMostDesc   = prometheus.NewDesc("sandkasten_http_requests_in_flight_limit", "How many requests may be under way, of all keys and of one; 0 is no limit.", []string{"class", "of"}, nil)
)

func newUnderway(limits Concurrencies, quotas auth.Quotas, registry prometheus.Registerer) *underway {
	u := &underway{limits: limits, quotas: quotas, owned: make(map[string]*[classes]int)}
	if registry != nil {
		u.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandkasten_http_requests_refused_total",
			Help: "Requests over a limit: rate, key (too many of it under way) or daemon (too many of all).",
		}, []string{"limit"})
		registry.MustRegister(u, u.refused)
		for _, limit := range []string{limitRate, limitKey, limitDaemon} {
			u.refused.WithLabelValues(limit)
		}
	}
	return u
}

// What a request may be refused for.
const (
	limitRate   = "rate"
	limitKey    = "key"
	limitDaemon = "daemon"
)

// begin counts a request of p until end is called, or refuses it.
func (u *underway) begin(p auth.Principal, class Class) (end func(), err error) {
	most := class.quotaOf(u.quotas.QuotaOf(p))
	u.mu.Lock()
	defer u.mu.Unlock()
	own := u.owned[p.Owner]
	if own == nil {
		own = new([classes]int)
	}
	// The owner's first: who has too many is to hear so, not that others have.
	if most > 0 && own[class] >= most {
		u.refuse(limitKey)
		return nil, errdefs.New(errdefs.ResourceExhausted, "%d %s of this key are under way, which is its limit; wait for one to end and try again", own[class], class.under())
	}
	if limit := u.limits[class]; limit > 0 && u.total[class] >= limit {
		u.refuse(limitDaemon)
		return nil, errdefs.New(errdefs.Unavailable, "%d %s of all keys are under way, which is the daemon's limit; try again", u.total[class], class.under())
	}
	own[class]++
	u.total[class]++
	u.owned[p.Owner] = own
	return func() { u.end(p.Owner, class) }, nil
}

func (u *underway) end(owner string, class Class) {
	u.mu.Lock()
	defer u.mu.Unlock()
	own := u.owned[owner]
	own[class]--
	u.total[class]--
	if *own == [classes]int{} {
		delete(u.owned, owner)
	}
}

func (u *underway) refuse(limit string) {
	if u.refused != nil {
		u.refused.WithLabelValues(limit).Inc()
	}
}

// Describe is for the registry.
func (*underway) Describe(out chan<- *prometheus.Desc) {
	out <- inFlightDesc
	out <- atMostDesc
}

// Collect is for the registry.
func (u *underway) Collect(out chan<- prometheus.Metric) {
	u.mu.Lock()
	total := u.total
	u.mu.Unlock()
	general := u.quotas.QuotaOf(auth.Principal{})
	for c := range Class(classes) {
		out <- prometheus.MustNewConstMetric(inFlightDesc, prometheus.GaugeValue, float64(total[c]), c.String())
		out <- prometheus.MustNewConstMetric(atMostDesc, prometheus.GaugeValue, float64(u.limits[c]), c.String(), "daemon")
		out <- prometheus.MustNewConstMetric(atMostDesc, prometheus.GaugeValue, float64(c.quotaOf(general)), c.String(), "key")
	}
}

// serve is a route's handler with its requests counted.
// One that is a part of another is not: that is under way.
func (u *underway) serve(w http.ResponseWriter, r *http.Request, route Route) {
	if From(r.Context()).outer == nil {
		end, err := u.begin(Caller(r.Context()), route.Class)
		if err != nil {
			WriteError(w, r, err)
			return
		}
		defer end()
	}
	if route.Turn {
		if err := BeginTurn(r.Context()); err != nil {
			WriteError(w, r, err)
			return
		}
	}
	defer EndTurn(r.Context())
	route.Handler.ServeHTTP(w, r)
}
