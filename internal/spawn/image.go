package spawn

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// datum is memory that an argument of a step points at. Places in it may point
// at others.
type datum struct {
	bytes []byte
	links []pointer
}

// pointer says that the word at a place, an offset or the number of an
// argument, is the address of something.
type pointer struct {
	at int
	to *datum
}

// datumOf returns the memory of v, which has no pointers.
func datumOf[T any](v *T) *datum {
	return &datum{bytes: unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))}
}

// size is the room that d takes in an image.
func (d *datum) size() int {
	n := words(len(d.bytes))
	for _, l := range d.links {
		n += l.to.size()
	}
	return n
}

// words rounds a number of bytes up to whole words.
func words(n int) int { return (n + wordSize - 1) &^ (wordSize - 1) }

const wordSize = int(unsafe.Sizeof(uintptr(0)))

// image is all the memory that the child of a plan touches. It has no pointers
// to what is outside.
type image struct {
	mem    []byte
	used   int
	mapped bool // shared with a child that has none of the other memory
	lost   bool // that child may still write to it, so no other one gets it
}

// spares are mapped images of the usual size that nobody uses: to make one
// takes longer than to fill it.
var spares = make(chan []byte, 4)

const usualImage = 32 << 10

// newImage returns an image with room for some bytes.
func newImage(size int, memory Memory) (*image, error) {
	if memory == Shared {
		list := make([]uintptr, words(size)/wordSize)
		return &image{mem: unsafe.Slice((*byte)(unsafe.Pointer(&list[0])), words(size))}, nil
	}
	if size <= usualImage {
		select {
		case mem := <-spares:
			return &image{mem: mem, mapped: true}, nil
		default:
			size = usualImage
		}
	}
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &image{mem: mem, mapped: true}, nil
}

// take returns room for some bytes, for which newImage was told of.
func (m *image) take(size int) unsafe.Pointer {
	p := unsafe.Pointer(&m.mem[m.used])
	m.used += words(size)
	return p
}

// place copies d and what it points at into the image and returns its address
// there.
func (m *image) place(d *datum) uintptr {
	p := m.take(len(d.bytes))
	copy(unsafe.Slice((*byte)(p), len(d.bytes)), d.bytes)
	for _, l := range d.links {
		*(*uintptr)(unsafe.Add(p, l.at)) = m.place(l.to)
	}
	return uintptr(p)
}

// free gives the memory back.
func (m *image) free() error {
	mem := m.mem
	m.mem = nil
	if !m.mapped || mem == nil {
		return nil
	}
	if len(mem) == usualImage && !m.lost {
		select {
		case spares <- mem:
			return nil
		default:
		}
	}
	return os.NewSyscallError("munmap", unix.Munmap(mem))
}
