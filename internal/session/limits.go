package session

import (
	"cmp"

	"github.com/sandkasten/sandkasten/internal/auth"
)

// Limits returns the defaults and maxima that hold for p, with every value
// filled in, and its quota as it is now.
func (c *Sessions) Limits(p auth.Principal) (Defaults, Maxima, auth.Quota) {
	return c.defaultsOf(p.Owner), c.opts.Maxima, c.opts.Quotas.QuotaOf(p)
}

// defaultsOf are the defaults of an owner's sessions.
func (c *core) defaultsOf(owner string) Defaults {
	d := c.opts.Defaults
	d.Retention = cmp.Or(d.RetentionOf[owner], d.Retention)
	return d
}
