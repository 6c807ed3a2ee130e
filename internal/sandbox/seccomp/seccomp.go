// Package seccomp says which system calls a sandbox may make, and compiles
// that into the program the kernel runs at each call. The policies are data;
// docs/seccomp.md is written from them. Loading a program into a process is
// the driver's work and not here.
package seccomp

import "syscall"

// Policy decides every call a process can make. The empty policy decides
// nothing and compiles to no program.
type Policy struct {
	Arch    Arch
	Rules   []Rule
	Foreign Action // a call of another instruction set, such as 32-bit on amd64
	Unknown Action // a number without a name: newer than Arch's table, or a hole in it
}

// Rule treats a group of calls alike. Every call of Arch is in exactly one.
type Rule struct {
	Group string // a few words for the documentation
	Why   string // one sentence for the documentation
	Then  Action // unless Check has another answer
	Check []Case // tried in order
	Calls []string
}

// Case is an answer for some arguments: those that meet every condition.
type Case struct {
	When []Cond
	Then Action
}

// Cond holds when the low 32 bits of argument Arg, masked, are in one of the
// ranges. The high 32 bits are looked at of pointers only: the kernel takes the
// other arguments as int, so that a comparison of all 64 would miss 1<<32|TIOCSTI.
type Cond struct {
	Arg  int
	Mask uint32
	In   []Range
	High bool // the high 32 bits instead
}

// Range is a closed interval.
type Range struct{ Lo, Hi uint32 }

// Arch is one instruction set's calling convention.
type Arch struct {
	Name  string
	Audit uint32   // AUDIT_ARCH_*, which the kernel puts beside each call
	Calls []string // names by number; "" where there is none
}

// Action is what becomes of a call: a SECCOMP_RET value.
type Action uint32

// The actions that carry no error number.
const (
	Allow       Action = 0x7fff0000
	KillProcess Action = 0x80000000
	notify      Action = 0x7fc00000 // the listener decides
)

// errno is the action that returns the error number in its low 16 bits.
const errno Action = 0x00050000

// Errno makes the call return err without reaching the kernel's code for it.
func Errno(err syscall.Errno) Action { return errno | Action(err)&0xffff }

// done makes the call return success without reaching the kernel's code for it.
const done = errno

// The refusals. Not permitted is the plain one. The others are what a kernel
// that was built without the thing says, so that a program takes its fallback.
const (
	notPermitted   = errno | Action(syscall.EPERM)
	notImplemented = errno | Action(syscall.ENOSYS)
	invalid        = errno | Action(syscall.EINVAL)
	noFamily       = errno | Action(syscall.EAFNOSUPPORT)
	noProtocol     = errno | Action(syscall.EPROTONOSUPPORT)
)
