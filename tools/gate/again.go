package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// lastAgain is when a run has no time left for a part's second run; CI stops it
// after ninety minutes.
const lastAgain = 80 * time.Minute

// mostAgain is how many failed parts may run a second time. Of more, one cause is
// likelier than as many accidents.
const mostAgain = 2

// again runs the parts that failed once more, each by itself, and puts into the
// results how that ended. The parts share two busy processors, and a test among
// thousands that runs out of time there must not refuse the rest; but it is
// named at the end of the run, for it is a defect of the test or of the product.
//
// Nothing gets a second run where one cannot say anything new: more than
// mostAgain parts that failed, one that others need, one in which nothing is
// timed, a data race.
func again(ctx context.Context, results []result, since time.Duration, runPart runner, out io.Writer) {
	var bad []*result
	for i := range results {
		if results[i].state != passed {
			bad = append(bad, &results[i])
		}
	}
	if len(bad) > mostAgain || slices.ContainsFunc(bad, func(r *result) bool { return r.state != failed || r.background }) {
		return
	}
	for _, r := range bad {
		if since += r.took; since > lastAgain || ctx.Err() != nil {
			return
		}
		log, err := os.ReadFile(logOf(r.part))
		if err != nil || strings.Contains(string(log), "WARNING: DATA RACE") {
			return
		}
		if err := os.Rename(logOf(r.part), firstLogOf(r.part)); err != nil {
			return
		}
		second := schedule(ctx, []part{r.part}, 1, runPart, out)[0]
		if second.state == passed {
			second.state = unsteady
		}
		second.err = fmt.Errorf("the first run: %w", r.err)
		second.took += r.took
		*r = second
		if second.state == failed {
			return // the run has failed, whatever the other would say
		}
	}
}

// firstLogOf is the file with the output of a part that ran a second time.
func firstLogOf(p part) string {
	return strings.TrimSuffix(logOf(p), ".log") + ".first.log"
}
