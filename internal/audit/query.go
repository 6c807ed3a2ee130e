package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// maxScan is how much of the log one query reads. What has few answers takes several
// queries.
var maxScan int64 = 16 << 20 // less in a test

// Query selects entries. What is empty selects all.
type Query struct {
	Before       int64     // numbers below it
	Since, Until time.Time // from the one until before the other
	Owner        string
	ID           string // of a session or something else, in the path or made
	Route        string // such as POST /v1/sessions
	Failed       bool   // a status of 400 and more
	Changes      bool   // not what only looks, listens or asks again
	Limit        int    // at least 1

	own string // see Only
}

// Only narrows q to what an owner did, or an admin with what the owner has, and not before
// a time. It returns false if q asks for another's.
func (q *Query) Only(owner string, since time.Time) bool {
	if owner == "" || q.Owner != "" && q.Owner != owner {
		return false
	}
	q.own = owner
	if q.Since.Before(since) {
		q.Since = since
	}
	return true
}

func (q Query) takes(l line) bool {
	return (q.Before == 0 || l.Seq < q.Before) &&
		(q.Since.IsZero() || !l.Time.Before(q.Since)) && (q.Until.IsZero() || l.Time.Before(q.Until)) &&
		(q.own == "" || l.Owner == q.own || l.Of == q.own) &&
		(q.Owner == "" || l.Owner == q.Owner) && (!q.Changes || l.changes()) && (q.ID == "" || l.names(q.ID)) &&
		(q.Route == "" || l.Route == q.Route) && (!q.Failed || l.Status >= 400)
}

// IsChange reports whether the entry is of what changes something or runs a program.
func (e Entry) IsChange() bool { return isChange(e.Route) }

func (l line) changes() bool { return isChange(l.Route) }

// isChange reports whether a route is one of what changes something or runs a program: not of
// what only looks, listens or asks again. Three routes act on a GET, as browsers need it.
// A line without a route counts requests that were refused together.
func isChange(route string) bool {
	method, path, _ := strings.Cut(route, " ")
	return method != "" && method != "GET" && method != "HEAD" ||
		strings.HasSuffix(path, "/exec/stream") || strings.HasSuffix(path, "/terminal") || strings.HasSuffix(path, "/tunnel")
}

// names reports whether an id is one of the line's. A request that made several has
// them all under one name.
func (l line) names(id string) bool {
	for _, ids := range l.IDs {
		if slices.Contains(strings.Fields(ids), id) {
			return true
		}
	}
	return false
}

// Record is an entry in its place.
type Record struct {
	Seq  int64
	Time time.Time
	Entry
}

// Page is what a query found, the newest first. Next is Before of the query that goes
// on, and 0 where nothing is left. A page may be empty and not the last.
type Page struct {
	Records []Record
	Next    int64
}

// Query returns the newest entries that q selects. It reads what is written, and does
// not verify it. What is written meanwhile may be left out. It keeps a processor busy, so
// callers take turns.
func (l *Log) Query(ctx context.Context, q Query) (Page, error) {
	files, err := Files(l.opts.Dir)
	if err != nil {
		return Page{}, err
	}
	s := scan{query: q, needles: q.needles(), below: q.Before == 0}
	for _, file := range slices.Backward(files) {
		done, err := s.read(ctx, file)
		if errors.Is(err, fs.ErrNotExist) {
			return s.page, nil // it was the oldest one, and is gone since
		}
		if err != nil {
			return Page{}, err
		}
		if done {
			break
		}
	}
	return s.page, nil
}

// needles are texts that stand in each line that q takes.
func (q Query) needles() (all [][]byte) {
	for _, text := range []string{q.Owner, q.own, q.ID, q.Route} {
		if quoted, err := json.Marshal(text); err == nil && text != "" && string(quoted) == `"`+text+`"` {
			all = append(all, []byte(text))
		}
	}
	return all
}

// scan reads a log from its end, as far as it has to.
type scan struct {
	query   Query
	needles [][]byte
	page    Page
	scanned int64 // bytes
	below   bool  // the lines from here on have numbers below Before
}

// read reads one file, and reports whether the page is done.
func (s *scan) read(ctx context.Context, file string) (done bool, err error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close() // it is only read
	lines, err := s.before(f)
	if err != nil {
		return false, err
	}
	for n := 0; ; n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		text, err := lines.previous()
		if text == nil || err != nil {
			return false, err
		}
		if done := s.line(text); done {
			return true, nil
		}
	}
}

// before returns the lines of a file up to the first one that the query is not about: they
// are in the order of their numbers.
func (s *scan) before(f *os.File) (*backward, error) {
	info, err := f.Stat()
	if err != nil || s.query.Before == 0 {
		return &backward{file: f, at: info.Size()}, err
	}
	from, to := int64(0), info.Size()
	for to-from > 2*maxLine {
		middle := from + (to-from)/2
		seq, err := seqBehind(f, middle)
		if err != nil {
			return nil, err
		}
		if seq == 0 || seq >= s.query.Before {
			to = middle
		} else {
			from = middle
		}
	}
	return &backward{file: f, at: min(to+2*maxLine, info.Size())}, nil
}

// seqBehind is the number of the first whole line behind a place in a file, or 0.
func seqBehind(f *os.File, at int64) (int64, error) {
	text := make([]byte, 2*maxLine)
	n, err := f.ReadAt(text, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	_, text, _ = bytes.Cut(text[:n], []byte{'\n'})
	for line := range bytes.Lines(text) {
		var l struct {
			Seq int64 `json:"seq"`
		}
		if json.Unmarshal(bytes.TrimSpace(line), &l) == nil && l.Seq > 0 {
			return l.Seq, nil
		}
	}
	return 0, nil
}

// line looks at one line, and reports whether the page is done.
func (s *scan) line(text []byte) (done bool) {
	if s.below {
		s.scanned += int64(len(text)) + 1
	}
	for _, needle := range s.needles {
		if !bytes.Contains(text, needle) && s.below && s.scanned < maxScan {
			return false
		}
	}
	var l line
	if json.Unmarshal(text, &l) != nil {
		return false // cut by a crash; the next line says so
	}
	if !s.below && l.Seq >= s.query.Before {
		return false // which the page before has read, and this one must come further
	}
	s.below = true
	switch {
	case !s.query.Since.IsZero() && l.Time.Before(s.query.Since):
		return true // as all before it
	case s.query.takes(l) && len(s.page.Records) == s.query.Limit:
		s.page.Next = s.page.Records[len(s.page.Records)-1].Seq
		return true
	case s.query.takes(l):
		if s.query.own != "" && l.Owner != s.query.own { // an admin, of whom no more is told
			l.Remote, l.RequestID = "", ""
		}
		s.page.Records = append(s.page.Records, Record{l.Seq, l.Time, l.Entry})
	}
	if s.scanned >= maxScan {
		s.page.Next = l.Seq
		return true
	}
	return false
}

// backward reads the lines of a file from a place to its beginning.
type backward struct {
	file *os.File
	at   int64  // where buf begins
	buf  []byte // read, and not returned yet
}

const backwardBlock = 64 << 10

// previous returns the line before, without its end, and nil if there is none. It is valid
// until the next call.
func (b *backward) previous() ([]byte, error) {
	for {
		if at := bytes.LastIndexByte(b.buf, '\n'); at >= 0 {
			text := b.buf[at+1:]
			b.buf = b.buf[:at]
			if len(text) > 0 {
				return text, nil
			}
			continue
		}
		if b.at == 0 {
			text := b.buf
			if b.buf = nil; len(text) == 0 {
				return nil, nil
			}
			return text, nil
		}
		if len(b.buf) > maxLine {
			b.buf = nil // no line of ours
		}
		n := min(b.at, backwardBlock)
		block := make([]byte, n, n+int64(len(b.buf)))
		if _, err := b.file.ReadAt(block, b.at-n); err != nil {
			return nil, err
		}
		b.at -= n
		b.buf = append(block, b.buf...)
	}
}
