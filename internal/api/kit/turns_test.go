package kit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/auth"
)

// named takes an owner's name for a key.
type named struct{}

func (named) Authenticate(_ context.Context, key string) (auth.Principal, error) {
	return auth.Principal{Owner: key, Quota: key}, nil
}

type text struct {
	Body struct {
		Text string `json:"text"`
	}
}

type size struct{ Body int }

// A large body of an owner is decoded in its turn, which lists of the owner may have, and a
// small one at once.
func TestLargeBodiesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listing, release := make(chan struct{}), make(chan struct{})
		s := kit.New(kit.Options{Name: "test"})
		kit.Route(s, kit.Row{Pattern: "GET /list", Scope: api.Key, Turn: true, Doc: kit.Doc{ID: "list", Summary: "List"}}, func(context.Context, *struct{}) (*size, error) {
			listing <- struct{}{}
			<-release
			return &size{}, nil
		})
		kit.Route(s, kit.Row{Pattern: "POST /take", Scope: api.Key, Class: api.Long, Doc: kit.Doc{ID: "take", Summary: "Take"}}, func(_ context.Context, in *text) (*size, error) {
			return &size{len(in.Body.Text)}, nil
		})
		handler := api.Handler(api.Options{Authenticator: named{}}, s.Surface())
		ask := func(owner, method, path, body string) int {
			r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+owner)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Code
		}
		took := make(chan int, 100)
		lists := max(runtime.GOMAXPROCS(0)-1, 1)
		for range lists {
			go func() { took <- ask("alice", "GET", "/list", "") }()
			<-listing
		}
		large, done := `{"text":"`+strings.Repeat("x", 100<<10)+`"}`, make(chan int)
		go func() { done <- ask("alice", "POST", "/take", large) }()
		if runtime.GOMAXPROCS(0) > 1 {
			if code := ask("bob", "POST", "/take", large); code != http.StatusOK {
				t.Errorf("another owner's: %d", code)
			}
		}
		if code := ask("alice", "POST", "/take", `{"text":"x"}`); code != http.StatusOK {
			t.Errorf("a small body: %d", code)
		}
		synctest.Wait()
		select {
		case code := <-done:
			t.Errorf("a large body did not wait: %d", code)
		default:
		}
		close(release)
		if code := <-done; code != http.StatusOK {
			t.Errorf("a large body: %d", code)
		}
		for range lists {
			if code := <-took; code != http.StatusOK {
				t.Errorf("a list: %d", code)
			}
		}
	})
}
