// Package coverage reads the list of attacks, docs/attacks.md, by which the tests
// of the battery and the native driver's are counted, and says which cases are
// otherwise on a Docker engine. The tests are named by their cases; what they do is
// no part of it.
package coverage

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/sandkasten/sandkasten/docs"
)

// Level is where a case attacks.
type Level string

// The levels of the list.
const (
	API    Level = "API"    // a session of a daemon: the tests are in test/attack
	Driver Level = "driver" // a sandbox of the native driver: they are beside it
)

// Case is an attack of the list.
type Case struct {
	ID      string
	Level   Level
	Release bool   // without it nothing is released
	Holds   string // what must hold
	Without string // why it has no test; "" if it has
}

// line is one of a table of cases.
var line = regexp.MustCompile(`^\| ([A-Z][0-9]{2}) \| (\w+) \|(?: (needs it))? \| (.*?) \|(?: (.*?))? \|$`)

// Cases are all of the list, in its order.
var Cases = sync.OnceValues(func() ([]Case, error) {
	const page = "attacks.md"
	text, err := docs.FS.ReadFile(page)
	if err != nil {
		return nil, err
	}
	var cases []Case
	for row := range strings.Lines(string(text)) {
		row = strings.TrimSpace(row)
		if len(row) < 6 || row[2] < 'A' || row[2] > 'Z' || row[3] < '0' || row[3] > '9' {
			continue
		}
		m := line.FindStringSubmatch(row)
		if m == nil {
			return nil, fmt.Errorf("%s: %q is no row of a case", page, row)
		}
		cases = append(cases, Case{ID: m[1], Level: Level(m[2]), Release: m[3] != "", Holds: m[4], Without: m[5]})
	}
	return cases, nil
})
