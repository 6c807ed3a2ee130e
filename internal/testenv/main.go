package testenv

import (
	"fmt"
	"os"
	"slices"
	"time"

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
	goleak.VerifyTestMain(patient{m, ignore}, append(slices.Clone(ignore), goleak.Cleanup(func(code int) {
		if err := before.waitFor(); err != nil {
			fmt.Fprintln(os.Stderr, "the tests of this package", err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))...)
}

// leakPatience is how long goroutines may take to end on a busy machine.
const leakPatience = 10 * time.Second

// patient gives goroutines that are ending more time than goleak does.
type patient struct {
	goleak.TestingM
	ignore []goleak.Option
}

// Run implements goleak.TestingM.
func (p patient) Run() int {
	code := p.TestingM.Run()
	for end := time.Now().Add(leakPatience); code == 0 && goleak.Find(p.ignore...) != nil && time.Now().Before(end); {
		continue // Find waits
	}
	return code
}
