//go:build !weaken

package protection

// Off reports whether a protection is taken away. In this build none is.
func Off(Protection) bool { return false }

// Environ is what a process that we start must have in its environment to know
// the same as we: in this build nothing.
func Environ() []string { return nil }

// Named returns the protections that are off: in this build none.
func Named() []Protection { return nil }
