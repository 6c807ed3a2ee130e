package workflow

import (
	"encoding/json"
	"fmt"
	"reflect"
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
	constant bool // it is a literal
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
	return &expression{program: program, constant: isLiteral(tree.Node)}, nil
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
	value, err := expr.Run(s.value.program, env)
	if err != nil {
		return "", fmt.Errorf("evaluate %s: %w", s.Expression, err)
	}
	with := map[string]any{"value": value}
	for name, v := range env {
		with[name] = v
	}
	var conditions []string
	for _, t := range s.Transitions {
		got, err := expr.Run(t.when.program, with)
		if err != nil {
			return "", fmt.Errorf("evaluate %s: %w", t.Condition, err)
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
