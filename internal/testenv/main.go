package testenv

import (
	"fmt"
	"os"

	"go.uber.org/goleak"
)

// Main runs a package's tests and fails the package if they leave anything
// behind: a goroutine, or what CheckHost looks for. A package whose tests
// start either calls it from TestMain:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
func Main(m goleak.TestingM, ignore ...goleak.Option) {
	before, err := hostState()
	if err != nil {
		fmt.Fprintln(os.Stderr, "read the host's state:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, append(ignore, goleak.Cleanup(func(code int) {
		if err := before.waitFor(); err != nil {
			fmt.Fprintln(os.Stderr, "the tests of this package", err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))...)
}
