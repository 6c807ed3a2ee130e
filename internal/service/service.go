// Package service speaks to the service manager that started this process, as
// sd_notify(3), sd_watchdog_enabled(3) and sd_listen_fds(3) describe it: it tells
// states, shows signs of life, and has the manager keep the listening socket over
// a restart, so that clients wait instead of being refused. Without a manager all
// of it does nothing. What the states mean for the daemon is the daemon's.
package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// The states that a service manager is told.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	alive    = "WATCHDOG=1"
)

// StoppingWithin is Stopping of a process that may need so long to its end, whatever the
// manager's own patience is.
func StoppingWithin(patience time.Duration) string {
	return fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", Stopping, patience.Microseconds())
}

// keptName is what the manager knows our listening socket by.
const keptName = "sandkasten-listen"

// firstPassed is the first descriptor that a manager passes (SD_LISTEN_FDS_START).
const firstPassed = 3

// Manager is the service manager, or nobody: its zero value, and nil.
type Manager struct {
	socket   string        // of NOTIFY_SOCKET; empty is nobody
	watchdog time.Duration // 0 is none
	passed   []*os.File    // listening sockets that it has kept
}

// FromEnviron reads what the manager told this process, and takes it out of the
// environment and out of what children inherit. It is called once, early, since
// descriptors that were passed are taken by their number. The caller closes it.
func FromEnviron() (*Manager, error) {
	m := &Manager{socket: os.Getenv("NOTIFY_SOCKET")}
	pid := strconv.Itoa(os.Getpid())
	var errs []error
	if text, of := os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID"); text != "" && (of == "" || of == pid) {
		usec, err := strconv.ParseInt(text, 10, 64)
		if err != nil || usec <= 0 {
			errs = append(errs, fmt.Errorf("WATCHDOG_USEC is %q, not a number of microseconds", text))
		}
		m.watchdog = time.Duration(usec) * time.Microsecond
	}
	if text := os.Getenv("LISTEN_FDS"); text != "" && os.Getenv("LISTEN_PID") == pid {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 16 {
			errs = append(errs, fmt.Errorf("LISTEN_FDS is %q, not a number up to 16", text))
			n = 0
		}
		for fd := firstPassed; fd < firstPassed+n; fd++ {
			syscall.CloseOnExec(fd)
			m.passed = append(m.passed, os.NewFile(uintptr(fd), keptName))
		}
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"} {
		errs = append(errs, os.Unsetenv(name))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Close closes what the manager passed and nobody took.
func (m *Manager) Close() error {
	if m == nil {
		return nil
	}
	var errs []error
	for _, f := range m.passed {
		errs = append(errs, f.Close())
	}
	m.passed = nil
	return errors.Join(errs...)
}

// Notify tells the manager a state.
func (m *Manager) Notify(state string) error { return m.send(state, nil) }

// Listen returns the listener at a TCP address that an earlier process left with
// the manager, or a new one, which the manager keeps from now on. What was kept
// of other addresses is given up. The caller closes the listener, which the
// manager's copy outlives.
func (m *Manager) Listen(ctx context.Context, address string) (net.Listener, error) {
	if l := m.kept(address); l != nil {
		return l, nil
	}
	if m != nil && len(m.passed) > 0 {
		if err := m.Notify("FDSTOREREMOVE=1\nFDNAME=" + keptName); err != nil {
			return nil, err
		}
	}
	if err := m.Close(); err != nil { // before the address is taken again
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if err := m.keep(l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// kept takes the socket for address out of those that were passed, if there is one.
func (m *Manager) kept(address string) net.Listener {
	if m == nil {
		return nil
	}
	for i, f := range m.passed {
		l, err := net.FileListener(f) // a descriptor of its own
		if err != nil {
			continue // no socket of ours
		}
		if l.Addr().String() == address {
			m.passed = append(m.passed[:i:i], m.passed[i+1:]...)
			f.Close() // l has the socket
			return l
		}
		l.Close() // it is not used
	}
	return nil
}

func (m *Manager) keep(l net.Listener) error {
	tcp, ok := l.(*net.TCPListener)
	if !ok || m == nil || m.socket == "" {
		return nil
	}
	f, err := tcp.File()
	if err != nil {
		return err
	}
	return errors.Join(m.send("FDSTORE=1\nFDNAME="+keptName, syscall.UnixRights(int(f.Fd()))), f.Close())
}

// Watch tells the manager that this process is well, as often as it wants to hear
// it, for as long as check says so in time. It returns when ctx is done, and at
// once where the manager does not watch.
func (m *Manager) Watch(ctx context.Context, check func(context.Context) error) error {
	if m == nil || m.watchdog == 0 {
		return nil
	}
	ticker := time.NewTicker(m.watchdog / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		within, cancel := context.WithTimeout(ctx, m.watchdog/3)
		err := check(within)
		cancel()
		if err != nil {
			continue // it hears nothing, and ends us if that goes on
		}
		if err := m.Notify(alive); err != nil {
			return err
		}
	}
}

func (m *Manager) send(state string, rights []byte) (err error) {
	if m == nil || m.socket == "" {
		return nil
	}
	// Not connected: a datagram with descriptors names whom it is for.
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, _, err := conn.WriteMsgUnix([]byte(state), rights, &net.UnixAddr{Name: m.socket, Net: "unixgram"}); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}
