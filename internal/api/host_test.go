package api

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// FuzzHosts sends whatever Host header: one that is let in is a loopback
// address, localhost or the configured name, with a port or without.
func FuzzHosts(f *testing.F) {
	for _, seed := range []string{
		"localhost", "LOCALHOST:8080", "127.8.9.1:1", "[::1]:8080", "[::ffff:127.0.0.1]", "box.example", "evil.test", "127.0.0.1.nip.io", "localhost.",
		"user@localhost", "localhost@evil.test", "localhost:80:90", "[localhost]", "[::1%eth0]", "0x7f.1", "2130706433", "127.1", "", ":80", "[]", "box.example:x",
	} {
		f.Add(seed)
	}
	h := NewHosts("127.0.0.1:8080", "box.example")
	f.Fuzz(func(t *testing.T, host string) {
		if h.check(&http.Request{Host: host}) != nil {
			return
		}
		name := strings.ToLower(host)
		if at := strings.LastIndex(name, "]:"); at >= 0 {
			name = name[:at]
		} else if strings.Count(name, ":") == 1 {
			name, _, _ = strings.Cut(name, ":")
		}
		name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
		ip, err := netip.ParseAddr(name)
		if name != "localhost" && name != "box.example" && (err != nil || !ip.Unmap().IsLoopback()) {
			t.Errorf("%q was let in", host)
		}
	})
}
