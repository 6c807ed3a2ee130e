package dialect_test

import (
	"os/exec"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runner/dialect"
)

func TestQuote(t *testing.T) {
	for _, text := range []string{"", "plain", "it's", "''", "$x `y` \\ \" \n\t!*", "\xff\x01"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+string(dialect.Quote(nil, []byte(text)))).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q came back as %q, %v", text, out, err)
		}
	}
}
