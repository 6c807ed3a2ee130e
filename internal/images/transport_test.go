package images

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

func TestLinkLocalIsNotDialled(t *testing.T) {
	for address, refused := range map[string]bool{
		"169.254.169.254:80": true, "[fe80::1]:443": true, "[::ffff:169.254.169.254]:80": true, "[fd00:ec2::254]:80": true,
		"127.0.0.1:5000": false, "10.0.0.1:443": false, "[2001:db8::1]:443": false, "192.0.2.1:443": false,
	} {
		if err := refuseLinkLocal("tcp", address, nil); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := refuseLinkLocal("tcp", "nonsense", nil); err == nil {
		t.Error("an address that cannot be read was dialled")
	}
}

type answers struct{ asked int }

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	a.asked++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestPlainHTTP(t *testing.T) {
	tests := []struct {
		url      string
		insecure bool
		allowed  bool
	}{
		{"https://registry.example/v2/", false, true},
		{"http://registry.example/v2/", false, false},
		{"http://registry.example/v2/", true, true},
		{"http://10.0.0.1:5000/v2/", false, false}, // the library would
		{"http://evil.localhost/v2/", false, false},
		{"http://127.0.0.1.evil.example/v2/", false, false},
		{"http://localhost:5000/v2/", false, true},
		{"http://127.0.0.53:5000/v2/", false, true},
		{"http://[::1]:5000/v2/", false, true},
	}
	for _, tt := range tests {
		next := &answers{}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.url, nil)
		resp, err := guarded{next: next, insecure: tt.insecure}.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != tt.allowed || (next.asked > 0) != tt.allowed {
			t.Errorf("%s, insecure %v: %v, asked %d times", tt.url, tt.insecure, err, next.asked)
		}
		if err != nil && !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%s: %v does not say what to do", tt.url, err)
		}
	}
}
