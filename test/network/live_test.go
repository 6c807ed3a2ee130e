package network

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// TestLivePackages installs a package from where the image's own apt gets them, through
// the group that apt names and nothing else. It says so where that host is not reached.
func TestLivePackages(t *testing.T) {
	testenv.NeedsRoot(t)
	w := &world{daemon: blackbox.New(t, blackbox.Options{Program: testenv.Program(t)})}
	w.daemon.Start()
	s := w.create(t, allow("@apt"))
	var image struct {
		Groups map[string][]string `json:"network_groups"`
	}
	w.do(t, "GET", "/v1/images/base", nil, &image)
	if len(image.Groups["apt"]) == 0 {
		t.Fatalf("apt names no hosts: %v", image.Groups)
	}
	host, _, _ := strings.Cut(image.Groups["apt"][0], ":")
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, "80"), 5*time.Second)
	if err != nil {
		t.Logf("nothing was installed: the packages' host is not reached from here: %v", err)
		return
	}
	_ = conn.Close()
	var r result
	s.do(t, "POST", s.at("/exec"), object{"cmd": "apt-get update -qq && apt-get install -qq --no-install-recommends -y tree && tree --version", "timeout_ms": 300000}, &r)
	if r.ExitCode != 0 || !strings.Contains(r.Output, "tree v") {
		t.Fatalf("%+v", r)
	}
	for _, denied := range r.NetworkDenied {
		t.Logf("refused meanwhile: %+v", denied)
	}
	if r := s.run(t, "getent hosts elsewhere.example.org"); len(r.NetworkDenied) == 0 {
		t.Errorf("another host: %+v", r)
	}
}
