package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// state is how a part ended.
type state string

const (
	passed   state = "ok"
	unsteady state = "UNSTEADY" // it failed, and passed when it ran again by itself
	failed   state = "FAILED"
	skipped  state = "not run" // what it needs has failed
)

// result is what became of a part.
type result struct {
	part
	state state
	took  time.Duration
	used  time.Duration // of the processors, all its processes together
	err   error
}

// runner runs a part to its end and returns how much of the processors it used.
type runner func(context.Context, part) (time.Duration, error)

// load is how much of the machine runs.
type load struct {
	front  int     // parts in the foreground
	cores  float64 // of these, but for what a sum of fractions leaves
	behind int     // parts in the background
	alone  bool    // a part that measures runs
}

// slack is how many processors the parts of the foreground may want beyond those
// that there are: none of them works all the time.
const slack = 0.25

// room reports whether a part may start beside what runs: the foreground fills
// the processors and no more, one part runs in the background of it, and what
// measures time has no other in the foreground.
func (l load) room(p part, cores int) bool {
	switch {
	case p.background:
		return l.behind == 0 && !l.alone
	case p.alone:
		return l.front == 0 && l.behind == 0
	default:
		return !l.alone && (l.front == 0 || l.cores+p.cores() <= float64(cores)+slack)
	}
}

func (l *load) add(p part, n int) {
	switch {
	case p.background:
		l.behind += n
	default:
		l.front += n
		l.cores += float64(n) * p.cores()
		l.alone = p.alone && n > 0
	}
}

// schedule runs parts, in their order where there is room and what they need
// has passed, and returns how they ended, in the order of the ends. It prints a
// line for each start and end.
func schedule(ctx context.Context, chosen []part, cores int, runPart runner, out io.Writer) []result {
	var (
		waiting = slices.Clone(chosen)
		done    []result
		running load
		ends    = make(chan result)
		active  int
		start   = time.Now()
	)
	say := func(format string, args ...any) {
		fmt.Fprintf(out, "%5.1f min  "+format+"\n", append([]any{time.Since(start).Minutes()}, args...)...)
	}
	for len(waiting) > 0 || active > 0 {
		were := len(waiting)
		waiting = slices.DeleteFunc(waiting, func(p part) bool {
			ready, hopeless := p.ready(chosen, done)
			if hopeless || ctx.Err() != nil {
				done = append(done, result{part: p, state: skipped})
				say("not run  %s", p.name)
				return true
			}
			if !ready || !running.room(p, cores) {
				return false
			}
			running.add(p, 1)
			active++
			say("start    %s", p.name)
			go func() {
				begin := time.Now()
				r := result{part: p, state: passed}
				r.used, r.err = runPart(ctx, p)
				if r.err != nil {
					r.state = failed
				}
				r.took = time.Since(begin)
				ends <- r
			}()
			return true
		})
		if active == 0 {
			if were > 0 && len(waiting) == were {
				panic(fmt.Sprintf("gate: none of %d parts can start", were))
			}
			continue // all that waited was hopeless
		}
		r := <-ends
		active--
		running.add(r.part, -1)
		done = append(done, r)
		say("%-8s %s, %.1f min, %.1f of a processor", r.state, r.name, r.took.Minutes(), r.used.Minutes())
		if r.state == failed {
			fmt.Fprintf(out, "%v\n%s", r.err, excerpt(logOf(r.part)))
		}
	}
	return done
}

// ready reports whether all parts that p needs have passed, and whether one
// cannot any more. A part that was not chosen is needed by nobody.
func (p part) ready(chosen []part, done []result) (ready, hopeless bool) {
	ready = true
	for _, name := range p.needs {
		if !slices.ContainsFunc(chosen, func(c part) bool { return c.name == name }) {
			continue
		}
		i := slices.IndexFunc(done, func(r result) bool { return r.name == name })
		switch {
		case i < 0:
			ready = false
		case done[i].state != passed:
			return false, true
		}
	}
	return ready, false
}
