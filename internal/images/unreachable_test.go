package images_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// A pull that fails says what stands between the host and the registry.
func TestPullSaysWhyARegistryCannotBeUsed(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // no credentials of whoever runs the tests
	answering := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	for about, c := range map[string]struct {
		host, want string
		code       errdefs.Code
	}{
		"nothing listens":      {free.Addr().String(), "the connection is refused", errdefs.Unavailable},
		"an unknown authority": {secure.Listener.Addr().String(), "TLS: its certificate is of an authority that this host does not know", errdefs.Unavailable},
		"it is down":           {answering(http.StatusBadGateway), "it answers 502 Bad Gateway", errdefs.Unavailable},
		"other credentials":    {answering(http.StatusForbidden), "docker login", errdefs.PermissionDenied},
	} {
		t.Run(about, func(t *testing.T) {
			_, err := pull(t, open(t, inDir(filepath.Join(t.TempDir(), "images"))), c.host+"/x:1")
			if !errdefs.Is(err, c.code) || !strings.Contains(errdefs.MessageOf(err), c.want) || !strings.Contains(errdefs.MessageOf(err), c.host) {
				t.Errorf("%v: %s", err, errdefs.MessageOf(err))
			}
		})
	}
}
