//go:build !failpoint

package failpoint

// Hit marks a point. In this build it does nothing and returns nil.
func Hit(string) error { return nil }
