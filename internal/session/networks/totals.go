package networks

// Totals are what networks carried and refused.
type Totals struct {
	Connections int // open now

	Opened, Refused         uint64 // connections, and flows of UDP
	Queries, QueriesRefused uint64 // for names
	LimitHits               uint64 // refusals for a limit
	Sent, Received          uint64 // bytes, as the sandbox sees it
}

func (t Totals) plus(other Totals) Totals {
	t.Connections += other.Connections
	t.Opened += other.Opened
	t.Refused += other.Refused
	t.Queries += other.Queries
	t.QueriesRefused += other.QueriesRefused
	t.LimitHits += other.LimitHits
	t.Sent += other.Sent
	t.Received += other.Received
	return t
}

func (w *way) totals() Totals { return Totals{Connections: w.relay.Connections()} }
