// Package baseline is a list of the files that a root file system was made of.
// Whoever has the list can tell what has changed of the root since, where
// nothing else can.
package baseline

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// magic begins every list.
const magic = "sandkasten baseline 1\n"

// maxPath bounds what a Reader believes.
const maxPath = 1 << 16

// Entry is one file.
type Entry struct {
	Path     string // from the root, without a slash at either end
	Mode     uint32 // as in stat(2), with the type
	UID, GID uint32
	Size     int64 // of files and links
	MTime    int64 // of files, in seconds
}

// Before reports whether a path comes before another one in a list: a directory
// comes before what is below it, and names in the order of their bytes.
func Before(a, b string) bool {
	for i := range min(len(a), len(b)) {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/' || y == '/':
			return x == '/'
		default:
			return x < y
		}
	}
	return len(a) < len(b)
}

// Writer writes a list. The caller calls Flush at the end.
type Writer struct {
	w    *bufio.Writer
	last string
	buf  []byte
}

// NewWriter begins a list.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: bufio.NewWriter(w), buf: []byte(magic)}
}

// Add adds an entry, which has to come after the last one.
func (w *Writer) Add(e Entry) error {
	if e.Path == "" || len(e.Path) > maxPath || w.last != "" && !Before(w.last, e.Path) {
		return fmt.Errorf("%q cannot come after %q in a list", e.Path, w.last)
	}
	same := 0
	for same < min(len(w.last), len(e.Path)) && w.last[same] == e.Path[same] {
		same++
	}
	b := binary.AppendUvarint(w.buf, uint64(same))
	b = binary.AppendUvarint(b, uint64(len(e.Path)-same))
	b = append(b, e.Path[same:]...)
	for _, n := range []uint32{e.Mode, e.UID, e.GID} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendVarint(b, e.Size)
	b = binary.AppendVarint(b, e.MTime)
	w.last, w.buf = e.Path, b[:0]
	_, err := w.w.Write(b)
	return err
}

// Flush ends the list.
func (w *Writer) Flush() error {
	if _, err := w.w.Write(w.buf); err != nil { // of a list without entries
		return err
	}
	return w.w.Flush()
}

// Reader reads a list.
type Reader struct {
	r    *bufio.Reader
	path []byte
}

// NewReader returns an error if r does not begin as a list does.
func NewReader(r io.Reader) (*Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(in, head); err != nil || string(head) != magic {
		return nil, errors.Join(errors.New("this is no list of a root's files"), err)
	}
	return &Reader{r: in}, nil
}

// Next returns the next entry, and io.EOF at the end.
func (r *Reader) Next() (Entry, error) {
	if _, err := r.r.Peek(1); err != nil {
		return Entry{}, err
	}
	var head [2]uint64
	if err := r.numbers(head[:]); err != nil {
		return Entry{}, err
	}
	same, rest := head[0], head[1]
	if same > uint64(len(r.path)) || rest == 0 || rest > maxPath {
		return Entry{}, errors.New("the list of a root's files is damaged")
	}
	r.path = append(r.path[:same], make([]byte, rest)...)
	if _, err := io.ReadFull(r.r, r.path[same:]); err != nil {
		return Entry{}, cut(err)
	}
	var ids [3]uint64
	if err := r.numbers(ids[:]); err != nil {
		return Entry{}, err
	}
	e := Entry{Path: string(r.path), Mode: uint32(ids[0]), UID: uint32(ids[1]), GID: uint32(ids[2])}
	for _, n := range []*int64{&e.Size, &e.MTime} {
		var err error
		if *n, err = binary.ReadVarint(r.r); err != nil {
			return Entry{}, cut(err)
		}
	}
	return e, nil
}

func (r *Reader) numbers(into []uint64) (err error) {
	for i := range into {
		if into[i], err = binary.ReadUvarint(r.r); err != nil {
			return cut(err)
		}
	}
	return nil
}

// cut tells the end of a list from the end of half an entry.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
