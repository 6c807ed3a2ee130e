package network

import (
	"cmp"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// The limits that a relay has where a policy has none.
const (
	DefaultConnections          = 256
	DefaultConnectionsPerSecond = 100
)

// openness orders the modes.
var openness = map[Mode]int{None: 0, Allow: 1, Internet: 2, Full: 3}

// CompileWithin is Compile for a policy that may open no more than a ceiling does; nil
// is none. What goes beyond it on the face of it is refused here, all else when it is
// decided about.
func CompileWithin(p Policy, ceiling *Policy, o Operator) (*Rules, error) {
	r, err := Compile(p, o)
	if err != nil || ceiling == nil {
		return r, err
	}
	// The policy's own rules keep to what the operator allows.
	o.AllowPrivate = true
	above, err := Compile(*ceiling, o)
	if err != nil {
		return nil, errdefs.Wrap(err, errdefs.PermissionDenied, "the key's ceiling for networks cannot be used: %s", errdefs.MessageOf(err))
	}
	if openness[r.mode] > openness[above.mode] {
		return nil, beyond("network.mode", "network.mode %s is more than the key's ceiling allows, which is %s", r.mode, above.mode)
	}
	if err := above.checkBelow(r.allow); err != nil {
		return nil, err
	}
	r.ceiling = above
	r.limits = r.limits.within(above.limits)
	return r, nil
}

func beyond(field, format string, args ...any) error {
	err := errdefs.New(errdefs.PermissionDenied, format, args...)
	err.Field = field
	return err
}

// checkBelow refuses entries that can open nothing below the ceiling r.
func (r *Rules) checkBelow(rules []Rule) error {
	for _, rule := range rules {
		if !r.mayPass(rule) {
			return beyond("network.allow", "network.allow has %s, which the key's ceiling never lets pass", rule.text)
		}
	}
	return nil
}

// mayPass reports whether a rule that opens something can ever do so under r.
func (r *Rules) mayPass(rule Rule) bool {
	if r.mode != Allow {
		return !rule.prefix.IsValid() || r.mode == Full || rangeOf(rule.prefix.Addr()) == public
	}
	for _, own := range r.allow {
		if own.covers(rule) {
			return true
		}
	}
	return false
}

// covers reports whether r is for all hosts that other is for, at one port or more.
func (r Rule) covers(other Rule) bool {
	if !r.ports.overlap(other.ports) {
		return false
	}
	switch {
	case r.prefix.IsValid() || other.prefix.IsValid():
		return r.prefix.IsValid() && other.prefix.IsValid() && r.prefix.Bits() <= other.prefix.Bits() && r.prefix.Contains(other.prefix.Addr())
	case other.wildcard:
		return r.wildcard && r.name == other.name
	}
	return r.hasName(other.name)
}

func (p ports) overlap(other ports) bool {
	switch {
	case p.web && other.web:
		return true
	case p.web:
		return other.has(80) || other.has(443)
	case other.web:
		return p.has(80) || p.has(443)
	}
	return p.first <= other.last && other.first <= p.last
}

// within are the limits where both hold.
func (l limits) within(ceiling limits) limits {
	return limits{
		mbit:        smaller(l.mbit, ceiling.mbit, 0),
		connections: smaller(l.connections, ceiling.connections, DefaultConnections),
		perSecond:   smaller(l.perSecond, ceiling.perSecond, DefaultConnectionsPerSecond),
		megabytes:   smaller(l.megabytes, ceiling.megabytes, 0),
	}
}

// smaller is the smaller one of a limit and its ceiling, of which 0 is none: then the
// limit is normal, or there is no ceiling.
func smaller(limit, ceiling, normal int) int {
	if ceiling == 0 {
		return limit
	}
	if limit = cmp.Or(limit, normal); limit == 0 {
		return ceiling
	}
	return min(limit, ceiling)
}

// both is a verdict that the ceiling has to share.
func (v Verdict) both(ceiling Verdict) Verdict {
	switch {
	case !v.Allowed:
		return v
	case !ceiling.Allowed:
		return refused("the key's ceiling: " + ceiling.Why)
	}
	v.Inspect = v.Inspect || ceiling.Inspect
	v.Raw = v.Raw && ceiling.Raw
	return v
}
