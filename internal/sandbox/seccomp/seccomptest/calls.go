// Package seccomptest is the table of every system call and its verdicts, written
// by hand. The tests of the policies and those of drivers read the same one.
package seccomptest

import _ "embed"

// Calls has a line for each system call: its number, its name, and a verdict for
// each policy.
//
//go:embed calls.txt
var Calls string
