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

// again runs the one part that failed once more, by itself, and puts into the
// results how that ended. The parts share two busy processors, and a test among
// thousands that runs out of time there must not refuse the rest; but it is
// named at the end of the run, for it is a defect of the test or of the product.
//
// Nothing gets a second run where one cannot say anything new: two parts that
// failed, one that others need, one in which nothing is timed, a data race.
func again(ctx context.Context, results []result, since time.Duration, runPart runner, out io.Writer) {
	i := slices.IndexFunc(results, func(r result) bool { return r.state != passed })
	if i < 0 || ctx.Err() != nil || slices.ContainsFunc(results[i+1:], func(r result) bool { return r.state != passed }) {
		return
	}
	r := &results[i]
	if r.state != failed || r.background || since+r.took > lastAgain {
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
}

// firstLogOf is the file with the output of a part that ran a second time.
func firstLogOf(p part) string {
	return strings.TrimSuffix(logOf(p), ".log") + ".first.log"
}
