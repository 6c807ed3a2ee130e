package protocol

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"
)

// Side is one end of the wire.
type Side uint8

// The two ends.
const (
	Daemon Side = 1 << iota
	Runner
)

// traits of a message: who may send it and how much may follow its header.
type traits struct {
	from    Side
	payload int64
	final   bool
}

const anySize = 1<<63 - 1

// messages is the whole vocabulary. A frame that does not fit its row ends
// the connection, so neither side ever handles a message it does not expect.
var messages = map[Type]traits{
	TypePing:    {from: Daemon},
	TypePong:    {from: Runner, final: true},
	TypeExec:    {from: Daemon, payload: 2 * MaxCommand},
	TypeAttach:  {from: Daemon},
	TypeOutput:  {from: Runner, payload: MaxPayload},
	TypeDone:    {from: Runner, final: true},
	TypeCancel:  {from: Daemon},
	TypeExecs:   {from: Daemon},
	TypeRecords: {from: Runner, final: true},
	TypeRead:    {from: Daemon},
	TypeFile:    {from: Runner, payload: anySize, final: true},
	TypeWrite:   {from: Daemon, payload: anySize},
	TypeList:    {from: Daemon},
	TypeEntries: {from: Runner, final: true},
	TypeResize:  {from: Daemon},

	TypeAccepted: {from: Runner},

	TypeStart:      {from: Daemon, payload: 2*MaxArguments + MaxCommand},
	TypeStarted:    {from: Runner, final: true},
	TypeStdin:      {from: Daemon, payload: MaxCommand},
	TypeTaken:      {from: Runner, final: true},
	TypeSignal:     {from: Daemon},
	TypeShells:     {from: Daemon},
	TypeShellList:  {from: Runner, final: true},
	TypeCloseShell: {from: Daemon},

	TypeSettle: {from: Daemon, payload: MaxCommand},

	TypeHold: {from: Daemon},
	TypeHeld: {from: Runner, final: true},

	TypePorts:    {from: Daemon},
	TypePortList: {from: Runner, final: true},
	TypeDial:     {from: Daemon},

	TypeStat:     {from: Daemon},
	TypeInfo:     {from: Runner, final: true},
	TypeMkdir:    {from: Daemon},
	TypeMove:     {from: Daemon},
	TypeCopy:     {from: Daemon},
	TypeRemove:   {from: Daemon},
	TypeChmod:    {from: Daemon},
	TypeGlob:     {from: Daemon},
	TypeGrep:     {from: Daemon},
	TypeMatches:  {from: Runner, final: true},
	TypeEdit:     {from: Daemon, payload: 2 * MaxCommand},
	TypeEdited:   {from: Runner, payload: MaxPayload, final: true},
	TypeWatch:    {from: Daemon},
	TypeChange:   {from: Runner},
	TypePack:     {from: Daemon},
	TypeBytes:    {from: Runner, payload: MaxPayload},
	TypeUnpack:   {from: Daemon, payload: anySize},
	TypeUnpacked: {from: Runner, final: true},

	TypeLent:  {from: Runner},
	TypeOK:    {from: Runner, final: true},
	TypeError: {from: Runner, final: true},
}

// Final reports whether t is the last frame of an answer.
func (t Type) Final() bool { return messages[t].final }

// What a Reader says of a peer that does not keep to the protocol. The
// connection cannot be used after any of them.
var (
	ErrHeaderTooLong  = errors.New("frame header is longer than the limit")
	ErrMalformed      = errors.New("frame header is not valid")
	ErrUnexpectedType = errors.New("frame type is unknown or not this side's to send")
	ErrPayloadSize    = errors.New("frame payload is negative or larger than its type allows")
	ErrPayloadUnread  = errors.New("the previous frame's payload was not read")
)

// Header is the first part of a received frame.
type Header struct {
	Type  Type
	Bytes int64 // of payload, to be read from the Reader

	body json.RawMessage
}

// Decode fills v, a pointer to the message struct that belongs to the type.
// Unknown fields are ignored: the peer may be newer. An absent body leaves v
// as it is.
func (h Header) Decode(v any) error {
	if len(h.body) == 0 {
		return nil
	}
	if err := json.Unmarshal(h.body, v); err != nil {
		return errors.Join(ErrMalformed, err)
	}
	return nil
}

// Reader receives the frames of one peer. After Next it yields that frame's
// payload through Read, ending with io.EOF, and the payload must be read or
// discarded before Next is called again. It holds one header, never a payload.
type Reader struct {
	br   *bufio.Reader
	from Side
	left int64
	long []byte // a header that did not fit br's buffer
}

// readerSize is one buffer: the usual header and small payload in one read,
// and little enough for a connection that only waits.
const readerSize = 4 << 10

// NewReader returns a Reader of frames that from sends.
func NewReader(r io.Reader, from Side) *Reader {
	return &Reader{br: bufio.NewReaderSize(r, readerSize), from: from}
}

// Next waits for a frame. It returns io.EOF if the peer closed the connection
// between two frames and io.ErrUnexpectedEOF if it did so inside of one.
func (r *Reader) Next() (Header, error) {
	if r.left > 0 {
		return Header{}, ErrPayloadUnread
	}
	line, err := r.line()
	if err != nil {
		return Header{}, err
	}
	var f struct {
		Type  Type            `json:"type"`
		Body  json.RawMessage `json:"body"`
		Bytes int64           `json:"bytes"`
	}
	if err := json.Unmarshal(line, &f); err != nil {
		return Header{}, errors.Join(ErrMalformed, err)
	}
	m, known := messages[f.Type]
	if !known || m.from&r.from == 0 {
		return Header{}, ErrUnexpectedType
	}
	if f.Bytes < 0 || f.Bytes > m.payload {
		return Header{}, ErrPayloadSize
	}
	r.left = f.Bytes
	return Header{Type: f.Type, Bytes: f.Bytes, body: f.Body}, nil
}

// line reads up to a newline without ever holding more than MaxHeader.
func (r *Reader) line() ([]byte, error) {
	line, err := r.br.ReadSlice('\n')
	if err == nil {
		return line, nil
	}
	r.long = append(r.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(r.long) > MaxHeader {
			return nil, ErrHeaderTooLong
		}
		line, err = r.br.ReadSlice('\n')
		r.long = append(r.long, line...)
	}
	whole := r.long
	r.long = nil // the next long header is rare: do not keep its memory
	switch {
	case errors.Is(err, io.EOF) && len(whole) == 0:
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case len(whole) > MaxHeader:
		return nil, ErrHeaderTooLong
	}
	return whole, nil
}

// Read reads the current frame's payload.
func (r *Reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.br.Read(p)
	r.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Surrender gives up the request whose header is h, so that somebody else can
// answer it: frame is the request as far as it has been received, and rest is
// how many bytes of its payload are still to come from the connection. The
// Reader goes on behind them, or with Reclaim before.
func (r *Reader) Surrender(h Header) (frame []byte, rest int64, err error) {
	var w Writer
	if err := w.header(h.Type, h.body, r.left); err != nil {
		return nil, 0, err
	}
	received := min(int64(r.br.Buffered()), r.left)
	frame = append(w.buf, make([]byte, received)...)
	if _, err := io.ReadFull(r.br, frame[len(w.buf):]); err != nil {
		return nil, 0, err
	}
	rest, r.left = r.left-received, 0
	return frame, rest, nil
}

// Reclaim takes rest bytes of a surrendered request's payload back.
func (r *Reader) Reclaim(rest int64) { r.left = rest }

// Discard drops what is left of the current payload.
func (r *Reader) Discard() error {
	_, err := io.Copy(io.Discard, onlyReader{r})
	return err
}

// onlyReader keeps io.Copy and io.CopyBuffer from finding more than Read.
type onlyReader struct{ io.Reader }

// Rest is everything behind the last frame, for a connection that carries no
// more of them. Next and Read must not be called after it.
func (r *Reader) Rest() io.Reader { return r.br }

// Buffered reports whether bytes of a later frame have already been received.
func (r *Reader) Buffered() bool { return int64(r.br.Buffered()) > r.left }

// Writer sends frames. Put collects and Flush sends, so that an answer of
// several small frames costs one write. It is not safe for concurrent use.
type Writer struct {
	w   io.Writer
	buf []byte
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// keepBuffer is the largest buffer that a Writer holds on to when idle.
const keepBuffer = 16 << 10

// Put appends a frame to what the next Flush sends. body may be nil. The
// payload is copied, or sent at once when it is large.
func (w *Writer) Put(t Type, body any, payload []byte) error {
	if err := w.header(t, body, int64(len(payload))); err != nil {
		return err
	}
	if len(w.buf)+len(payload) <= keepBuffer {
		w.buf = append(w.buf, payload...)
		return nil
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := w.w.Write(payload)
	return err
}

// Send is Put and Flush.
func (w *Writer) Send(t Type, body any, payload []byte) error {
	if err := w.Put(t, body, payload); err != nil {
		return err
	}
	return w.Flush()
}

// Announce sends a frame without its payload. The caller then writes n bytes to
// the connection itself.
func (w *Writer) Announce(t Type, body any, n int64) error {
	if err := w.header(t, body, n); err != nil {
		return err
	}
	return w.Flush()
}

// SendFrom sends a frame whose payload is the next n bytes of src. If src
// ends early it returns io.ErrUnexpectedEOF: the frame is then incomplete and
// the connection can only be closed.
func (w *Writer) SendFrom(t Type, body any, n int64, src io.Reader) error {
	if err := w.Announce(t, body, n); err != nil {
		return err
	}
	buf := pieces.Get().(*[pieceSize]byte)
	defer pieces.Put(buf)
	m, err := io.CopyBuffer(onlyWriter{w.w}, onlyReader{io.LimitReader(src, n)}, buf[:])
	if err == nil && m < n {
		return io.ErrUnexpectedEOF
	}
	return err
}

// pieces are buffers for payloads that pass through.
var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

const pieceSize = 256 << 10

// onlyWriter keeps io.CopyBuffer from finding more than Write.
type onlyWriter struct{ io.Writer }

// Flush sends what Put collected.
func (w *Writer) Flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.w.Write(w.buf)
	w.buf = w.buf[:0]
	if cap(w.buf) > keepBuffer {
		w.buf = nil
	}
	return err
}

func (w *Writer) header(t Type, body any, payload int64) error {
	m, known := messages[t]
	if !known {
		return ErrUnexpectedType
	}
	if payload < 0 || payload > m.payload {
		return ErrPayloadSize
	}
	start := len(w.buf)
	w.buf = append(w.buf, `{"type":"`...)
	w.buf = append(w.buf, t...) // a key of messages: needs no quoting
	w.buf = append(w.buf, '"')
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			w.buf = w.buf[:start]
			return err
		}
		w.buf = append(w.buf, `,"body":`...)
		w.buf = append(w.buf, b...)
	}
	if payload > 0 {
		w.buf = append(w.buf, `,"bytes":`...)
		w.buf = strconv.AppendInt(w.buf, payload, 10)
	}
	w.buf = append(w.buf, '}', '\n')
	if len(w.buf)-start > MaxHeader {
		w.buf = w.buf[:start]
		return ErrHeaderTooLong
	}
	return nil
}
