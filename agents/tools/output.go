package tools

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// shape is a JSON schema of an answer. Its types are those of the Go values that are
// encoded, so that it cannot say anything else than they do.
type shape struct {
	Type       any               `json:"type,omitempty"` // a name, or several; none is any value
	Items      *shape            `json:"items,omitempty"`
	Properties map[string]*shape `json:"properties,omitempty"`
	Values     *shape            `json:"additionalProperties,omitempty"`
	Required   []string          `json:"required,omitempty"`
	AnyOf      []needed          `json:"anyOf,omitempty"`
}

// needed is the part of a schema that names the properties of one kind of answer.
type needed struct {
	Required []string `json:"required"`
}

// answerSchema is the schema of a tool's answers. Clients hold errors to it, too: these
// have the properties of an error and none of the tool's.
func answerSchema(answer any) *shape {
	s, refusal := shapeOf(reflect.TypeOf(answer)), shapeOf(reflect.TypeFor[failed]())
	for name, property := range refusal.Properties {
		if s.Properties[name] == nil {
			s.Properties[name] = property
		}
	}
	s.AnyOf = []needed{{s.Required}, {refusal.Required}}
	s.Required = nil
	return s
}

func shapeOf(t reflect.Type) *shape {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &shape{Type: "string"}
	case t == reflect.TypeFor[json.RawMessage]():
		return &shape{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shapeOf(t.Elem())
	case reflect.String:
		return &shape{Type: "string"}
	case reflect.Bool:
		return &shape{Type: "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &shape{Type: "integer"}
	case reflect.Float32, reflect.Float64:
		return &shape{Type: "number"}
	case reflect.Slice:
		return &shape{Type: []string{"array", "null"}, Items: shapeOf(t.Elem())}
	case reflect.Map:
		return &shape{Type: []string{"object", "null"}, Values: shapeOf(t.Elem())}
	case reflect.Struct:
		s := &shape{Type: "object", Properties: map[string]*shape{}, Required: []string{}}
		s.addFields(t)
		slices.Sort(s.Required)
		return s
	}
	return &shape{} // of an interface: any value
}

func (s *shape) addFields(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.addFields(f.Type)
		case !f.IsExported() || name == "-":
		default:
			name = orElse(name, f.Name)
			s.Properties[name] = shapeOf(f.Type)
			if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
				s.Required = append(s.Required, name)
			}
		}
	}
}
