package docker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/network/door"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// runtimeFlags give an engine two more names for its runtime: one that says what it is
// by its program, and one that does not.
func runtimeFlags(t *testing.T) []string {
	t.Helper()
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Symlink(runc, other); err != nil {
		t.Fatal(err)
	}
	return []string{"--add-runtime=named=" + runc, "--add-runtime=unknown=" + other}
}

// wantNoNamespace wants NetNS to be Unimplemented for a reason.
func wantNoNamespace(t *testing.T, x *box, why string) {
	t.Helper()
	f, err := x.Sandbox.(runtime.Networked).NetNS(t.Context())
	if err == nil {
		t.Errorf("NetNS opened one; %v", f.Close())
		return
	}
	if !errdefs.Is(err, errdefs.Unimplemented) || !strings.Contains(errdefs.MessageOf(err), why) {
		t.Errorf("NetNS: %v, want %q", err, why)
	}
}

// testNamespace is what the suite cannot know: the runtime that a container was made
// with decides, and an engine may speak of processes that are not here.
func testNamespace(t *testing.T, d *Driver) {
	other := d.opts
	other.Runtime = "unknown"
	x := newBox(t, open(t, other), "unknown-runtime")
	wantNoNamespace(t, use(d, x.Sandbox), `runtime "unknown"`)
	opened, err := d.Open(t.Context(), x.ID()) // by a driver with another configuration
	if err != nil {
		t.Fatal(err)
	}
	wantNoNamespace(t, use(d, opened), `runtime "unknown"`)

	other.Runtime = "named"
	y := newBox(t, open(t, other), "named-runtime")
	f, err := y.Sandbox.(runtime.Networked).NetNS(t.Context())
	if err != nil {
		t.Fatalf("NetNS with a runtime of another name: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}

	got, err := d.inspect(t.Context(), y.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(checkProcess(got.State.Pid, got.ID), d.checkRuntime(t.Context(), got.HostConfig)); err != nil {
		t.Error(err)
	}
	cause := errdefs.New(errdefs.NotFound, "no such process for the test")
	if err := d.whyNoProcess(t.Context(), y.ID(), got, cause); !errdefs.Is(err, errdefs.Unimplemented) {
		t.Errorf("a container that lives out of sight: %v", err)
	}
	if err := d.Stop(t.Context(), y.ID()); err != nil {
		t.Fatal(err)
	}
	if err := d.whyNoProcess(t.Context(), y.ID(), got, cause); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("a container that has ended meanwhile: %v", err)
	}
}

// testDoor opens the way out of a container: its programs find a name by our resolver,
// as the engine has told them of it, and connect to its address.
func testDoor(t *testing.T, d *Driver) {
	x := newBox(t, d, "door")
	namespace, err := x.Sandbox.(runtime.Networked).NetNS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := door.Open(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	defer func() {
		if err := out.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	}()
	const name, address = "door.test", "203.0.113.7"
	for _, queries := range out.Queries {
		serving.Go(func() { answerQueries(queries, name, address) })
	}
	for _, streams := range out.Streams {
		serving.Go(func() {
			for conn, err := streams.Accept(); err == nil; conn, err = streams.Accept() {
				fmt.Fprintf(conn, "to %s\n", conn.LocalAddr())
				_ = conn.Close() // the client says what arrived
			}
		})
	}
	if got := x.run(t, "getent hosts "+name+" | head -n 1 | cut -d ' ' -f 1"); got != address {
		t.Errorf("the name leads to %q", got)
	}
	if got := x.run(t, "exec 3<>/dev/tcp/"+name+"/80; cat <&3"); got != "to "+address+":80" {
		t.Errorf("connected %q", got)
	}
}

// answerQueries gives a name one address, and says that there are no other names.
func answerQueries(queries *net.UDPConn, name, address string) {
	buf := make([]byte, dns.MaxMsgSize)
	for {
		n, client, err := dns.ReadFromSessionUDP(queries, buf)
		if err != nil {
			return
		}
		query, reply := new(dns.Msg), new(dns.Msg)
		if query.Unpack(buf[:n]) != nil {
			continue
		}
		reply.SetReply(query)
		asked := query.Question[0]
		switch {
		case asked.Name != dns.Fqdn(name):
			reply.Rcode = dns.RcodeNameError
		case asked.Qtype == dns.TypeA:
			reply.Answer = []dns.RR{&dns.A{
				Hdr: dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.ParseIP(address),
			}}
		}
		if packed, err := reply.Pack(); err == nil {
			_, _ = dns.WriteToSessionUDP(queries, packed, client) // the client says what arrived
		}
	}
}

// TestProcessOfAContainer: what an engine says of itself is not enough to enter a
// process's namespace.
func TestProcessOfAContainer(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for name, c := range map[string]struct {
		groups, id string
		want       bool
	}{
		"cgroup v1":       {"9:name=systemd:/docker/" + id + "\n8:pids:/docker/" + id + "\n", id, true},
		"cgroup v2":       {"0::/system.slice/docker-" + id + ".scope\n", id, true},
		"seen from below": {"0::/../" + id + "\n", id, true},
		"another":         {"0::/docker/" + strings.Repeat("f", 64) + "\n", id, false},
		"the host":        {"0::/\n", id, false},
		"not an id":       {"0::/\n", "/", false},
		"no id":           {"0::/\n", "", false},
	} {
		if got := inContainer(c.groups, c.id); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if err := checkProcess(os.Getpid(), id); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("our own process: %v", err)
	}
	if err := checkProcess(1<<30, id); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("no process: %v", err)
	}
}
