package runtime

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

func TestNetwork(t *testing.T) {
	none, full := Network{Mode: NetworkNone}, Network{Mode: "full"}
	for _, good := range []Network{{}, none} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	if err := full.Validate(); !errdefs.Is(err, errdefs.Unimplemented) {
		t.Errorf("%+v: %v", full, err)
	}
	if got := (Network{}).Or(full); got != full {
		t.Errorf("left open: %+v", got)
	}
	if got := none.Or(full); got != none {
		t.Errorf("asked for: %+v", got)
	}
	if !none.Equal(Network{}) || none.Equal(full) {
		t.Error("a sandbox without a mode has none, and only that")
	}
}

// A record of a sandbox has the mode as a string, which other builds read.
func TestNetworkIsWrittenAsItsMode(t *testing.T) {
	text, err := json.Marshal(Spec{Network: Network{Mode: NetworkNone}})
	if err != nil || !strings.Contains(string(text), `"Network":"none"`) {
		t.Errorf("%s, %v", text, err)
	}
	var spec Spec
	if err := json.Unmarshal(text, &spec); err != nil || spec.Network.Mode != NetworkNone {
		t.Errorf("%+v, %v", spec, err)
	}
}
