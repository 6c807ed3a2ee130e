package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Kind is what a value is.
type Kind int

// The kinds.
const (
	Any Kind = iota
	Boolean
	Integer
	Number
	String
	Array
	Object
)

func (k Kind) duty() string {
	return [...]string{"be valid", "be true or false", "be an integer", "be a number", "be a string", "be a list", "be an object"}[k]
}

// maxFields of one object, one bit each.
const maxFields = 64

// Schema is what a value must be. A nil one is anything.
type Schema struct {
	Kind     Kind
	Nullable bool // null is a value of it, and does not stand for one that is left out

	Min, Max *float64 // of numbers
	Enum     []string // of strings
	Pattern  *regexp.Regexp
	Means    string // what the pattern stands for: an octal mode like 0644
	Base64   bool

	Least, Most *int // characters of strings, entries of arrays, properties of objects

	Items *Schema // of arrays

	Fields []Field // of objects, in the order in which errors name them; at most maxFields
	Closed bool    // there are no other fields
	Rest   *Schema // what others must be, if there are
}

// Field is a field of an object.
type Field struct {
	Name     string
	Required bool
	Schema   *Schema
}

// Problem is what is wrong with one field of a request.
type Problem struct {
	Field string // empty for the whole
	What  string // "must be a string", behind the field's name
}

// What may be wrong, where other dialects have words of their own for it.
const (
	Required  = "is required"
	NoBoolean = "must be true or false"
)

const wholeBody = "the request body"

// String is the problem as a sentence.
func (p Problem) String() string {
	if p.Field == "" {
		return wholeBody + " " + p.What
	}
	return p.Field + " " + p.What
}

// Error is the problem as an error.
func (p Problem) Error() error {
	field := p.Field
	if field == "" {
		field = wholeBody
	}
	return errdefs.Invalid(field, "%s", p.What)
}

func newProblem(field, duty string) Problem { return Problem{field, "must " + duty} }

// fieldIndex is the place of a field, or -1.
func (sc *Schema) fieldIndex(name []byte) int {
	if sc == nil {
		return -1
	}
	for i := range sc.Fields {
		if sc.Fields[i].Name == string(name) {
			return i
		}
	}
	return -1
}

// names are those of all fields, sorted.
func (sc *Schema) names() []string {
	names := make([]string, 0, len(sc.Fields))
	for _, field := range sc.Fields {
		names = append(names, field.Name)
	}
	slices.Sort(names)
	return names
}

// CheckText is what is wrong with a value that is a string.
func (sc *Schema) CheckText(field, text string) (problems []Problem) {
	return problemsOf(field, sc.checkText([]byte(text)))
}

// CheckNumber is what is wrong with a value that is a number.
func (sc *Schema) CheckNumber(field string, n float64) []Problem {
	return problemsOf(field, sc.checkNumber(n))
}

// CheckCount is what is wrong with a list of so many entries.
func (sc *Schema) CheckCount(field string, n int) []Problem {
	return problemsOf(field, sc.checkCount(n))
}

func problemsOf(field string, wrong []string) (problems []Problem) {
	for _, duty := range wrong {
		problems = append(problems, newProblem(field, duty))
	}
	return problems
}

func (sc *Schema) checkNumber(n float64) (wrong []string) {
	if sc.Kind == Integer && n != math.Trunc(n) {
		wrong = append(wrong, Integer.duty())
	}
	if sc.Min != nil && n < *sc.Min {
		wrong = append(wrong, "be at least "+decimal(*sc.Min))
	}
	if sc.Max != nil && n > *sc.Max {
		wrong = append(wrong, "be at most "+decimal(*sc.Max))
	}
	return wrong
}

// decimal writes a number as people do, large ones too.
func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

var base64Text = regexp.MustCompile(`^[a-zA-Z0-9+/_-]*=*$`)

func (sc *Schema) checkText(text []byte) (wrong []string) {
	if sc.Least != nil || sc.Most != nil {
		switch n := utf8.RuneCount(text); {
		case sc.Least != nil && n < *sc.Least:
			wrong = append(wrong, fmt.Sprintf("have a length of at least %d", *sc.Least))
		case sc.Most != nil && n > *sc.Most:
			wrong = append(wrong, fmt.Sprintf("have a length of at most %d", *sc.Most))
		}
	}
	if sc.Pattern != nil && !sc.Pattern.Match(text) {
		if sc.Means != "" {
			wrong = append(wrong, "be "+sc.Means)
		} else {
			wrong = append(wrong, "match pattern "+sc.Pattern.String())
		}
	}
	if sc.Base64 && !base64Text.Match(text) {
		wrong = append(wrong, "be base64 encoded")
	}
	if len(sc.Enum) > 0 && !slices.Contains(sc.Enum, string(text)) {
		wrong = append(wrong, `be one of "`+strings.Join(sc.Enum, ", ")+`"`)
	}
	return wrong
}

func (sc *Schema) checkCount(n int) (wrong []string) {
	least, most := "have at least this many entries: %d", "have at most this many entries: %d"
	if sc.Kind == Object {
		least, most = "have at least %d properties", "have at most %d properties"
	}
	if sc.Least != nil && n < *sc.Least {
		wrong = append(wrong, fmt.Sprintf(least, *sc.Least))
	}
	if sc.Most != nil && n > *sc.Most {
		wrong = append(wrong, fmt.Sprintf(most, *sc.Most))
	}
	return wrong
}

// ofTypes holds *Schema by reflect.Type: the types are those of the routes, so
// it stops growing soon.
var ofTypes sync.Map

// OfType knows the fields that a type has, and nothing of their values.
func OfType(t reflect.Type) *Schema {
	if known, ok := ofTypes.Load(t); ok {
		return known.(*Schema)
	}
	known := ofType(t)
	ofTypes.Store(t, known)
	return known
}

var (
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonType = reflect.TypeFor[json.Unmarshaler]()
)

func ofType(t reflect.Type) *Schema {
	switch t.Kind() {
	case reflect.Pointer:
		return ofType(t.Elem())
	case reflect.Slice:
		return &Schema{Items: ofType(t.Elem())}
	case reflect.Map:
		return &Schema{Kind: Object, Rest: ofType(t.Elem())}
	case reflect.Struct:
		if p := reflect.PointerTo(t); p.Implements(textType) || p.Implements(jsonType) {
			return nil
		}
		sc := &Schema{Kind: Object, Closed: true}
		var embedded []Field // behind the type's own
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				embedded = append(embedded, ofType(f.Type).Fields...)
			case f.IsExported() && name != "" && name != "-":
				sc.Fields = append(sc.Fields, Field{Name: name, Schema: ofType(f.Type)})
			}
		}
		sc.Fields = append(sc.Fields, embedded...)
		return sc
	}
	return nil
}
