package kit

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api/strictjson"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// place is where a parameter stands in a request.
type place int

const (
	inPath place = iota
	inQuery
	inHeader
)

// param is one field of an input that is not its body.
type param struct {
	in       place
	name     string
	index    []int
	kind     reflect.Kind
	required bool
	standard string // what it is if it is not sent
	schema   *strictjson.Schema
}

// paramsOf finds the parameters of an input and of what is embedded in it.
func paramsOf(d *documenter, pattern string, t reflect.Type, at []int) (params []param) {
	for f := range t.Fields() {
		index := append(append([]int{}, at...), f.Index...)
		if f.Anonymous && f.IsExported() && f.Type.Kind() == reflect.Struct {
			params = append(params, paramsOf(d, pattern, f.Type, index)...)
			continue
		}
		p := param{index: index, kind: f.Type.Kind(), standard: f.Tag.Get("default"), required: f.Tag.Get("required") == "true"}
		for i, tag := range []string{"path", "query", "header"} {
			if value := f.Tag.Get(tag); value != "" {
				p.in = place(i)
				p.name, _, _ = strings.Cut(value, ",")
			}
		}
		if p.name == "" {
			continue
		}
		p.required = p.required || p.in == inPath
		p.schema = d.compile(pattern, huma.SchemaFromField(d.schemas(), f, ""), nil)
		if p.kind == reflect.Slice && f.Type.Elem().Kind() != reflect.String {
			panic(fmt.Sprintf("kit: %s: parameter %s is of type %s", pattern, p.name, f.Type))
		}
		params = append(params, p)
	}
	return params
}

// set sets the field to what the request says, and returns what is wrong with it.
func (p *param) set(r *http.Request, query map[string][]string, fields reflect.Value) []strictjson.Problem {
	text := p.standard
	switch sent := p.sent(r, query); {
	case sent != "":
		text = sent
	case text == "" && p.required && !protection.Off(protection.RequestSchema):
		return []strictjson.Problem{{Field: p.name, What: strictjson.Required}}
	case text == "":
		return nil
	}
	problems := p.parse(fields.FieldByIndex(p.index), text, query[p.name])
	if protection.Off(protection.RequestSchema) {
		return nil
	}
	return problems
}

func (p *param) sent(r *http.Request, query map[string][]string) string {
	switch p.in {
	case inPath:
		return r.PathValue(p.name)
	case inHeader:
		return r.Header.Get(p.name)
	case inQuery:
		if values := query[p.name]; len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

// parse sets field to text, or to all values of a list.
func (p *param) parse(field reflect.Value, text string, all []string) []strictjson.Problem {
	wrong := func(what string) []strictjson.Problem {
		return []strictjson.Problem{{Field: p.name, What: what}}
	}
	switch p.kind {
	case reflect.String:
		field.SetString(text)
		return p.schema.CheckText(p.name, text)
	case reflect.Bool:
		value, err := strconv.ParseBool(text)
		if err != nil {
			return wrong(strictjson.NoBoolean)
		}
		field.SetBool(value)
	case reflect.Int, reflect.Int64:
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return wrong("must be an integer")
		}
		field.SetInt(value)
		return p.schema.CheckNumber(p.name, float64(value))
	case reflect.Uint16:
		value, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return wrong("must be an integer")
		}
		field.SetUint(value)
		return p.schema.CheckNumber(p.name, float64(value))
	case reflect.Slice: // of strings, each sent by itself
		field.Set(reflect.ValueOf(all))
		return p.schema.CheckCount(p.name, len(all))
	default:
		panic("kit: parameter " + p.name + " is of kind " + p.kind.String())
	}
	return nil
}
