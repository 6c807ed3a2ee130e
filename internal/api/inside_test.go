package api_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
)

func TestInsideServesTheDaemonsOwnRequests(t *testing.T) {
	t.Parallel()
	inside := api.NewInside()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host+r.URL.Path) })} //nolint:gosec // only this test can reach it
	served := make(chan error, 1)
	go func() { served <- server.Serve(inside) }()
	client := &http.Client{Transport: inside.Transport()}
	get := func() (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/info", nil)
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	if text, err := get(); err != nil || text != "localhost/v1/info" {
		t.Errorf("got %q, %v", text, err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if text, err := get(); err == nil {
		t.Errorf("got %q of a server that is closed", text)
	}
}
