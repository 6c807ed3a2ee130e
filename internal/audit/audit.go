// Package audit writes down what clients have done, one JSON line each, in files
// that are only ever appended to and in which every line carries the hash of the
// one before it. It knows lines, files and the chain; which requests are worth a
// line, and what it says of them, is the surface's.
//
// A line is in the file, by write(2), when Append returns: kill -9 of the daemon
// loses none. The file is synced every second, so a crash of the host may lose
// the last second. The chain shows that a line was changed, removed or put in,
// to those who keep its last hash elsewhere also that its end was cut off.
package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/admission/fairqueue"
)

const (
	current = "audit.log" // in the log's directory; older ones are audit-<number of the last line>.log

	// patience is how long an entry waits for those before it. Then it is left
	// out: requests do not stand still for a disk that does.
	patience = time.Second

	syncEvery = time.Second

	// refusedShare is the part of a file that those without a key may fill, and
	// the counts of what they send once more: they never begin the next one.
	refusedShare = 16
)

// Entry is what was done. Nothing of it is a secret: no commands, contents,
// environments or keys.
type Entry struct {
	Event     string            `json:"event"`              // answered; answering: an answer that takes longer has begun; recovered; refused: some without a line
	Requests  int64             `json:"requests,omitempty"` // of event refused: how many
	RequestID string            `json:"request_id,omitempty"`
	Owner     string            `json:"owner,omitempty"` // of the key; empty where there was no valid one
	Of        string            `json:"of,omitempty"`    // whose it is that an admin looked into
	Remote    string            `json:"remote,omitempty"`
	Route     string            `json:"route,omitempty"` // method and pattern, as POST /v1/sessions/{id}/exec
	IDs       map[string]string `json:"ids,omitempty"`   // those in the path, and what was made
	Status    int               `json:"status,omitempty"`
	BytesIn   int64             `json:"bytes_in"` // of the body; -1 if the client did not say
	BytesOut  int64             `json:"bytes_out"`
	Took      float64           `json:"took_ms"`
}

// line is an entry in its place. The hash of a line is SHA-256 of the line
// without it, and comes last.
type line struct {
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	Prev string    `json:"prev"` // hash of the line before; empty at the first
	Entry
}

// Options configures a Log.
type Options struct {
	Dir      string // is made, mode 0700
	MaxBytes int64  // of one file; then the next one begins
	MaxFiles int    // the oldest is removed
	Log      *slog.Logger
}

// Log is the open log of one daemon.
type Log struct {
	opts Options
	turn *fairqueue.Queue // has one place, which guards what follows; owners with many lines keep no other from writing

	file  *os.File
	size  int64
	seq   int64 // of the last line
	last  string
	dirty bool
	bad   error // why the last write failed

	refused   Sampler
	strangers int64 // bytes of this file that are refusals; of the turn

	lost    prometheus.Counter
	sampled prometheus.Counter
}

// Open opens the log and goes on where it ended. A last line that a crash cut is
// closed, and the next one says so. The caller closes the log.
func Open(o Options) (*Log, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the audit log: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{opts: o, turn: fairqueue.New(1, 1), lost: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sandkasten_audit_lost_total", Help: "Entries that could not be written to the audit log.",
	})}
	l.sampled = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sandkasten_audit_refused_total", Help: "Requests that were refused for want of a key, with a line in the audit log or without.",
	})
	end, err := lastOf(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	l.seq, l.last = end.seq, end.hash
	if err := l.open(); err != nil {
		return nil, err
	}
	if end.torn {
		err = l.write(Entry{Event: "recovered"}, "\n")
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Log) open() error {
	f, err := os.OpenFile(filepath.Join(l.opts.Dir, current), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size, l.strangers = f, info.Size(), 0
	return nil
}

// Append writes an entry. Where it cannot, within a second, the entry is counted
// as lost and the request goes on: a full disk must not end what only reads.
func (l *Log) Append(ctx context.Context, e Entry) {
	if l == nil {
		return
	}
	if !l.turn.EnterWithin(patience, e.Owner) {
		l.lost.Inc()
		return
	}
	defer l.turn.Leave(e.Owner)
	l.append(ctx, e)
}

// Refuse writes an entry of a request without a valid key, if it is one of the
// first of its minute. The others are counted, and a later entry says how many.
func (l *Log) Refuse(ctx context.Context, e Entry) {
	if l == nil {
		return
	}
	l.sampled.Inc()
	if !l.refused.Take(e.Remote) {
		return
	}
	if !l.turn.EnterWithin(patience, e.Owner) {
		l.refused.Leave(1)
		return
	}
	defer l.turn.Leave(e.Owner)
	if l.strangers >= l.opts.MaxBytes/refusedShare {
		l.refused.Leave(1)
		return
	}
	l.appendRefused(ctx, e)
}

// tellRefused writes how many refusals have no entry.
func (l *Log) tellRefused(ctx context.Context) {
	if !l.turn.EnterWithin(patience, nobody) {
		return
	}
	defer l.turn.Leave(nobody)
	if l.strangers >= 2*l.opts.MaxBytes/refusedShare {
		return // the next file has room for it
	}
	if n := l.refused.Left(); n > 0 {
		l.appendRefused(ctx, Entry{Event: "refused", Requests: n})
	}
}

func (l *Log) appendRefused(ctx context.Context, e Entry) {
	before := l.size
	l.append(ctx, e)
	l.strangers += max(0, l.size-before)
}

// nobody has the turns of what is written for no owner.
const nobody = ""

// append is Append for a caller whose turn it is.
func (l *Log) append(ctx context.Context, e Entry) {
	err := l.write(e, "")
	if err != nil {
		l.lost.Inc()
		if l.bad == nil { // told once, until it works again
			l.opts.Log.ErrorContext(ctx, "cannot write the audit log; entries are lost", "err", err)
		}
	}
	l.bad = err
}

// write puts an entry behind the last line. before ends a line that was cut.
func (l *Log) write(e Entry, before string) error {
	if l.size >= l.opts.MaxBytes {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	text, hash, err := seal(line{Seq: l.seq + 1, Time: time.Now().UTC(), Prev: l.last, Entry: e})
	if err != nil {
		return err
	}
	n, err := l.file.WriteString(before + text)
	l.size += int64(n)
	if err != nil {
		// Half a line must not be taken for one, nor be in the next one's way.
		if n > 0 {
			err = errors.Join(err, l.file.Truncate(l.size-int64(n)))
			l.size -= int64(n)
		}
		return err
	}
	l.seq, l.last, l.dirty = l.seq+1, hash, true
	return nil
}

// seal is a line's text, with its hash and its end.
func seal(of line) (text, hash string, err error) {
	body, err := json.Marshal(of)
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(body)
	hash = hex.EncodeToString(sum[:])
	return string(body[:len(body)-1]) + hashKey + hash + hashEnd, hash, nil
}

const (
	hashKey = `,"hash":"`
	hashEnd = "\"}\n"
	hashLen = 2 * sha256.Size
)

// unseal is the other way: the line that text is, if it has the hash that it says.
func unseal(text []byte) (of line, hash string, err error) {
	at := len(text) - len(hashKey) - hashLen - len(hashEnd)
	if at < 0 || !bytes.Equal(text[at:at+len(hashKey)], []byte(hashKey)) || string(text[len(text)-len(hashEnd):]) != hashEnd {
		return line{}, "", errors.New("is not whole")
	}
	hash = string(text[at+len(hashKey) : at+len(hashKey)+hashLen])
	body := append(bytes.Clone(text[:at]), '}')
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != hash {
		return line{}, "", errors.New("was changed: its hash is another")
	}
	if err := json.Unmarshal(body, &of); err != nil {
		return line{}, "", fmt.Errorf("is no entry: %w", err)
	}
	return of, hash, nil
}

// rotate begins a new file. The chain goes on in it.
func (l *Log) rotate() error {
	if err := l.file.Sync(); err != nil {
		return err
	}
	err := os.Rename(filepath.Join(l.opts.Dir, current), filepath.Join(l.opts.Dir, fmt.Sprintf("audit-%015d.log", l.seq)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be away since a try that found no room for the new one
		return err
	}
	old := l.file
	if err := l.open(); err != nil {
		return err
	}
	errs := []error{old.Close()}
	files, err := Files(l.opts.Dir)
	if err != nil {
		return err
	}
	for ; len(files) > l.opts.MaxFiles; files = files[1:] {
		errs = append(errs, os.Remove(files[0]))
	}
	return errors.Join(errs...)
}

// Run syncs what was written until ctx is done.
func (l *Log) Run(ctx context.Context) error {
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			l.tellRefused(ctx)
			l.sync(ctx)
		}
	}
}

func (l *Log) sync(ctx context.Context) {
	if !l.turn.EnterWithin(patience, nobody) {
		return // until the next time
	}
	file, dirty := l.file, l.dirty
	l.dirty = false
	l.turn.Leave(nobody)
	if !dirty {
		return
	}
	// Without the turn: a sync may take long. Rotation may close the file, after a sync of its own.
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		l.opts.Log.ErrorContext(ctx, "cannot sync the audit log", "err", err)
	}
}

// Close syncs and closes the log.
func (l *Log) Close() error {
	if err := l.turn.Enter(context.Background(), nobody); err != nil { //nolint:forbidigo // whoever writes comes to an end
		return err
	}
	defer l.turn.Leave(nobody)
	return errors.Join(l.file.Sync(), l.file.Close())
}

// Describe is for a registry of metrics.
func (l *Log) Describe(out chan<- *prometheus.Desc) { l.lost.Describe(out); l.sampled.Describe(out) }

// Collect is for a registry of metrics.
func (l *Log) Collect(out chan<- prometheus.Metric) { l.lost.Collect(out); l.sampled.Collect(out) }
