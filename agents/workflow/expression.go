package workflow

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// expression is a text in the language of expr-lang.
type expression struct {
	program  *vm.Program
	constant bool     // it is a literal
	outputs  []string // steps whose output it reads
}

// compile reads an expression that may name these things.
func compile(text string, names types.Map) (*expression, error) {
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, err
	}
	program, err := expr.Compile(text, expr.Env(names))
	if err != nil {
		return nil, err
	}
	read := outputReader{}
	ast.Walk(&tree.Node, &read)
	return &expression{program: program, constant: isLiteral(tree.Node), outputs: read.steps}, nil
}

// outputReader finds the steps of which an expression reads steps.ID.output.
type outputReader struct{ steps []string }

// Visit implements ast.Visitor.
func (r *outputReader) Visit(node *ast.Node) {
	output, ok := memberOf(*node, "output")
	if !ok {
		return
	}
	step, ok := output.(*ast.MemberNode)
	if !ok {
		return
	}
	root, isName := step.Node.(*ast.IdentifierNode)
	id, isText := step.Property.(*ast.StringNode)
	if isName && isText && root.Value == "steps" {
		r.steps = append(r.steps, id.Value)
	}
}

// memberOf is what a node reads that member of.
func memberOf(node ast.Node, name string) (of ast.Node, ok bool) {
	member, ok := node.(*ast.MemberNode)
	if !ok {
		return nil, false
	}
	property, ok := member.Property.(*ast.StringNode)
	return member.Node, ok && property.Value == name
}

// evaluate runs the expression, whose value may come of other steps as well. Its errors name
// the step that has no output.
func (e *expression) evaluate(text string, env map[string]any, others ...string) (any, error) {
	value, err := expr.Run(e.program, env)
	if err == nil {
		return value, nil
	}
	for _, id := range slices.Concat(e.outputs, others) {
		if why := withoutOutput(id, env); why != "" {
			return nil, fmt.Errorf("evaluate %s: %s; steps.%s.output?.NAME is nil there and no error", text, why, id)
		}
	}
	return nil, fmt.Errorf("evaluate %s: %w", text, err)
}

// shownWords bounds what an error says of an agent's last words.
const shownWords = 200

// withoutOutput says why a step has no output, or is empty if it has one.
func withoutOutput(id string, env map[string]any) string {
	steps, _ := env["steps"].(map[string]any)
	one, _ := steps[id].(map[string]any)
	switch text, _ := one["text"].(string); {
	case one["output"] != nil:
		return ""
	case one["visits"] == 0:
		return fmt.Sprintf("step %s has not run yet", id)
	case len(text) > shownWords:
		return fmt.Sprintf("step %s said no JSON object; its last words end with %q", id, strings.ToValidUTF8(text[len(text)-shownWords:], ""))
	default:
		return fmt.Sprintf("step %s said no JSON object; its last words were %q", id, text)
	}
}

func isLiteral(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.StringNode, *ast.NilNode:
		return true
	case *ast.UnaryNode: // a negative number
		return (n.Operator == "-" || n.Operator == "+") && isLiteral(n.Node)
	}
	return false
}

// choose returns the step where a switch goes on. A condition that is a literal is
// met by its own value; another one, in which value is that of the switch, by true.
func (s *Step) choose(env map[string]any) (string, error) {
	value, err := s.value.evaluate(s.Expression, env)
	if err != nil {
		return "", err
	}
	with := map[string]any{"value": value}
	for name, v := range env {
		with[name] = v
	}
	var conditions []string
	for _, t := range s.Transitions {
		got, err := t.when.evaluate(t.Condition, with, s.value.outputs...)
		if err != nil {
			return "", err
		}
		if t.when.constant && equal(got, value) || !t.when.constant && got == true {
			return t.Next, nil
		}
		conditions = append(conditions, t.Condition)
	}
	// In JSON the text "true" is told from true, and a missing field is null.
	shown, err := json.Marshal(value)
	if err != nil {
		shown = fmt.Append(nil, value)
	}
	return "", fmt.Errorf("%s is %s, which no transition is for; the conditions are %s", s.Expression, shown, strings.Join(conditions, ", "))
}

// equal compares numbers by value: those of JSON are all fractions.
func equal(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.IsValid() && y.IsValid() && x.CanConvert(number) && y.CanConvert(number) {
		return x.Convert(number).Float() == y.Convert(number).Float()
	}
	return reflect.DeepEqual(a, b)
}

var number = reflect.TypeFor[float64]()
