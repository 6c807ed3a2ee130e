package session

import "cmp"

// Limits returns the defaults and maxima that the manager applies to owner,
// with every value filled in; "" is an owner without maxima of their own.
func (m *Manager) Limits(owner string) (Defaults, Maxima) {
	x := m.opts.Maxima
	x.SessionsPerOwner = cmp.Or(x.SessionsOf[owner], x.SessionsPerOwner)
	d := m.opts.Defaults
	d.Retention = cmp.Or(d.RetentionOf[owner], d.Retention)
	return d, x
}
