package runtimetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	goruntime "runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/netns"
)

// networkTests hold a driver's sandboxes to what runtime.Networked says, however they
// were made.
func (s *suite) networkTests() map[string]func(*testing.T) {
	tests := map[string]func(*testing.T){"Network": s.network}
	if !s.opts.NoClaims {
		tests["NetworkClaimed"] = s.networkClaimed
	}
	if !s.opts.NoForks {
		tests["NetworkForked"] = s.networkForked
	}
	return tests
}

// network is that of a sandbox that was made, and of the same after a restart of its
// programs and of the daemon.
func (s *suite) network(t *testing.T) {
	d := s.open(t)
	b := s.create(t, d, s.spec())
	wantNetwork(t, b)
	wantNoNetworkAfter(t, b, func() error { return stopper(t, d).Stop(t.Context(), b.ID()) })
	again, err := stopper(t, s.open(t)).Start(t.Context(), b.ID())
	if err != nil {
		t.Fatal(err)
	}
	wantNetwork(t, use(again))
	opened, err := s.open(t).Open(t.Context(), b.ID())
	if err != nil {
		t.Fatal(err)
	}
	wantNetwork(t, use(opened))
	wantNoNetworkAfter(t, use(again), func() error { return d.Destroy(t.Context(), b.ID()) })

	spec := s.spec()
	spec.ReadonlyRoot = true
	wantNetwork(t, s.create(t, d, spec))
}

func (s *suite) networkClaimed(t *testing.T) {
	d := s.open(t)
	ready, id := s.ready(t, d)
	b := s.wantClaimed(t, ready, id, s.claimSpec())
	wantNetwork(t, b)
	wantNoNetworkAfter(t, b, func() error { return d.Destroy(t.Context(), id) })
}

// networkForked: each fork has a namespace of its own.
func (s *suite) networkForked(t *testing.T) {
	d := s.open(t)
	b := s.create(t, d, s.spec())
	all := append(s.forks(t, b.ID(), 2, s.spec()), b)
	var names []string
	for _, f := range all {
		names = append(names, wantNetwork(t, f))
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(all) {
		t.Errorf("some of %d share a namespace: %v", len(all), names)
	}
	wantNoNetworkAfter(t, all[0], func() error { return d.Destroy(t.Context(), all[0].ID()) })
	wantNetwork(t, b)
}

func networked(t *testing.T, sandbox runtime.Sandbox) runtime.Networked {
	t.Helper()
	n, ok := sandbox.(runtime.Networked)
	if !ok {
		t.Fatalf("the network namespace of a %T cannot be entered; say so with NoNetworks", sandbox)
	}
	return n
}

// wantNetwork wants a namespace with loopback only, which is that of the programs
// inside, and returns its name.
func wantNetwork(t *testing.T, b box) (name string) {
	t.Helper()
	f, err := networked(t, b.Sandbox).NetNS(t.Context())
	if err != nil {
		t.Fatalf("NetNS: %v", err)
	}
	defer f.Close()
	its, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if ours, err := os.Stat("/proc/thread-self/ns/net"); err != nil || os.SameFile(its, ours) {
		t.Errorf("NetNS returned our own namespace; %v", err)
	}
	name, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	b.wantOutput(t, "readlink /proc/self/ns/net", name+"\n")
	if interfaces, err := interfacesOf(f); err != nil || !slices.Equal(interfaces, []string{"lo"}) {
		t.Errorf("interfaces %v, %v", interfaces, err)
	}
	// The engine of a driver may write comments, too.
	b.wantOutput(t, "grep '^[a-z]' /etc/resolv.conf", netns.ResolvConf())
	return name
}

// interfacesOf are the names of those in a namespace. The thread that looks comes back:
// its end would kill programs of a test that die with the thread that started them.
func interfacesOf(namespace *os.File) (names []string, err error) {
	ours, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	goruntime.LockOSThread()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		goruntime.UnlockOSThread()
		return nil, err
	}
	all, err := net.Interfaces()
	if back := unix.Setns(int(ours.Fd()), unix.CLONE_NEWNET); back != nil {
		return nil, errors.Join(err, back) // and never unlock
	}
	goruntime.UnlockOSThread()
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names, err
}

// wantNoNetworkAfter ends a sandbox, whose namespace nobody gets then.
func wantNoNetworkAfter(t *testing.T, b box, end func() error) {
	t.Helper()
	if err := end(); err != nil {
		t.Fatal(err)
	}
	f, err := networked(t, b.Sandbox).NetNS(t.Context())
	if err == nil {
		err = f.Close()
		t.Errorf("NetNS of what has ended; closing it: %v", err)
		return
	}
	wantCode(t, "NetNS of what has ended", err, errdefs.NotFound)
}
