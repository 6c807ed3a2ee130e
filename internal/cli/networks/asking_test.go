package networks

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// TestACreateSaysWhatItWaitsFor only where groups are named of an image that was not asked.
func TestACreateSaysWhatItWaitsFor(t *testing.T) {
	for name, tt := range map[string]struct {
		image string
		allow []string
		want  bool
	}{
		"an image that was not asked": {`{"name":"python"}`, []string{"example.org", "@pip"}, true},
		"one that was":                {`{"name":"python","network_groups":{"pip":["pypi.org"]}}`, []string{"@pip"}, false},
		"one that has no clients":     {`{"name":"python","network_groups":{}}`, []string{"@pip"}, false},
		"hosts":                       {`{"name":"python"}`, []string{"pypi.org"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, tt.image)
			}))
			defer d.Close()
			cl, err := sandkasten.New(sandkasten.Options{URL: d.URL, APIKey: "k"})
			if err != nil {
				t.Fatal(err)
			}
			o := &sandkasten.CreateOptions{Image: "python", Network: &sandkasten.NetworkPolicy{Mode: "allow", Allow: tt.allow}}
			if got := needsAsking(t.Context(), cl, o); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
			if !tt.want {
				return
			}
			said := make(lines)
			stop := SayWhileAsked(t.Context(), &cli.App{Err: said}, cl, o, time.Nanosecond)
			if line := <-said; !strings.Contains(line, "package clients of python are asked for their hosts first") {
				t.Errorf("said %q", line)
			}
			stop()
			SayWhileAsked(t.Context(), &cli.App{Err: said}, cl, o, time.Hour)() // a create that is done before
		})
	}
}

// lines is a writer whose lines somebody waits for.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}
