package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// maxScan is how much of the log one query reads, but for the rest of the file that it
// is in. What has few answers takes several queries.
var maxScan int64 = 64 << 20 // less in a test

// Query selects entries. What is empty selects all.
type Query struct {
	Before       int64     // numbers below it
	Since, Until time.Time // from the one until before the other
	Owner        string
	ID           string // of a session or something else, in the path or made
	Route        string // such as POST /v1/sessions
	Failed       bool   // a status of 400 and more
	Limit        int    // at least 1
}

// Only narrows q to what an owner did, and not before a time. It returns false if q asks
// for another's.
func (q *Query) Only(owner string, since time.Time) bool {
	if owner == "" || q.Owner != "" && q.Owner != owner {
		return false
	}
	q.Owner = owner
	if q.Since.Before(since) {
		q.Since = since
	}
	return true
}

func (q Query) takes(l line) bool {
	return (q.Before == 0 || l.Seq < q.Before) &&
		(q.Since.IsZero() || !l.Time.Before(q.Since)) && (q.Until.IsZero() || l.Time.Before(q.Until)) &&
		(q.Owner == "" || l.Owner == q.Owner) && (q.ID == "" || l.names(q.ID)) &&
		(q.Route == "" || l.Route == q.Route) && (!q.Failed || l.Status >= 400)
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
// not verify it. What is written meanwhile may be left out.
func (l *Log) Query(ctx context.Context, q Query) (Page, error) {
	files, err := Files(l.opts.Dir)
	if err != nil {
		return Page{}, err
	}
	var (
		page    Page
		scanned int64
	)
	for i, file := range slices.Backward(files) {
		s := scan{query: q, most: q.Limit - len(page.Records)}
		if err := s.read(ctx, file); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return page, nil // it was the oldest one, and is gone since
			}
			return Page{}, err
		}
		if q.Before > 0 && s.first.Seq >= q.Before {
			continue // the pages before have read it, and this one must come further
		}
		slices.Reverse(s.found)
		page.Records = append(page.Records, s.found...)
		scanned += s.bytes
		switch {
		case s.more:
			page.Next = page.Records[len(page.Records)-1].Seq
			return page, nil
		case s.first.Seq > 0 && !q.Since.IsZero() && s.first.Time.Before(q.Since):
			return page, nil
		case i > 0 && s.first.Seq > 0 && (scanned >= maxScan || len(page.Records) == q.Limit):
			page.Next = s.first.Seq
			return page, nil
		}
	}
	return page, nil
}

// scan reads one file from its beginning, as lines have no index.
type scan struct {
	query Query
	most  int

	found []Record // the newest ones, at most so many; the oldest first
	more  bool     // older ones were selected, too
	first line
	bytes int64
}

func (s *scan) read(ctx context.Context, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() // it is only read
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 16<<10), maxLine)
	for n := 0; lines.Scan(); n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s.bytes += int64(len(lines.Bytes()))
		var l line
		if json.Unmarshal(bytes.TrimSpace(lines.Bytes()), &l) != nil {
			continue // cut by a crash; the next line says so
		}
		if s.first.Seq == 0 {
			s.first = l
		}
		if s.query.takes(l) {
			s.take(Record{l.Seq, l.Time, l.Entry})
		}
	}
	return lines.Err()
}

func (s *scan) take(r Record) {
	s.found = append(s.found, r)
	if len(s.found) > s.most {
		s.more = true
		s.found = s.found[1:]
	}
}
