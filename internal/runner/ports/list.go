// Package ports knows the TCP ports of the network namespace that it runs in:
// who listens, and connections to them. It speaks no protocol; the runner does.
package ports

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"github.com/sandkasten/sandkasten/protocol"
)

// Limits of a list.
const (
	maxPorts   = 1024
	maxSockets = 4 << 20 // bytes read of a socket table
)

// List returns what is listened on, by port and then address. proc is where
// procfs is mounted.
func List(proc string) ([]protocol.Port, error) {
	var all []protocol.Port
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(proc + "/net/" + table)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		all = append(all, listening(io.LimitReader(f, maxSockets))...)
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b protocol.Port) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Address, b.Address))
	})
	all = slices.Compact(all) // several sockets may share a port
	return all[:min(len(all), maxPorts)], nil
}

// listening reads a socket table of procfs and returns what is in state
// LISTEN. It passes over lines that it does not understand.
func listening(table io.Reader) []protocol.Port {
	const listen = "0A"
	var found []protocol.Port
	for lines := bufio.NewScanner(table); lines.Scan(); {
		f := bytes.Fields(lines.Bytes())
		if len(f) < 4 || string(f[3]) != listen {
			continue
		}
		address, port, ok := parseSocket(string(f[1]))
		if ok {
			found = append(found, protocol.Port{Port: port, Address: address.String(), Loopback: address.IsLoopback()})
		}
	}
	return found
}

// parseSocket reads "0100007F:0BB8": the address as words in the machine's
// order, the port as a number.
func parseSocket(s string) (address netip.Addr, port int, ok bool) {
	host, number, _ := bytes.Cut([]byte(s), []byte(":"))
	raw, err := hex.DecodeString(string(host))
	if err != nil || len(raw)%4 != 0 {
		return address, 0, false
	}
	for word := raw; len(word) > 0; word = word[4:] {
		binary.BigEndian.PutUint32(word, binary.NativeEndian.Uint32(word))
	}
	address, ok = netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(string(number), 16, 16)
	return address.Unmap(), int(n), ok && err == nil && n > 0
}
