package v1

import (
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

func TestSignalNumbers(t *testing.T) {
	for v, want := range map[any]int{"TERM": 15, "SIGTERM": 15, "sigkill": 9, "HUP": 1, "SYS": 31, "WINCH": 28, 9.0: 9, 64.0: 64} {
		if got, err := signalNumber(v); err != nil || got != want {
			t.Errorf("%v is %d, %v", v, got, err)
		}
	}
	for _, v := range []any{"", "SIG", "15", "NONE", 0.0, 65.0, -1.0, 1.5, 1e300, true, nil} {
		if got, err := signalNumber(v); !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%v is %d, %v", v, got, err)
		}
	}
}
