package network

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
)

// Attempt is what a sandbox was refused: a query for a name, or a connection.
type Attempt struct {
	Name  string     // normalised; "" if it is not known
	Addr  netip.Addr // invalid for a query that was not answered
	Port  uint16     // 0 for a query
	Shows Shown
}

// Shown is what a connection shows of the host that it is for.
type Shown int

// What connections show.
const (
	ShowsHost Shown = iota // TLS or HTTP that names its host, or nothing yet
	ShowsNone              // TLS or HTTP that names no host
	ShowsRaw               // neither TLS nor HTTP
)

// Remedy returns the entry that opens what was refused once it is added to the policy's
// list, or "" if no entry does. It tries each that may, so that whoever follows it gets
// another answer.
func (r *Rules) Remedy(a Attempt) string {
	if r.mode != None && r.mode != Allow || r.opens(a) { // a limit, or what the client said, refused it
		return ""
	}
	for _, entry := range r.candidates(a) {
		if wider, ok := r.with(entry); ok && wider.opens(a) {
			return entry
		}
	}
	return ""
}

// candidates are the entries that may open a, the narrowest first. A private address is
// best opened by the operator's group for it.
func (r *Rules) candidates(a Attempt) []string {
	var entries []string
	if a.Name != "" {
		entries = append(entries, withPort(a.Name, a.Port))
	}
	if !a.Addr.IsValid() {
		return entries
	}
	if r.kindOf(a.Addr) == private {
		for _, name := range slices.Sorted(maps.Keys(r.groups)) {
			entries = append(entries, "@"+name)
		}
	}
	if a.Port == anyPort {
		return append(entries, a.Addr.String())
	}
	return append(entries, netip.AddrPortFrom(a.Addr, a.Port).String())
}

// withPort is the entry for a port of a name.
func withPort(name string, port uint16) string {
	if port == anyPort || isWeb(port) {
		return name
	}
	return name + ":" + strconv.Itoa(int(port))
}

// with returns the rules with one more entry, and whether a policy may have it.
func (r *Rules) with(entry string) (*Rules, bool) {
	more, err := parseList("network.allow", []string{entry}, r.groups, true)
	if err != nil || r.checkPrivate(more) != nil || r.ceiling != nil && r.ceiling.checkBelow(more) != nil {
		return nil, false
	}
	wider := *r
	wider.mode = Allow
	wider.allow = slices.Concat(r.allow, more)
	return &wider, true
}

// opens reports whether the rules let an attempt pass, if its name leads to its address.
func (r *Rules) opens(a Attempt) bool {
	var names []string
	if a.Name != "" {
		names = []string{a.Name}
		if !r.Resolve(a.Name).Allowed || a.Addr.IsValid() && !r.Answer(a.Addr) {
			return false
		}
	}
	if !a.Addr.IsValid() || a.Port == anyPort {
		return true
	}
	verdict := r.Connect(a.Addr, a.Port, names)
	switch {
	case !verdict.Allowed:
		return false
	case a.Shows == ShowsRaw:
		return verdict.Raw
	case !verdict.Inspect:
		return true
	}
	return a.Shows == ShowsHost && a.Name != "" && r.Name(a.Name, a.Addr, a.Port, names).Allowed
}

// WhyNoAnswer says why an address may not stand in the answer for a name, where Answer
// refuses it.
func (r *Rules) WhyNoAnswer(addr netip.Addr) string {
	if r.mayAnswer(addr) && r.ceiling != nil {
		return "the key's ceiling: " + r.ceiling.WhyNoAnswer(addr)
	}
	its := "its address " + addr.String() + " is "
	switch {
	case r.kindOf(addr) == forbidden:
		return its + "the host's, a link's or a metadata service's"
	case !r.private:
		return its + "private, which only the daemon's operator can allow, by network.allow_private"
	case r.mode != Allow:
		return its + "private, which mode " + string(r.mode) + " does not reach"
	}
	return its + "private, which no name opens"
}
