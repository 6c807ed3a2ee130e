package seccomp

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// assembler collects instructions whose jumps go to labels. All jumps go
// forward, the only direction classic BPF has.
type assembler struct {
	code   []instr
	labels []int // where each label is in code; -1 until placed
}

type label int

// instr is an instruction, or a branch to yes and no. A branch is one
// instruction while both are within reach; a far one is three, because a
// conditional jump skips at most 255 instructions and a plain one any number.
type instr struct {
	unix.SockFilter
	branch  bool
	yes, no label
	far     bool
}

func (a *assembler) label() label {
	a.labels = append(a.labels, -1)
	return label(len(a.labels) - 1)
}

// place puts l before the next instruction.
func (a *assembler) place(l label) { a.labels[l] = len(a.code) }

func (a *assembler) load(offset uint32) { a.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }
func (a *assembler) and(mask uint32)    { a.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, mask) }
func (a *assembler) ret(action Action)  { a.emit(unix.BPF_RET|unix.BPF_K, uint32(action)) }

func (a *assembler) emit(code uint16, k uint32) {
	a.code = append(a.code, instr{SockFilter: unix.SockFilter{Code: code, K: k}})
}

// branch compares the accumulator with k and goes on at yes or no.
func (a *assembler) branch(compare uint16, k uint32, yes, no label) {
	a.code = append(a.code, instr{
		SockFilter: unix.SockFilter{Code: unix.BPF_JMP | compare | unix.BPF_K, K: k},
		branch:     true, yes: yes, no: no,
	})
}

// assemble resolves the labels.
func (a *assembler) assemble() ([]unix.SockFilter, error) {
	for _, at := range a.labels {
		if at < 0 {
			return nil, errors.New("a label was never placed")
		}
	}
	pos := a.layout()
	prog := make([]unix.SockFilter, 0, pos[len(a.code)])
	for i, in := range a.code {
		yes, no := a.distances(pos, i)
		switch {
		case yes < 0 || no < 0:
			return nil, fmt.Errorf("instruction %d jumps backwards", i)
		case !in.branch:
			prog = append(prog, in.SockFilter)
		case in.far:
			in.Jt, in.Jf = 0, 1
			prog = append(prog, in.SockFilter, always(yes-1), always(no-2))
		default:
			in.Jt, in.Jf = uint8(yes), uint8(no)
			prog = append(prog, in.SockFilter)
		}
	}
	if len(prog) > MaxInstructions {
		return nil, fmt.Errorf("%d instructions, the kernel takes %d", len(prog), MaxInstructions)
	}
	return prog, nil
}

// layout marks the far branches and returns each instruction's position, and
// the end's. Making one branch far can push another out of reach, so it goes
// on until nothing changes.
func (a *assembler) layout() []int {
	for {
		pos := make([]int, len(a.code)+1)
		for i, in := range a.code {
			size := 1
			if in.far {
				size = 3
			}
			pos[i+1] = pos[i] + size
		}
		changed := false
		for i := range a.code {
			yes, no := a.distances(pos, i)
			if !a.code[i].far && max(yes, no) > math.MaxUint8 {
				a.code[i].far, changed = true, true
			}
		}
		if !changed {
			return pos
		}
	}
}

// distances is how many instructions a branch at i skips.
func (a *assembler) distances(pos []int, i int) (yes, no int) {
	in := a.code[i]
	if !in.branch {
		return 0, 0
	}
	after := pos[i] + 1
	return pos[a.labels[in.yes]] - after, pos[a.labels[in.no]] - after
}

func always(skip int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(skip)}
}
