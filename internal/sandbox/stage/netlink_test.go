package stage

import (
	"testing"
	"unsafe"
)

func TestNetlinkSockets(t *testing.T) {
	const head = "protocol  size sockets  memory press maxhdr  slab module     cl co di\n" +
		"UDP       1472      3       2   NI       0   yes  kernel      y  y  y\n"
	for text, want := range map[string]int{
		head + "NETLINK   1096     17      -1   NI       0   no   kernel      n  n  n\n": 17,
		head + "NETLINK   1096     -1      -1   NI       0   no   kernel      n  n  n\n": -1,
	} {
		if got, err := netlinkSockets([]byte(text)); got != want || err != nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", head, "NETLINK\n", head + "NETLINK 1096 many -1\n"} {
		if got, err := netlinkSockets([]byte(text)); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// The kernel takes these structures by their size, which is in the numbers of its
// controls.
func TestSizesOfSeccompStructures(t *testing.T) {
	sizes := []uintptr{unsafe.Sizeof(notification{}), unsafe.Sizeof(notificationAnswer{}), unsafe.Sizeof(givenDescriptor{})}
	for i, control := range []uintptr{0xc0502100, 0xc0182101, ioctlAddFD} {
		if want := control >> 16 & 0x3fff; sizes[i] != want {
			t.Errorf("structure %d has %d bytes, not %d", i, sizes[i], want)
		}
	}
}
