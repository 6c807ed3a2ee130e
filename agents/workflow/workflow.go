// Package workflow runs workflows of agents that share a sandbox. A run writes a
// journal: killed at any moment, it goes on where it was.
package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/types"
	"go.yaml.in/yaml/v3"

	"github.com/sandkasten/sandkasten/agents/frontmatter"
)

// Types of steps.
const (
	AgentStep  = "agent"
	SwitchStep = "switch"
	EndStep    = "end"
)

// Workflow is one workflow file.
type Workflow struct {
	ID          string
	Name        string
	Description string
	Steps       []Step
	Digest      string // of the file
}

// Step is one step. An agent goes on to Next, or to the step that follows in the file.
type Step struct {
	ID          string
	Type        string
	Agent       string // a prompt file, without .prompt
	Next        string
	Expression  string
	Transitions []Transition

	value *expression // of Expression
}

// Transition is where a switch goes on.
type Transition struct {
	Condition string
	Next      string

	when *expression
}

var (
	stepID    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)
	agentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// Load reads a workflow file.
func Load(name string) (*Workflow, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the workflow: %w", err)
	}
	return Parse(name, string(text))
}

// Parse reads a workflow. All mistakes come at once, each as a *frontmatter.Mistake.
func Parse(file, text string) (*Workflow, error) {
	root, err := frontmatter.ParseYAML(file, text, 0)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, &frontmatter.Mistake{File: file, Line: 1, Message: "the file is empty: it needs id and steps"}
	}
	sum := sha256.Sum256([]byte(text))
	w := &Workflow{Digest: hex.EncodeToString(sum[:])}
	p := &fileParser{Reader: &frontmatter.Reader{File: file}, at: map[string]*yaml.Node{}}
	p.Object("", root, []frontmatter.Field{
		p.Text("id", &w.ID, named(stepID)), p.Text("name", &w.Name, nil), p.Text("description", &w.Description, nil),
		{Name: "steps", Read: func(path string, list *yaml.Node) { w.Steps = p.steps(path, list) }},
	})
	if w.ID == "" && p.Err() == nil {
		p.Wrong(root, "the workflow has no id")
	}
	if len(w.Steps) == 0 && p.Err() == nil {
		p.Wrong(root, "the workflow has no steps")
	}
	p.check(w)
	p.compile(w)
	return w, p.Err()
}

// fileParser reads a workflow and remembers where its steps are.
type fileParser struct {
	*frontmatter.Reader
	at map[string]*yaml.Node // steps, by id
	to []target

	expressions []written
}

// written is an expression, which may name steps that are still to be read.
type written struct {
	path      string
	text      *string
	condition bool
	node      *yaml.Node
	compiled  **expression
}

// target is a step that another one names.
type target struct {
	id   string
	node *yaml.Node
}

func named(pattern *regexp.Regexp) func(string) string {
	return func(text string) string {
		if pattern.MatchString(text) {
			return ""
		}
		return "a name of letters, digits, - and _, as check-results"
	}
}

func (p *fileParser) steps(path string, list *yaml.Node) []Step {
	if list.Kind != yaml.SequenceNode {
		p.Wrong(list, "%s must be a list", path)
		return nil
	}
	steps := make([]Step, len(list.Content))
	for i, node := range list.Content {
		p.step(fmt.Sprintf("%s[%d]", path, i), node, &steps[i])
	}
	return steps
}

func (p *fileParser) step(path string, node *yaml.Node, s *Step) {
	p.Object(path, node, []frontmatter.Field{
		p.Text("id", &s.ID, named(stepID)), p.Text("type", &s.Type, frontmatter.OneOf(AgentStep, SwitchStep, EndStep)),
		p.Text("agent", &s.Agent, named(agentName)), p.next(&s.Next),
		p.expression("expression", &s.Expression, &s.value),
		{Name: "transitions", Read: func(path string, list *yaml.Node) { s.Transitions = p.transitions(path, list) }},
	})
	if s.ID == "" {
		p.Wrong(node, "%s has no id", path)
		return
	}
	if p.at[s.ID] != nil {
		p.Wrong(node, "the step %s is there twice", s.ID)
	}
	p.at[s.ID] = node
	for _, rule := range []struct {
		name         string
		there, wants bool
	}{
		{"agent", s.Agent != "", s.Type == AgentStep},
		{"expression", s.Expression != "", s.Type == SwitchStep},
		{"transitions", len(s.Transitions) > 0, s.Type == SwitchStep},
	} {
		if rule.wants && !rule.there {
			p.Wrong(node, "the step %s is of type %s and needs %s", s.ID, s.Type, rule.name)
		}
		if rule.there && !rule.wants {
			p.Wrong(node, "the step %s has %s, which is not for type %q", s.ID, rule.name, s.Type)
		}
	}
	if s.Type == "" {
		p.Wrong(node, "the step %s has no type; it must be agent, switch or end", s.ID)
	}
	if s.Next != "" && s.Type != AgentStep {
		p.Wrong(node, "the step %s has next, which is for type agent", s.ID)
	}
}

func (p *fileParser) transitions(path string, list *yaml.Node) []Transition {
	if list.Kind != yaml.SequenceNode {
		p.Wrong(list, "%s must be a list", path)
		return nil
	}
	all := make([]Transition, len(list.Content))
	for i, node := range list.Content {
		t, here := &all[i], fmt.Sprintf("%s[%d]", path, i)
		p.Object(here, node, []frontmatter.Field{p.expression("condition", &t.Condition, &t.when), p.next(&t.Next)})
		if t.Condition == "" || t.Next == "" {
			p.Wrong(node, "%s needs condition and next", here)
		}
	}
	return all
}

func (p *fileParser) next(to *string) frontmatter.Field {
	text := p.Text("next", to, named(stepID))
	return frontmatter.Field{Name: "next", Read: func(path string, node *yaml.Node) {
		text.Read(path, node)
		p.to = append(p.to, target{*to, node})
	}}
}

func (p *fileParser) expression(name string, to *string, compiled **expression) frontmatter.Field {
	text := p.Text(name, to, nil)
	return frontmatter.Field{Name: name, Read: func(path string, node *yaml.Node) {
		if text.Read(path, node); *to != "" {
			p.expressions = append(p.expressions, written{path, to, name == "condition", node, compiled})
		}
	}}
}

// compile checks the names in expressions as well: a wrong one would end a run that has
// worked for long.
func (p *fileParser) compile(w *Workflow) {
	steps := types.Map{}
	for _, s := range w.Steps {
		if s.Type == AgentStep {
			steps[s.ID] = types.Any
		}
	}
	for _, one := range p.expressions {
		names := types.Map{"userInput": types.String, "input": types.String, "steps": steps}
		known := "userInput and steps"
		if one.condition {
			names["value"], known = types.Any, "userInput, steps and value"
		}
		e, err := compile(*one.text, names)
		if err != nil {
			first, _, _ := strings.Cut(err.Error(), "\n")
			if strings.HasPrefix(first, "unknown ") {
				first += "; it may name " + known + `, steps["a-b"] is the agent's step a-b, and a text has quotes within those of YAML: '"done"'`
			}
			p.Wrong(one.node, "%s is no expression: %s", one.path, first)
			continue
		}
		*one.compiled = e
	}
}

// check looks at what steps say of each other.
func (p *fileParser) check(w *Workflow) {
	for _, t := range p.to {
		if t.id != "" && p.at[t.id] == nil {
			p.Wrong(t.node, "there is no step %s", t.id)
		}
	}
	for i := range w.Steps {
		s := &w.Steps[i]
		if s.Type != AgentStep || s.Next != "" {
			continue
		}
		if i+1 == len(w.Steps) {
			p.Wrong(p.at[s.ID], "no step follows %s: give it next, or add a step of type end", s.ID)
			continue
		}
		s.Next = w.Steps[i+1].ID
	}
}

// readsOutput reports whether a switch reads the output of a step.
func (w *Workflow) readsOutput(id string) bool {
	for _, s := range w.Steps {
		reads := s.value != nil && slices.Contains(s.value.outputs, id)
		for _, t := range s.Transitions {
			reads = reads || slices.Contains(t.when.outputs, id)
		}
		if reads {
			return true
		}
	}
	return false
}

func (w *Workflow) step(id string) *Step {
	for i := range w.Steps {
		if w.Steps[i].ID == id {
			return &w.Steps[i]
		}
	}
	return nil
}
