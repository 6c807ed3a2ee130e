package guest

import (
	"slices"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

func TestEnvironmentPrecedence(t *testing.T) {
	got := Environment([]string{"PATH=/image", "A=image", "B=image", "malformed"}, map[string]string{"B": "session", "C": "x=y"}, "/bin/sh")
	want := []string{"A=image", "B=session", "C=x=y", "HOME=/root", "LANG=C.UTF-8", "LOGNAME=root", "PATH=/image", "SHELL=/bin/sh", "USER=root"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestCheckSpec(t *testing.T) {
	for name, c := range map[string]struct {
		id   runtime.ID
		spec runtime.Spec
		want errdefs.Code // "" is none
	}{
		"good":      {"x1", runtime.Spec{Seccomp: runtime.SeccompMVP, Network: runtime.Network{Mode: runtime.NetworkNone}}, ""},
		"silent":    {"x1", runtime.Spec{}, ""},
		"no id":     {"", runtime.Spec{}, errdefs.InvalidArgument},
		"a path":    {"../x", runtime.Spec{}, errdefs.InvalidArgument},
		"seccomp":   {"x", runtime.Spec{Seccomp: "lax"}, errdefs.InvalidArgument},
		"a network": {"x", runtime.Spec{Network: runtime.Network{Mode: "host"}}, errdefs.Unimplemented},
	} {
		err := CheckSpec(c.id, c.spec)
		if c.want == "" && err != nil || c.want != "" && !errdefs.Is(err, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
