package audit

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// An owner whose requests make very many lines keeps no other owner's from being written.
func TestOwnersWriteInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(Options{Dir: t.TempDir(), MaxBytes: 1 << 20, MaxFiles: 2})
		if err != nil {
			t.Fatal(err)
		}
		if !l.turn.EnterWithin(patience, nobody) {
			t.Fatal("somebody writes")
		}
		var writing sync.WaitGroup
		for _, owner := range append(slices.Repeat([]string{"alice"}, 50), "bob") {
			writing.Go(func() { l.Append(t.Context(), Entry{Owner: owner}) })
			synctest.Wait()
		}
		l.turn.Leave(nobody)
		writing.Wait()
		page, err := l.Query(t.Context(), Query{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Records) != 51 || page.Records[49].Owner != "bob" {
			t.Errorf("%d lines, the second is of %s, not of bob", len(page.Records), page.Records[max(len(page.Records)-2, 0)].Owner)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}
