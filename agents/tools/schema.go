package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Types of fields, as JSON schema names them.
const (
	typeString  = "string"
	typeInteger = "integer"
	typeBoolean = "boolean"
	typeStrings = "array"  // of strings
	typeMap     = "map"    // an object of strings, in the schema an object
	typeObject  = "object" // with fields of its own
)

// field is one property of a tool's input.
type field struct {
	name        string
	kind        string
	description string
	required    bool
	enum        []string
	minimum     *int64
	maximum     int64   // 0 is none
	fallback    any     // what an omitted field means, for the schema
	fields      []field // of an object
}

func need(name, kind, description string) field {
	return field{name: name, kind: kind, description: description, required: true}
}

func may(name, kind, description string) field {
	return field{name: name, kind: kind, description: description}
}

func (f field) between(low, high int64) field {
	f.minimum, f.maximum = &low, high
	return f
}

func (f field) or(fallback any) field {
	f.fallback = fallback
	return f
}

// property is a member of a JSON schema. The order of its fields is the order in
// which a model reads them.
type property struct {
	Type        string               `json:"type"`
	Description string               `json:"description,omitempty"`
	Enum        []string             `json:"enum,omitempty"`
	Minimum     *int64               `json:"minimum,omitempty"`
	Maximum     int64                `json:"maximum,omitempty"`
	Default     any                  `json:"default,omitempty"`
	Items       *property            `json:"items,omitempty"`
	Properties  map[string]*property `json:"properties,omitempty"`
	Required    []string             `json:"required,omitempty"`
	Additional  any                  `json:"additionalProperties,omitempty"`
}

func (f field) schema() *property {
	p := &property{Type: f.kind, Description: f.description, Enum: f.enum, Minimum: f.minimum, Maximum: f.maximum, Default: f.fallback}
	switch f.kind {
	case typeStrings:
		p.Items = &property{Type: typeString}
	case typeMap:
		p.Type, p.Additional = "object", &property{Type: typeString}
	case typeObject:
		inner := objectSchema(f.fields)
		p.Properties, p.Required = inner.Properties, inner.Required
	}
	return p
}

func objectSchema(fields []field) *property {
	p := &property{Type: "object", Properties: map[string]*property{}}
	for _, f := range fields {
		p.Properties[f.name] = f.schema()
		if f.required {
			p.Required = append(p.Required, f.name)
		}
	}
	return p
}

// InputError is a call that a tool cannot understand. Its text says what to send.
type InputError struct{ Message string }

func (e *InputError) Error() string { return e.Message }

func wrongInput(format string, args ...any) error {
	return &InputError{Message: fmt.Sprintf(format, args...)}
}

// decode checks the arguments of a call against the fields and returns them by
// name. No arguments, and null, are an empty object.
func decode(fields []field, args json.RawMessage) (map[string]any, error) {
	text := strings.TrimSpace(string(args))
	if text == "" || text == "null" {
		text = "{}"
	}
	if !utf8.ValidString(text) {
		return nil, wrongInput("the arguments must be UTF-8; send bytes that are no text as base64, where a tool takes it")
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, wrongInput("the arguments must be one JSON object; send %s, and less in one call if they were cut", example(fields))
	}
	return decodeFields(fields, raw, "")
}

func decodeFields(fields []field, raw map[string]json.RawMessage, prefix string) (map[string]any, error) {
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.name
	}
	for _, name := range sortedKeys(raw) {
		if hasHalfPair(raw[name]) {
			return nil, wrongInput("%s%s holds half of a surrogate pair, which is no character: leave it out, or send bytes as base64 where a tool takes it", prefix, name)
		}
		if !slices.Contains(known, name) {
			return nil, wrongInput("there is no field %s%s%s; the fields are %s", prefix, name, meant(name, known), strings.Join(known, ", "))
		}
	}
	values := map[string]any{}
	for _, f := range fields {
		text, there := raw[f.name]
		if !there || string(text) == "null" {
			if f.required {
				return nil, wrongInput("%s%s is required: send %s", prefix, f.name, example(fields))
			}
			continue
		}
		value, err := f.decode(text, prefix)
		if err != nil {
			return nil, err
		}
		values[f.name] = value
	}
	return values, nil
}

func (f field) decode(text json.RawMessage, prefix string) (any, error) {
	name := prefix + f.name
	switch f.kind {
	case typeString:
		return f.decodeString(text, name)
	case typeInteger:
		return f.decodeInteger(text, name)
	case typeBoolean:
		var value bool
		if json.Unmarshal(text, &value) != nil {
			return nil, wrongInput("%s must be true or false, without quotes", name)
		}
		return value, nil
	case typeStrings:
		value, ok := decodeTexts(text)
		if !ok {
			return nil, wrongInput(`%s must be an array of strings, such as ["python3", "main.py"]; a line for a shell is ["sh", "-c", "..."]`, name)
		}
		return value, nil
	case typeMap:
		value, ok := decodeMapping(text)
		if !ok {
			return nil, wrongInput(`%s must be an object whose values are strings, such as {"NAME": "value"}`, name)
		}
		return value, nil
	}
	var value map[string]json.RawMessage
	if json.Unmarshal(text, &value) != nil {
		return nil, wrongInput("%s must be an object, such as %s", name, example(f.fields))
	}
	return decodeFields(f.fields, value, name+".")
}

// hasHalfPair reports whether valid JSON has half of a surrogate pair, which encoding/json
// would replace with U+FFFD. The API refuses it, too.
func hasHalfPair(text []byte) bool {
	unit := func(at int) rune { // of the escape \uXXXX there, or 0
		if at+6 > len(text) || text[at] != '\\' || text[at+1] != 'u' {
			return 0
		}
		n, _ := strconv.ParseUint(string(text[at+2:at+6]), 16, 16) // valid JSON has four digits
		return rune(n)
	}
	for at := 0; at < len(text); at++ {
		if text[at] != '\\' {
			continue
		}
		if first := unit(at); utf16.IsSurrogate(first) {
			if utf16.DecodeRune(first, unit(at+6)) == utf8.RuneError {
				return true
			}
			at += 10 // the second one ends with the next step
		}
		at++ // what is escaped
	}
	return false
}

// decodeTexts reads an array of strings. A null in it is no string.
func decodeTexts(text json.RawMessage) ([]string, bool) {
	var all []*string
	if json.Unmarshal(text, &all) != nil || slices.Contains(all, nil) {
		return nil, false
	}
	values := make([]string, len(all))
	for i, value := range all {
		values[i] = *value
	}
	return values, true
}

// decodeMapping reads an object of strings. A null in it is no string.
func decodeMapping(text json.RawMessage) (map[string]string, bool) {
	var all map[string]*string
	if json.Unmarshal(text, &all) != nil {
		return nil, false
	}
	values := make(map[string]string, len(all))
	for name, value := range all {
		if value == nil {
			return nil, false
		}
		values[name] = *value
	}
	return values, true
}

func (f field) decodeString(text json.RawMessage, name string) (any, error) {
	var value string
	if json.Unmarshal(text, &value) != nil {
		return nil, wrongInput("%s must be a string in quotes", name)
	}
	if f.required && value == "" && f.name != "old" && f.name != "new" {
		return nil, wrongInput("%s must not be empty", name)
	}
	if strings.HasSuffix(f.name, "_id") && (strings.Contains(value, "/") || value == "." || value == "..") {
		return nil, wrongInput("%s is %.40q and must be one that a tool has returned", name, value)
	}
	if len(f.enum) > 0 && value != "" && !slices.Contains(f.enum, value) {
		return nil, wrongInput("%s is %q and must be one of %s", name, value, strings.Join(f.enum, ", "))
	}
	return value, nil
}

func (f field) decodeInteger(text json.RawMessage, name string) (any, error) {
	var number float64
	err := json.Unmarshal(text, &number)
	var wrongType *json.UnmarshalTypeError
	tooLarge := errors.As(err, &wrongType) && strings.HasPrefix(wrongType.Value, "number")
	if err != nil && !tooLarge || number != math.Trunc(number) {
		return nil, wrongInput("%s must be a whole number without quotes", name)
	}
	if tooLarge || number < float64(*f.minimum) || number > float64(f.maximum) {
		return nil, wrongInput("%s is %.20s and must be between %d and %d", name, text, *f.minimum, f.maximum)
	}
	return int64(number), nil
}

// example is an input with all required fields.
func example(fields []field) string {
	var parts []string
	for _, f := range fields {
		if !f.required {
			continue
		}
		value := `"..."`
		switch f.kind {
		case typeInteger:
			value = "1"
		case typeStrings:
			value = `["..."]`
		}
		parts = append(parts, fmt.Sprintf("%q: %s", f.name, value))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// meant names the field that a wrong name may stand for.
func meant(name string, known []string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	for _, k := range known {
		a, b := plain(name), plain(k)
		if a == b || len(a) >= 3 && (strings.HasPrefix(b, a) || strings.HasPrefix(a, b)) {
			return " (did you mean " + k + "?)"
		}
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
