// Package door makes the one way out of a network namespace that has loopback
// only. Every address becomes a local one there, and a program of the kernel's
// socket lookup hands whatever is sent to one to sockets that this process made
// inside the namespace and serves from outside. Which namespace a connection comes
// from is which socket it came by, and nothing inside can change that. What may
// leave is not decided here.
package door

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/netns"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// socketBuffer bounds what the kernel keeps of a connection for each direction. It
// is memory that the daemon is charged for and a program in the namespace fills.
const socketBuffer = 128 << 10

// Door is open until Close.
type Door struct {
	// Streams accept every TCP connection to an address that is not loopback. The
	// local address of such a connection is where it leads.
	Streams []net.Listener
	// Queries get every datagram to port 53 of such an address, with the address as a
	// control message. An answer has to come from there.
	Queries []*net.UDPConn
	// Datagrams get the first datagram of every flow to another port, while
	// CarryDatagrams says so, with its destination as a control message. See Flow.
	Datagrams []*net.UDPConn

	netns   *os.File
	lookup  *ebpf.Map
	program *ebpf.Program
	attach  link.Link
}

// Open makes the door of a namespace, whose file is the door's from then on. When
// it fails the namespace has no way out. An earlier door whose process has ended is
// no hindrance. It needs CAP_SYS_ADMIN and CAP_NET_ADMIN on the host and over the
// namespace, and CAP_BPF.
func Open(ctx context.Context, netns *os.File) (_ *Door, err error) {
	allowMemory()
	d := &Door{netns: netns}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if err := within(netns, func() error { return d.enter(ctx) }); err != nil {
		return nil, err
	}
	if err := d.steer(netns); err != nil {
		return nil, err
	}
	return d, nil
}

// Close closes the door. Connections that were accepted stay open.
func (d *Door) Close() error {
	var errs []error
	if d.attach != nil {
		errs = append(errs, d.attach.Close())
	}
	for _, s := range d.Streams {
		errs = append(errs, s.Close())
	}
	for _, q := range slices.Concat(d.Queries, d.Datagrams) {
		errs = append(errs, q.Close())
	}
	errs = append(errs, d.netns.Close())
	if d.program != nil {
		errs = append(errs, d.program.Close())
	}
	if d.lookup != nil {
		errs = append(errs, d.lookup.Close())
	}
	return errors.Join(errs...)
}

// Flow returns a socket inside the namespace that is at the address to, for whoever
// sent a datagram there. It gets the datagrams that follow. The caller closes it.
func (d *Door) Flow(ctx context.Context, to, client netip.AddrPort) (*net.UDPConn, error) {
	var flow *net.UDPConn
	err := within(d.netns, func() error {
		family := "udp4"
		if to.Addr().Is6() {
			family = "udp6"
		}
		dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(to), Control: flowOptions}
		conn, err := dialer.DialContext(ctx, family, client.String())
		if err == nil {
			flow = conn.(*net.UDPConn)
		}
		return err
	})
	return flow, err
}

// flowOptions let several flows be at one address, and IPv6 use one that no
// interface has.
func flowOptions(network, address string, raw syscall.RawConn) error {
	if err := socketOptions(network, address, raw); err != nil {
		return err
	}
	var err error
	control := func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }
	return errors.Join(raw.Control(control), err)
}

// Destination finds in the control messages of one of Datagrams where it was sent.
func Destination(control []byte) (netip.AddrPort, bool) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return netip.AddrPort{}, false
	}
	for _, m := range messages {
		from, err := unix.ParseOrigDstAddr(&m)
		if err != nil {
			continue
		}
		switch a := from.(type) {
		case *unix.SockaddrInet4:
			return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), true
		case *unix.SockaddrInet6:
			return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)), true
		}
	}
	return netip.AddrPort{}, false
}

// allowMemory lifts the limit on locked memory, which kernels before 5.11 count
// programs against.
var allowMemory = sync.OnceFunc(func() { _ = rlimit.RemoveMemlock() }) // where it matters and fails, loading says so

// within calls do on a thread that is in netns and ends afterwards.
func within(netns *os.File, do func() error) error {
	done := make(chan error, 1)
	go sys.OnOtherThread(func() {
		if err := enterNamespace(netns); err != nil {
			done <- fmt.Errorf("enter the network namespace: %w", err)
			return
		}
		done <- do()
	})
	return <-done
}

// enterNamespace holds the descriptor: by its number alone another file could be meant
// when the door closes meanwhile.
func enterNamespace(netns *os.File) error {
	raw, err := netns.SyscallConn()
	if err != nil {
		return err
	}
	var entered error
	err = raw.Control(func(fd uintptr) { entered = os.NewSyscallError("setns", unix.Setns(int(fd), unix.CLONE_NEWNET)) })
	return errors.Join(err, entered)
}

// loopback is the index of lo, which is the first interface of every namespace.
const loopback = 1

// enter makes all addresses local and the sockets that they lead to. It is called
// inside the namespace.
func (d *Door) enter(ctx context.Context) error {
	// The kernel would answer the echo requests to all of them.
	for _, setting := range []string{"ipv4/icmp_echo_ignore_all", "ipv6/icmp/echo_ignore_all"} {
		if err := os.WriteFile("/proc/sys/net/"+setting, []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("turn off echo replies: %w", err)
		}
	}
	for _, family := range []struct {
		all      netip.Prefix
		loopback string
		resolver netip.Addr
		network  string
	}{
		{netip.MustParsePrefix("0.0.0.0/0"), "127.0.0.1:0", netns.Resolvers[0], "4"},
		{netip.MustParsePrefix("::/0"), "[::1]:0", netns.Resolvers[1], "6"},
	} {
		err := routeLocally(family.all)
		if family.network == "6" && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EAFNOSUPPORT)) {
			return nil // the namespace has no IPv6, and so no other way either
		}
		if err != nil {
			return fmt.Errorf("make %s local: %w", family.all, err)
		}
		// Go's listeners speak MPTCP where they can, which the lookup cannot steer to.
		lc := net.ListenConfig{Control: socketOptions}
		lc.SetMultipathTCP(false)
		stream, err := lc.Listen(ctx, "tcp"+family.network, family.loopback)
		if err != nil {
			return err
		}
		d.Streams = append(d.Streams, stream)
		queries, err := listenForQueries(ctx, lc, "udp"+family.network, family.resolver)
		if err != nil {
			return err
		}
		d.Queries = append(d.Queries, queries.(*net.UDPConn))
		datagrams, err := lc.ListenPacket(ctx, "udp"+family.network, family.loopback)
		if err != nil {
			return err
		}
		d.Datagrams = append(d.Datagrams, datagrams.(*net.UDPConn))
	}
	return nil
}

// Copies of an earlier door's sockets go within milliseconds, on a busy host later.
const (
	copiesGo  = 5 * time.Second
	lookAgain = 2 * time.Millisecond
)

// listenForQueries waits for what an earlier door of the namespace left at the address:
// a process that this one was just starting has copies of all its sockets until it is
// another program.
func listenForQueries(ctx context.Context, lc net.ListenConfig, network string, resolver netip.Addr) (net.PacketConn, error) {
	for end := time.Now().Add(copiesGo); ; {
		conn, err := lc.ListenPacket(ctx, network, netip.AddrPortFrom(resolver, 53).String())
		if !errors.Is(err, unix.EADDRINUSE) || time.Now().After(end) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookAgain):
		}
	}
}

// routeLocally has packets to any address of a prefix come back by loopback.
func routeLocally(all netip.Prefix) error {
	dst := &net.IPNet{IP: all.Addr().AsSlice(), Mask: net.CIDRMask(0, all.Addr().BitLen())}
	route := &netlink.Route{LinkIndex: loopback, Dst: dst, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL}
	if all.Addr().Is4() {
		route.Scope = unix.RT_SCOPE_HOST
		// Senders are at loopback, as those of IPv6 are by themselves: what is sent
		// back to them is then not taken for something that wants to leave.
		route.Src = net.IPv4(127, 0, 0, 1)
	}
	if err := netlink.RouteAdd(route); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// socketOptions bounds the buffers, and lets IPv6 use addresses that no interface has:
// a local route is enough for IPv4 alone.
func socketOptions(network, _ string, raw syscall.RawConn) error {
	var err error
	control := func(fd uintptr) {
		err = errors.Join(
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, socketBuffer),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer),
		)
		switch network {
		case "udp4":
			err = errors.Join(err,
				unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_PKTINFO, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_RECVORIGDSTADDR, 1))
		case "udp6":
			err = errors.Join(err,
				unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVORIGDSTADDR, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1))
		}
	}
	return errors.Join(raw.Control(control), err)
}
