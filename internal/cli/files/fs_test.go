package files

import (
	"errors"
	"testing"
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
		err := each(test.paths, func(string) error { return errors.New(test.err) })
		if err == nil || err.Error() != test.want {
			t.Errorf("%q of %q is told as %v", test.err, test.paths, err)
		}
	}
}
