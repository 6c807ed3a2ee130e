package output

// marks has a bit for each byte of a piece.
type marks []byte

// set sets the bits from..to-1.
func (m marks) set(from, to int) {
	for i := from; i < to; {
		if i%8 == 0 && to-i >= 8 {
			m[i/8] = 0xff
			i += 8
			continue
		}
		m[i/8] |= 1 << (i % 8)
		i++
	}
}

func (m marks) get(i int) bool { return m[i/8]&(1<<(i%8)) != 0 }

// run returns the end of the run of equal bits that begins at from, at most to.
func (m marks) run(from, to int) int {
	bit, whole := m.get(from), byte(0)
	if bit {
		whole = 0xff
	}
	for i := from; i < to; {
		switch {
		case i%8 == 0 && to-i >= 8 && m[i/8] == whole:
			i += 8
		case m.get(i) == bit:
			i++
		default:
			return i
		}
	}
	return to
}
