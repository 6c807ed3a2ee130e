package relay

// Forget has the relay be like one that has just begun.
func (r *Relay) Forget() {
	r.resolver.forget()
	r.resolver.mu.Lock()
	defer r.resolver.mu.Unlock()
	clear(r.resolver.pins)
}

// SilentTimeout is after which a server is taken to speak first.
const SilentTimeout = silentTimeout
