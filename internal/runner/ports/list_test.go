package ports

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/protocol"
)

func TestListening(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	tests := []struct {
		name, table string
		want        []protocol.Port
	}{
		{"empty", head, nil},
		{"any", head + "   0: 00000000:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0\n", []protocol.Port{{Port: 3000, Address: "0.0.0.0"}}},
		{"loopback", "   0: 0100007F:1538 00000000:0000 0A 0:0\n", []protocol.Port{{Port: 5432, Address: "127.0.0.1", Loopback: true}}},
		{"loopback 6", "   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A\n", []protocol.Port{{Port: 8080, Address: "::1", Loopback: true}}},
		{"any 6", "   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A\n", []protocol.Port{{Port: 80, Address: "::"}}},
		{"4 in 6", "   0: 0000000000000000FFFF00000100007F:0050 00000000000000000000000000000000:0000 0A\n", []protocol.Port{{Port: 80, Address: "127.0.0.1", Loopback: true}}},
		{"connected", "   0: 0100007F:1538 0100007F:9999 01 0:0\n", nil},
		{"port 0", "   0: 0100007F:0000 00000000:0000 0A 0:0\n", nil},
		{"nonsense", "x\n0: zz:1 0 0A\n0: 0100007F 0 0A\n0: 0100007F:12345 0 0A\n0: 01:0050 0 0A\n0: :0050 0 0A\n\n", nil},
		{"no end", strings.Repeat("x", 1<<20), nil},
	}
	for _, tt := range tests {
		if got := listening(strings.NewReader(tt.table)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
