package runtime

import (
	"cmp"
	"fmt"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Network says what a sandbox can reach. On the wire, in the database and in the
// configuration it is its Mode, a string.
type Network struct {
	Mode NetworkMode // "" is NetworkNone
}

// MarshalText writes n as its mode: records of sandboxes, and hashes of requests,
// are read by the builds before and after this one.
func (n Network) MarshalText() ([]byte, error) { return []byte(n.Mode), nil }

// UnmarshalText reads what MarshalText wrote.
func (n *Network) UnmarshalText(text []byte) error {
	*n = Network{Mode: NetworkMode(text)}
	return nil
}

// NetworkMode is the kind of a Network.
type NetworkMode string

// What a driver makes.
const (
	NetworkNone   NetworkMode = "none"   // a namespace of its own with loopback only
	NetworkEngine NetworkMode = "engine" // of a container engine, which an EngineNetworker is configured with
)

// EngineNetworker is a Driver whose operator gives its sandboxes a network of the
// engine instead of loopback only. What they reach is then the engine's to decide.
type EngineNetworker interface {
	// EngineNetwork is the name of that network, or "" for none.
	EngineNetwork() string
}

// Or fills in from d what n leaves open.
func (n Network) Or(d Network) Network { return Network{Mode: cmp.Or(n.Mode, d.Mode)} }

// Equal reports whether a sandbox of n is one of other.
func (n Network) Equal(other Network) bool {
	return cmp.Or(n.Mode, NetworkNone) == cmp.Or(other.Mode, NetworkNone)
}

// Validate refuses what no driver can do. It is the one place that knows which
// modes there are.
func (n Network) Validate() error {
	if n.Mode == "" || n.Mode == NetworkNone || n.Mode == NetworkEngine {
		return nil
	}
	return &errdefs.Error{
		Code: errdefs.Unimplemented, Field: "network_mode",
		Message: fmt.Sprintf("network_mode %q is not available; this version has only %q (loopback)", n.Mode, NetworkNone),
	}
}
