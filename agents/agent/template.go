package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/dotprompt/go/dotprompt"
	"github.com/mbleigh/raymond"
	"github.com/mbleigh/raymond/ast"
	"github.com/mbleigh/raymond/parser"

	"github.com/sandkasten/sandkasten/agents/model"
)

// Errors of templates.
var (
	errMedia = errors.New("the prompt has media or a section; only text is supported")
	errRole  = errors.New(`a role must be "system", "user" or "model", and be written in the template`)
)

// roleOf are the roles that a template may name. What a model is said to have answered is an
// example, which must not be taken for an answer.
var roleOf = map[string]string{
	string(dotprompt.RoleSystem): model.System,
	string(dotprompt.RoleUser):   model.User,
	string(dotprompt.RoleModel):  model.User,
}

// Render fills a template in the dotprompt format. What comes before its first role
// is the system's. Messages begin where the template names a role, and nowhere else: the
// library's own marks are fixed texts, which values could spell, one alone or several side
// by side. Here a mark is made for each call, and no value can have it.
func Render(body string, input map[string]any) ([]model.Message, error) {
	mark := rand.Text()
	text, err := fill(body, mark, input)
	if err != nil {
		return nil, fmt.Errorf("fill the prompt's template: %w", err)
	}
	var messages []model.Message
	role := model.System
	for i, piece := range strings.Split(text, mark) { // a text, a role, a text, and so on
		if i%2 == 1 {
			role = roleOf[piece]
			continue
		}
		if content := strings.TrimSpace(piece); content != "" {
			messages = append(messages, model.Message{Role: role, Text: content})
		}
	}
	if len(messages) == 0 {
		return nil, errors.New("the prompt is empty")
	}
	if messages[len(messages)-1].Role == model.System {
		messages = append(messages, model.Message{Role: model.User, Text: "Begin."})
	}
	return messages, nil
}

// fill has the template library fill a template, with a role between two marks wherever one begins.
// The library's helpers panic at values that they do not expect.
func fill(body, mark string, input map[string]any) (text string, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v", problem)
		}
	}()
	program, err := parser.Parse(body)
	if err != nil {
		return "", err
	}
	if !rolesAreWritten(program) {
		return "", errRole
	}
	template, err := raymond.Parse(body)
	if err != nil {
		return "", err
	}
	begin := func(role string) raymond.SafeString { return raymond.SafeString(mark + role + mark) }
	template.RegisterHelpers(map[string]any{
		"json":         dotprompt.JSON,
		"ifEquals":     dotprompt.IfEquals,
		"unlessEquals": dotprompt.UnlessEquals,
		"role":         begin,
		"history":      func() raymond.SafeString { return begin(string(dotprompt.RoleModel)) }, // there is none
		"media":        func(*raymond.Options) raymond.SafeString { panic(errMedia) },
		"section":      func(string) raymond.SafeString { panic(errMedia) },
	})
	values := make(map[string]any, len(input))
	for name, value := range input {
		values[name] = templateValue(value)
	}
	return template.ExecWith(values, raymond.NewDataFrame(), &raymond.ExecOptions{NoEscape: true})
}

// rolesAreWritten reports whether all roles in a part of a template are texts of the template's own. A
// value that is a role's name would choose the role.
func rolesAreWritten(nodes ...ast.Node) bool {
	for _, node := range nodes {
		if !roleIsWritten(node) || !rolesAreWritten(partsOf(node)...) {
			return false
		}
	}
	return true
}

func roleIsWritten(node ast.Node) bool {
	call, ok := node.(*ast.Expression)
	if !ok || call.HelperName() != "role" {
		return true
	}
	if len(call.Params) != 1 {
		return false
	}
	name, ok := call.Params[0].(*ast.StringLiteral)
	return ok && roleOf[name.Value] != ""
}

// partsOf are the parts of a part of a template.
func partsOf(node ast.Node) []ast.Node {
	var parts []ast.Node
	add := func(params []ast.Node, hash *ast.Hash) {
		parts = append(parts, params...)
		if hash == nil {
			return
		}
		for _, pair := range hash.Pairs {
			parts = append(parts, pair.Val)
		}
	}
	switch n := node.(type) {
	case *ast.Program:
		parts = n.Body
	case *ast.MustacheStatement:
		parts = append(parts, n.Expression)
	case *ast.BlockStatement:
		parts = append(parts, n.Expression)
		for _, program := range []*ast.Program{n.Program, n.Inverse} {
			if program != nil {
				parts = append(parts, program)
			}
		}
	case *ast.PartialStatement:
		parts = append(parts, n.Name)
		add(n.Params, n.Hash)
	case *ast.SubExpression:
		parts = append(parts, n.Expression)
	case *ast.Expression:
		add(n.Params, n.Hash)
	}
	return parts
}

// largestWhole is up to where all whole numbers of JSON are exact.
const largestWhole = 1 << 53

// templateValue is a value with whole numbers as templates write them, so that both are equal.
func templateValue(value any) any {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= largestWhole {
			return int(v)
		}
	case []any:
		list := make([]any, len(v))
		for i, one := range v {
			list[i] = templateValue(one)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, one := range v {
			object[name] = templateValue(one)
		}
		return object
	}
	return value
}
