package seccomp_test

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/seccomp"
)

// call is struct seccomp_data.
type call struct {
	nr   uint32
	arch uint32
	args [6]uint64
}

// run is the kernel's classic BPF machine, no more of it than Compile may use.
// It reports whether the program looked at an argument on its way.
func run(prog []unix.SockFilter, c call) (action seccomp.Action, readArgs bool, err error) {
	var data [64]byte
	binary.LittleEndian.PutUint32(data[0:], c.nr)
	binary.LittleEndian.PutUint32(data[4:], c.arch)
	for i, arg := range c.args {
		binary.LittleEndian.PutUint64(data[16+8*i:], arg)
	}
	var acc uint32
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		test := false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			if in.K%4 != 0 || in.K >= 64 {
				return 0, false, fmt.Errorf("%d: load from %d", pc, in.K)
			}
			acc = binary.LittleEndian.Uint32(data[in.K:])
			readArgs = readArgs || in.K >= 8
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return seccomp.Action(in.K), readArgs, nil
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
			continue
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			test = acc == in.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			test = acc >= in.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			test = acc > in.K
		default:
			return 0, false, fmt.Errorf("%d: instruction %#x", pc, in.Code)
		}
		if test {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	return 0, false, fmt.Errorf("ran off the end")
}

// decide answers a call from the rules themselves, without a program: the
// other opinion that compiled programs are held against.
func decide(p seccomp.Policy, c call) seccomp.Action {
	if c.arch != p.Arch.Audit {
		return p.Foreign
	}
	if int64(c.nr) >= int64(len(p.Arch.Calls)) || p.Arch.Calls[c.nr] == "" {
		return p.Unknown
	}
	for _, rule := range p.Rules {
		for _, name := range rule.Calls {
			if name == p.Arch.Calls[c.nr] {
				return decideRule(rule, c)
			}
		}
	}
	panic("no rule for " + p.Arch.Calls[c.nr])
}

func decideRule(r seccomp.Rule, c call) seccomp.Action {
	for _, check := range r.Check {
		holds := true
		for _, cond := range check.When {
			value, any := uint32(c.args[cond.Arg])&cond.Mask, false
			for _, in := range cond.In {
				any = any || in.Lo <= value && value <= in.Hi
			}
			holds = holds && any
		}
		if holds {
			return check.Then
		}
	}
	return r.Then
}

// verdict is an action in words.
func verdict(a seccomp.Action) string {
	switch a {
	case seccomp.Allow:
		return "allow"
	case seccomp.KillProcess:
		return "kill"
	case 0x7fc00000: // SECCOMP_RET_USER_NOTIF
		return "notify"
	case seccomp.Errno(0):
		return "done"
	case seccomp.Errno(unix.EPERM):
		return "EPERM"
	case seccomp.Errno(unix.ENOSYS):
		return "ENOSYS"
	case seccomp.Errno(unix.EINVAL):
		return "EINVAL"
	case seccomp.Errno(unix.EAFNOSUPPORT):
		return "EAFNOSUPPORT"
	case seccomp.Errno(unix.EPROTONOSUPPORT):
		return "EPROTONOSUPPORT"
	}
	return fmt.Sprintf("%#x", uint32(a))
}
