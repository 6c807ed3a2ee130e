// Package frontmatter reads prompt files in the dotprompt format and the sandbox
// block of their frontmatter, which says what sandbox an agent works in.
package frontmatter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Prompt is one prompt file.
type Prompt struct {
	Name        string // of metadata, or of the file
	Description string
	Model       string   // provider/model, as openai/gpt-4o
	Config      Config   // of the model
	Sandbox     *Sandbox // nil without a sandbox block
	Body        string   // the template
}

// Config is how a model answers. What is nil or zero the model decides.
type Config struct {
	MaxOutputTokens int // of one answer
	Temperature     *float64
	TopP            *float64
	StopSequences   []string
}

// Modes of a sandbox block.
const (
	Compute = "compute" // a fresh sandbox for each run of code
	Code    = "code"    // a sandbox that stays, with files, programs and a shell
)

// Sessions that mean more than a name.
const (
	SharedSession   = "default"  // that of the workflow's run
	IsolatedSession = "isolated" // of this run of the agent alone
)

// Sandbox is the sandbox block.
type Sandbox struct {
	Mode           string // Compute or Code
	Runtime        string // python, node or bash; empty is the default
	Image          string
	Session        string // SharedSession, IsolatedSession or a name
	Limits         Limits
	Network        bool // may reach the internet, if the API key may
	CommandSeconds int  // until a command is ended
	MaxStdoutBytes int  // of a command's output that the model reads
	PipPackages    []string
	NpmPackages    []string
}

// Limits bounds the sandbox. Zero leaves a limit to the daemon.
type Limits struct {
	CPUMillicores int
	MemoryMB      int
	IdleSeconds   int // without use, after which it ends
	WorkspaceMB   int
}

// Mistake is what is wrong at a line of a file.
type Mistake struct {
	File    string
	Line    int
	Message string
}

func (m *Mistake) Error() string { return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Message) }

// Load reads a prompt file.
func Load(name string) (*Prompt, error) {
	source, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the prompt: %w", err)
	}
	return Parse(name, string(source))
}

// Parse reads a prompt. All mistakes in its config and its sandbox block come at
// once, each as a *Mistake.
func Parse(file, source string) (*Prompt, error) {
	head, body, above, err := split(file, source)
	if err != nil {
		return nil, err
	}
	p := &Prompt{Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), Body: body}
	root, err := ParseYAML(file, head, above)
	if err != nil || root == nil {
		return p, err
	}
	// Other fields belong to dotprompt. What this package does not read it does not judge.
	var known struct {
		Model       string
		Name        string
		Description string
		Metadata    struct{ Name, Description string }
		Config      yaml.Node
		Sandbox     yaml.Node
	}
	if err := root.Decode(&known); err != nil {
		return nil, yamlMistake(file, err, above)
	}
	p.Name = firstOf(known.Metadata.Name, known.Name, p.Name)
	p.Description = firstOf(known.Metadata.Description, known.Description)
	p.Model = known.Model
	r := &Reader{File: file, Shift: above}
	if !known.Config.IsZero() && known.Config.Tag != "!!null" {
		p.Config = readConfig(r, &known.Config)
	}
	if !known.Sandbox.IsZero() {
		p.Sandbox = readSandbox(r, &known.Sandbox)
	}
	return p, r.Err()
}

// readConfig reads what dotprompt has for all models. Other fields belong to one
// model, and are not judged.
func readConfig(r *Reader, node *yaml.Node) Config {
	var c Config
	fields := []Field{
		r.Number("maxOutputTokens", &c.MaxOutputTokens, 1, maxAnswer),
		r.Real("temperature", &c.Temperature, 0, 2),
		r.Real("topP", &c.TopP, 0, 1),
		r.Texts("stopSequences", &c.StopSequences, nil),
	}
	node = dealias(node)
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		name := node.Content[i].Value
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name }) {
			fields = append(fields, Field{Name: name, Read: func(string, *yaml.Node) {}})
		}
	}
	r.Object("config", node, fields)
	return c
}

// split cuts the frontmatter off the body. Its end is a line of its own, so that a
// rule in the body or three dashes within a value end nothing. Empty lines and comments may
// come before it, as a licence. Above is the number of lines above the head.
func split(file, source string) (head, body string, above int, err error) {
	// Some editors begin files with a byte order mark; the block must not be lost by it.
	source = strings.ReplaceAll(strings.TrimPrefix(source, "\ufeff"), "\r\n", "\n")
	rest := source
	for found := false; !found; above++ {
		line, behind, more := strings.Cut(rest, "\n")
		line = strings.TrimRight(line, " \t")
		found = line == rule
		if !found && line != "" && line[0] != '#' || !more {
			return "", source, 0, nil
		}
		rest = behind
	}
	var lines strings.Builder
	for line := range strings.Lines(rest) {
		if strings.TrimRight(line, " \t\n") == rule {
			return lines.String(), rest[lines.Len()+len(line):], above, nil
		}
		lines.WriteString(line)
	}
	return "", "", 0, &Mistake{file, above, "the frontmatter has no end: put a line of three dashes behind it"}
}

// rule is the line before and behind a frontmatter.
const rule = "---"

// ParseYAML returns the mapping that a text is, or nil if it is empty. The text
// begins shift lines below the file's beginning.
func ParseYAML(file, text string, shift int) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, yamlMistake(file, err, shift)
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, &Mistake{file, root.Line + shift, "it must be a mapping of names to values"}
	}
	return root, nil
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlMistake takes the line out of an error of the YAML library.
func yamlMistake(file string, err error, shift int) error {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if found := yamlLine.FindStringSubmatch(text); found != nil {
		line, _ = strconv.Atoi(found[1])
		text = strings.Replace(text, found[0], "", 1)
	}
	return &Mistake{file, max(line, 1) + shift, "this is no YAML: " + strings.TrimSpace(strings.TrimPrefix(text, "unmarshal errors:"))}
}

// Reader reads YAML strictly and collects the mistakes.
type Reader struct {
	File  string
	Shift int // lines above the YAML
	found []error
}

// Err is all mistakes.
func (r *Reader) Err() error { return errors.Join(r.found...) }

// Wrong adds a mistake.
func (r *Reader) Wrong(at *yaml.Node, format string, args ...any) {
	r.found = append(r.found, &Mistake{r.File, at.Line + r.Shift, fmt.Sprintf(format, args...)})
}

// Field reads one value of an object.
type Field struct {
	Name    string
	Refused bool // Read only says why there is none: it is not offered
	Read    func(path string, value *yaml.Node)
}

// Object reads a mapping that has only these fields, each at most once. The fields
// are read in their own order.
func (r *Reader) Object(path string, node *yaml.Node, fields []Field) {
	node = dealias(node)
	if node.Kind != yaml.MappingNode {
		r.Wrong(node, "%s must be an object", orFile(path))
		return
	}
	var names []string
	values := map[string]*yaml.Node{}
	for _, f := range fields {
		if !f.Refused {
			names = append(names, f.Name)
		}
		values[f.Name] = nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		before, known := values[key.Value]
		switch {
		case !known:
			r.Wrong(key, "%s has no field %q; the fields are %s", orFile(path), key.Value, strings.Join(names, ", "))
		case before != nil:
			r.Wrong(key, "%s is there twice", join(path, key.Value))
		default:
			values[key.Value] = dealias(node.Content[i+1])
		}
	}
	for _, f := range fields {
		if value := values[f.Name]; value != nil {
			f.Read(join(path, f.Name), value)
		}
	}
}

// Text is a field with a text.
func (r *Reader) Text(name string, to *string, check func(string) string) Field {
	return Field{Name: name, Read: func(path string, value *yaml.Node) {
		if value.Kind != yaml.ScalarNode || value.Tag != "!!str" {
			r.Wrong(value, "%s must be text; put it in quotes", path)
			return
		}
		if check != nil {
			if problem := check(value.Value); problem != "" {
				r.Wrong(value, "%s is %q and must be %s", path, value.Value, problem)
				return
			}
		}
		*to = value.Value
	}}
}

// Number is a field with a whole number.
func (r *Reader) Number(name string, to *int, low, high int) Field {
	return Field{Name: name, Read: func(path string, value *yaml.Node) {
		number, err := strconv.Atoi(value.Value)
		if value.Kind != yaml.ScalarNode || value.Tag != "!!int" || err != nil || number < low || number > high {
			r.Wrong(value, "%s is %q and must be a whole number from %d to %d, without quotes or unit", path, value.Value, low, high)
			return
		}
		*to = number
	}}
}

// Real is a field with a number.
func (r *Reader) Real(name string, to **float64, low, high float64) Field {
	return Field{Name: name, Read: func(path string, value *yaml.Node) {
		number, err := strconv.ParseFloat(value.Value, 64)
		if value.Kind != yaml.ScalarNode || value.Tag != "!!int" && value.Tag != "!!float" || err != nil || !(number >= low && number <= high) {
			r.Wrong(value, "%s is %q and must be a number from %g to %g, without quotes", path, value.Value, low, high)
			return
		}
		*to = &number
	}}
}

// Flag is a field that is true or false.
func (r *Reader) Flag(name string, to *bool) Field {
	return Field{Name: name, Read: func(path string, value *yaml.Node) {
		if value.Kind != yaml.ScalarNode || value.Tag != "!!bool" || value.Decode(to) != nil {
			r.Wrong(value, "%s must be true or false, without quotes", path)
		}
	}}
}

// Texts is a field with a list of texts.
func (r *Reader) Texts(name string, to *[]string, check func(string) string) Field {
	return Field{Name: name, Read: func(path string, value *yaml.Node) {
		if value.Kind != yaml.SequenceNode {
			r.Wrong(value, "%s must be a list", path)
			return
		}
		for i, item := range value.Content {
			var text string
			r.Text("", &text, check).Read(fmt.Sprintf("%s[%d]", path, i), dealias(item))
			*to = append(*to, text)
		}
	}}
}

// OneOf checks that a text is one of some.
func OneOf(values ...string) func(string) string {
	return func(text string) string {
		for _, v := range values {
			if text == v {
				return ""
			}
		}
		return "one of " + strings.Join(values, ", ")
	}
}

func dealias(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func orFile(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
