package files

import (
	"errors"
	"testing"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/client"
)

func TestEachNamesThePathOnce(t *testing.T) {
	for _, test := range []struct {
		paths     []string
		err, want string
	}{
		{[]string{"a", "b"}, `"a" does not exist`, `"a" does not exist`},
		{[]string{"a", "b"}, "no space left", "a: no space left"},
		{[]string{"a"}, "no space left", "no space left"},
	} {
		a := &cli.App{Flags: cli.Flags{URL: "http://127.0.0.1:1", APIKey: "none"}}
		err := each(a, test.paths, func(*client.Client, string) error { return errors.New(test.err) })
		if err == nil || err.Error() != test.want {
			t.Errorf("%q of %q is told as %v", test.err, test.paths, err)
		}
	}
}
