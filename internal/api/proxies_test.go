package api

import (
	"net/http"
	"net/netip"
	"testing"
)

// The client is the last hop that no trusted proxy has written, and its own words count for
// nothing.
func TestClientBehindProxies(t *testing.T) {
	proxies := Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("127.0.0.1/32")}
	for _, tt := range []struct {
		proxies Proxies
		peer    string
		headers []string
		want    string
	}{
		{nil, "10.0.0.1:5", []string{"192.0.2.1"}, "10.0.0.1:5"},
		{proxies, "192.0.2.9:5", []string{"192.0.2.1"}, "192.0.2.9:5"},
		{proxies, "10.0.0.1:5", nil, "10.0.0.1:5"},
		{proxies, "10.0.0.1:5", []string{"192.0.2.1"}, "192.0.2.1"},
		{proxies, "10.0.0.1:5", []string{"203.0.113.7, 192.0.2.1"}, "192.0.2.1"},
		{proxies, "10.0.0.1:5", []string{"203.0.113.7, 192.0.2.1, 10.2.3.4"}, "192.0.2.1"},
		{proxies, "10.0.0.1:5", []string{"203.0.113.7", "192.0.2.1,10.2.3.4"}, "192.0.2.1"},
		{proxies, "10.0.0.1:5", []string{"10.9.9.9, 10.2.3.4"}, "10.9.9.9"},
		{proxies, "10.0.0.1:5", []string{"192.0.2.1:4711"}, "192.0.2.1"},
		{proxies, "[fd00::1]:5", []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		{proxies, "[::ffff:10.0.0.1]:5", []string{"192.0.2.1"}, "192.0.2.1"},
		{proxies, "10.0.0.1:5", []string{"192.0.2.1, unknown"}, "10.0.0.1:5"},
		{proxies, "10.0.0.1:5", []string{"192.0.2.1, nonsense, 10.2.3.4"}, "10.2.3.4"},
		{proxies, "10.0.0.1:5", []string{""}, "10.0.0.1:5"},
		{proxies, "@", []string{"192.0.2.1"}, "@"},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": tt.headers}}
		if got := tt.proxies.remote(r); got != tt.want {
			t.Errorf("from %s for %q: %s, want %s", tt.peer, tt.headers, got, tt.want)
		}
	}
}
