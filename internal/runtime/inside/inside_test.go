package inside

import (
	"slices"
	"testing"
)

func TestEnvironmentPrecedence(t *testing.T) {
	got := Environment([]string{"PATH=/image", "A=image", "B=image", "malformed"}, map[string]string{"B": "session", "C": "x=y"}, "/bin/sh")
	want := []string{"A=image", "B=session", "C=x=y", "HOME=/root", "LANG=C.UTF-8", "LOGNAME=root", "PATH=/image", "SHELL=/bin/sh", "USER=root"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
