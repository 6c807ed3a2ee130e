package images

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

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

// A registry leads no nearer to this host than it is itself.
func TestWhereARegistryLeads(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	registry, other := httptest.NewServer(answer), httptest.NewServer(answer)
	t.Cleanup(registry.Close)
	t.Cleanup(other.Close)
	get := func(tr *http.Transport, address string) error {
		t.Helper()
		t.Cleanup(tr.CloseIdleConnections)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(r)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	repository := func(host string) name.Repository {
		ref, err := name.NewRepository(host + "/a/b")
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	elsewhere := newTransport(repository("registry.example"))
	local := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	for _, address := range []string{other.URL, local, registry.URL} {
		if err := get(elsewhere, address); !errdefs.Is(err, errdefs.Unprocessable) || !strings.Contains(err.Error(), "registry registry.example leads to ") {
			t.Errorf("%s: %v", address, err)
		}
	}
	beside := newTransport(repository(strings.TrimPrefix(registry.URL, "http://")))
	if err := get(beside, other.URL); !errdefs.Is(err, errdefs.Unprocessable) {
		t.Errorf("before the registry was asked: %v", err)
	}
	for _, address := range []string{registry.URL, other.URL, local} {
		if err := get(beside, address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestDistances(t *testing.T) {
	for text, want := range map[string]distance{
		"127.0.0.1": here, "127.7.7.7": here, "::1": here, "0.0.0.0": here, "::": here, "::ffff:127.0.0.1": here,
		"10.0.0.1": near, "172.31.0.1": near, "192.168.1.1": near, "100.64.0.1": near, "fd00::1": near,
		"192.0.2.1": far, "2001:db8::1": far, "172.32.0.1": far,
	} {
		if got := distanceOf(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	refused := func(d *dialer, host, address string) bool { return d.refuse(host)("tcp", address, nil) != nil }
	d := &dialer{registry: "r", proxies: map[string]bool{"proxy:3128": true}}
	for _, step := range []struct {
		at         distance
		near, here bool // may be led to
	}{{here, true, true}, {near, true, false}, {here, true, false}, {far, false, false}, {near, false, false}} {
		d.isAt(step.at)
		if refused(d, "x:80", "10.0.0.1:80") == step.near || refused(d, "x:80", "127.0.0.1:80") == step.here || refused(d, "x:80", "192.0.2.1:80") {
			t.Errorf("a registry that is at %v too leads elsewhere", step.at)
		}
	}
	if refused(d, "proxy:3128", "127.0.0.1:3128") || !refused(d, "proxy:3129", "127.0.0.1:3129") || !refused(d, "proxy:3128", "169.254.169.254:3128") {
		t.Error("the proxy of the environment is not the registry's choice, and nothing else is the proxy")
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
