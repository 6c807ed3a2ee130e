package door

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Slots of the map that the program looks sockets up in: three for each family.
const (
	streamSlot   = 0
	querySlot    = 1
	datagramSlot = 2
	v6Slots      = 3 // where those of IPv6 begin
	slots        = 6
)

// CarryDatagrams has the datagrams to other ports than 53 come to Datagrams. Without
// it, which is so at first, their senders are refused at once.
func (d *Door) CarryDatagrams(carry bool) error {
	for i, socket := range d.Datagrams {
		slot := uint32(i*v6Slots + datagramSlot)
		if carry {
			if err := d.put(slot, socket); err != nil {
				return err
			}
			continue
		}
		if err := d.lookup.Delete(slot); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("take socket %d out of the map: %w", slot, err)
		}
	}
	return nil
}

// Where the fields of struct bpf_sk_lookup are. Source: linux/bpf.h.
const (
	lookupFamily    = 8
	lookupProtocol  = 12
	lookupLocalIP4  = 40
	lookupLocalIP6  = 44
	lookupLocalPort = 60
)

// steer has the kernel give what is sent in the namespace to the door's sockets.
func (d *Door) steer(netns *os.File) (err error) {
	d.lookup, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.SockMap, KeySize: 4, ValueSize: 8, MaxEntries: slots})
	if err != nil {
		return fmt.Errorf("make the map of sockets: %w", err)
	}
	for i, stream := range d.Streams {
		tcp, ok := stream.(*net.TCPListener)
		if !ok {
			return fmt.Errorf("%T is no listener of TCP", stream)
		}
		if err := d.put(uint32(i*v6Slots+streamSlot), tcp); err != nil {
			return err
		}
		if err := d.put(uint32(i*v6Slots+querySlot), d.Queries[i]); err != nil {
			return err
		}
	}
	d.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "sandkasten_door", Type: ebpf.SkLookup, AttachType: ebpf.AttachSkLookup, License: "Apache-2.0",
		Instructions: program(d.lookup.FD()),
	})
	if err != nil {
		return fmt.Errorf("load the socket lookup: %w", err)
	}
	d.attach, err = link.AttachNetNs(int(netns.Fd()), d.program)
	if err != nil {
		return fmt.Errorf("attach the socket lookup: %w", err)
	}
	return nil
}

func (d *Door) put(slot uint32, socket syscall.Conn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = d.lookup.Put(slot, uint64(fd)) })
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("put socket %d into the map: %w", slot, err)
	}
	return nil
}

// program sends TCP, datagrams to port 53 and other datagrams to the sockets of their
// family, unless they go to loopback. Where there is no socket the kernel looks on,
// and finds nobody but a server of the namespace itself.
func program(sockets int) asm.Instructions {
	const (
		context = asm.R6
		slot    = asm.R7
	)
	load := func(to asm.Register, field int16) asm.Instruction { return asm.LoadMem(to, context, field, asm.Word) }
	return asm.Instructions{
		asm.Mov.Reg(context, asm.R1),
		load(asm.R2, lookupFamily),
		asm.JNE.Imm(asm.R2, unix.AF_INET, "ipv6"),

		asm.Mov.Imm(slot, 0),
		load(asm.R2, lookupLocalIP4), // in the network's order
		asm.HostTo(asm.BE, asm.R2, asm.Word),
		asm.RSh.Imm(asm.R2, 24),
		asm.JEq.Imm(asm.R2, 127, "pass"),
		asm.Ja.Label("protocol"),

		asm.Mov.Imm(slot, v6Slots).WithSymbol("ipv6"),
		load(asm.R2, lookupLocalIP6),
		load(asm.R3, lookupLocalIP6+4),
		asm.Or.Reg(asm.R2, asm.R3),
		load(asm.R3, lookupLocalIP6+8),
		asm.Or.Reg(asm.R2, asm.R3),
		asm.JNE.Imm(asm.R2, 0, "protocol"),
		load(asm.R2, lookupLocalIP6+12), // ::1 and :: are the namespace's own
		asm.HostTo(asm.BE, asm.R2, asm.Word),
		asm.JLE.Imm(asm.R2, 1, "pass"),

		load(asm.R2, lookupProtocol).WithSymbol("protocol"),
		asm.JEq.Imm(asm.R2, unix.IPPROTO_TCP, "find"),
		asm.Add.Imm(slot, querySlot),
		load(asm.R2, lookupLocalPort),
		asm.JEq.Imm(asm.R2, 53, "find"),
		asm.Add.Imm(slot, datagramSlot-querySlot),

		asm.StoreMem(asm.RFP, -4, slot, asm.Word).WithSymbol("find"),
		asm.LoadMapPtr(asm.R1, sockets),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.Mov.Reg(slot, asm.R0), // the socket
		asm.Mov.Reg(asm.R1, context),
		asm.Mov.Reg(asm.R2, slot),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnSkAssign.Call(),
		asm.Mov.Reg(asm.R1, slot),
		asm.FnSkRelease.Call(),

		asm.Mov.Imm(asm.R0, 1).WithSymbol("pass"), // SK_PASS
		asm.Return(),
	}
}
