package store_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/history"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/usage"
)

// TestReserveIsForWhatIsAskedFor: what the daemon writes again and again by itself
// would use up on a full disk what deletions need.
func TestReserveIsForWhatIsAskedFor(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	asked := 0
	s.MakeRoom = func() bool { asked++; return false }
	if err := store.Fill(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	amounts := map[usage.Key]usage.Amounts{}
	for i := range 1000 {
		amounts[usage.Key{Owner: fmt.Sprintf("an owner with quite a long name %d", i), Month: "2026-11"}] = usage.Amounts{Sessions: 1}
	}
	if err := s.AddUsage(t.Context(), usage.Changes{Seen: time.Now(), Amounts: amounts}); err == nil || asked > 0 {
		t.Errorf("usage on a full disk: %v, and asked for room %d times", err, asked)
	}
	samples := make([]history.Row, 5000)
	for i := range samples {
		samples[i] = history.Row{Session: "a", Step: history.Fine, Sample: history.Sample{At: time.Unix(int64(i), 0)}}
	}
	if err := s.AddHistory(t.Context(), samples, nil, nil); err == nil || asked > 0 {
		t.Errorf("samples on a full disk: %v, and asked for room %d times", err, asked)
	}
	err := s.PutSecret(t.Context(), secrets.Row{Secret: secrets.Secret{Owner: "alice", Name: "key"}, Sealed: make([]byte, 1<<20)}, 10)
	if err == nil || asked != 1 {
		t.Errorf("a secret on a full disk: %v, and asked for room %d times, want once", err, asked)
	}
}
