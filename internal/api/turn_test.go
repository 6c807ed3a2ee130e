package api_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sandkasten/sandkasten/internal/api"
)

// turns has routes that list, whose handlers end once they are let go.
type turns struct {
	http.Handler
	entered chan string   // owners, as they have their turn
	release chan struct{} // lets one of them go on
	wg      sync.WaitGroup
}

func newTurns() *turns {
	s := &turns{entered: make(chan string, 100), release: make(chan struct{})}
	handle := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.entered <- api.Caller(r.Context()).Owner
		<-s.release
		api.WriteJSON(w, r, http.StatusOK, "listed")
	})
	s.Handler = api.Handler(api.Options{Authenticator: threeKeys{}}, api.Surface{Name: "test", Routes: []api.Route{
		{Pattern: "GET /list", Scope: api.Key, Turn: true, Handler: handle},
		{Pattern: "GET /other", Scope: api.Key, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})},
	}})
	return s
}

// asks begins so many lists of an owner.
func (s *turns) asks(owner string, n int) {
	for range n {
		s.wg.Go(func() { serve(s, request("GET", "/list", set("Authorization", "Bearer "+owner))) })
	}
}

// One owner lists on all processors but one at most; another's first list is next, and what
// does not list waits for nobody.
func TestOwnersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTurns()
		most := max(runtime.GOMAXPROCS(0)-1, 1)
		s.asks("alice", most+10)
		synctest.Wait()
		if len(s.entered) != most {
			t.Errorf("alice has %d turns at once, not %d", len(s.entered), most)
		}
		if w := serve(s, request("GET", "/other", set("Authorization", "Bearer alice"))); w.Code != http.StatusOK {
			t.Errorf("what does not list: %d", w.Code)
		}
		s.asks("bob", 1)
		if runtime.GOMAXPROCS(0) == 1 {
			s.release <- struct{}{} // there is one place for all
		}
		synctest.Wait()
		for range most {
			<-s.entered
		}
		if len(s.entered) != 1 || <-s.entered != "bob" {
			t.Error("the next turn is not bob's")
		}
		close(s.release)
		s.wg.Wait()
		if len(s.entered) != 10 {
			t.Errorf("%d lists came later, not 10", len(s.entered))
		}
	})
}

// slowReader is a client that does not take its answer until it is let go.
type slowReader struct {
	*httptest.ResponseRecorder
	writing, release chan struct{}
}

func (s *slowReader) Write(p []byte) (int, error) {
	close(s.writing)
	<-s.release
	return s.ResponseRecorder.Write(p)
}

// A client that does not read keeps its owner's turn from nobody.
func TestTurnsEndBeforeTheClientReads(t *testing.T) {
	s := newTurns()
	close(s.release)
	var slow []*slowReader
	for range runtime.GOMAXPROCS(0) + 1 {
		w := &slowReader{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		slow = append(slow, w)
		s.wg.Go(func() { s.ServeHTTP(w, request("GET", "/list", set("Authorization", "Bearer alice"))) })
		<-w.writing // in vain if one before still had the turn
	}
	for _, w := range slow {
		close(w.release)
	}
	s.wg.Wait()
}
