package workflow

import (
	"encoding/json"

	"github.com/sandkasten/sandkasten/agents/model"
)

// state is what the records of a run come to.
type state struct {
	begun, ended, cleaned bool

	digest string
	input  string
	next   string // step that is done or under way
	steps  int    // that were done
	failed string // why the run has failed

	current  string          // agent's step under way, or empty
	messages []model.Message // of it

	visits  map[string]int // of steps
	outputs map[string]stepState
	last    record   // of the newest agent that is done
	apart   []record // steps whose agents had sandboxes of their own
}

// stepState is what expressions and prompts see of a step.
type stepState struct {
	Output any    `json:"output"`
	Text   string `json:"text"`
}

func newState() state {
	return state{visits: map[string]int{}, outputs: map[string]stepState{}}
}

// apply takes one record into account.
func (s *state) apply(r record) {
	switch r.Kind {
	case recordBegin:
		s.begun, s.digest, s.input, s.next = true, r.Digest, r.Input, r.Next
	case recordStep:
		s.current, s.messages = r.Step, nil
		s.visits[r.Step] = r.Visit
		if r.Isolated {
			s.apart = append(s.apart, r)
		}
	case recordMessage:
		s.messages = append(s.messages, *r.Message)
	case recordDone:
		s.done(r)
	case recordEnd:
		s.ended, s.failed = true, r.Error
	case recordClean:
		s.cleaned = true
	}
}

func (s *state) done(r record) {
	s.current, s.messages, s.next = "", nil, r.Next
	s.steps++
	if r.Visit == 0 {
		return // a switch
	}
	var output any
	if r.Output != nil {
		_ = json.Unmarshal(r.Output, &output) // it was encoded by us
	}
	s.outputs[r.Step] = stepState{output, r.Text}
	s.last = r
}

func (r *run) outcome() Outcome {
	return Outcome{Run: r.id, Error: r.failed, Output: r.last.Output, Text: r.last.Text, Steps: r.steps}
}
