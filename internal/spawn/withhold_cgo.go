//go:build cgo

package spawn

// withhold does nothing: the C library has registered memory that the kernel
// writes to whenever a thread is scheduled (rseq), also in a child. The runner
// is built without it.
func withhold() {}
