package audit

import (
	"slices"
	"testing"
	"time"
)

// What changes something is told from what only looks, and an owner sees what they did
// and what an admin looked into of theirs.
func TestQueryOfChangesAndOfAnOwner(t *testing.T) {
	t.Parallel()
	l, err := Open(Options{Dir: t.TempDir(), MaxBytes: 1 << 20, MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for _, e := range []Entry{
		{Owner: "alice", Route: "POST /v1/sessions"},
		{Owner: "alice", Route: "GET /v1/sessions/{id}/fs/archive"},
		{Owner: "alice", Route: "GET /v1/sessions/{id}/terminal"},
		{Owner: "root", Of: "alice", Route: "GET /v1/sessions/{id}/fs/read"},
		{Owner: "root", Of: "bob", Route: "POST /v1/keys"},
		{Owner: "alice2", Route: "DELETE /v1/sessions/{id}"},
		{Event: "refused", Requests: 3},
	} {
		l.Append(t.Context(), e)
	}
	seqs := func(q Query) (found []int64) {
		q.Limit = 10
		page, err := l.Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			found = append(found, r.Seq)
		}
		slices.Sort(found)
		return found
	}
	var ofAlice, herOwn Query
	herOwn.Owner = "alice"
	if !ofAlice.Only("alice", time.Time{}) || !herOwn.Only("alice", time.Time{}) {
		t.Fatal("refused")
	}
	for name, tt := range map[string]struct {
		query Query
		want  []int64
	}{
		"changes":              {Query{Changes: true}, []int64{1, 3, 5, 6}},
		"of alice":             {ofAlice, []int64{1, 2, 3, 4}},
		"what alice did":       {herOwn, []int64{1, 2, 3}},
		"an admin of an owner": {Query{Owner: "root"}, []int64{4, 5}},
	} {
		if got := seqs(tt.query); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	if q := (Query{Owner: "bob"}); q.Only("alice", time.Time{}) {
		t.Error("alice sees what bob did")
	}
}
