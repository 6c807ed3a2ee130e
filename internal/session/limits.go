package session

// Limits returns the defaults and maxima that the manager applies, with every
// value filled in.
func (m *Manager) Limits() (Defaults, Maxima) { return m.opts.Defaults, m.opts.Maxima }
