// Package openapitest holds answers of a server against its OpenAPI document, and
// draws requests from one: such as the document allows, and such as it does not.
package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// object is a JSON object.
type object = map[string]any

// Document is an OpenAPI document.
type Document struct {
	Operations []*Operation // by path and method

	raw     object
	schemas *jsonschema.Compiler
}

// Operation is a method of a path.
type Operation struct {
	Method string
	Path   string // with its variables in braces

	place     string // in the document, a JSON pointer
	raw       object
	responses map[int]response
}

// response is what an operation may answer with one status.
type response struct {
	content map[string]*jsonschema.Schema // by media type
}

const resource = "openapi.json"

// Parse reads a document, and fails if one of its schemas is none.
func Parse(text []byte) (*Document, error) {
	raw, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	d := &Document{raw: raw.(object), schemas: jsonschema.NewCompiler()}
	d.schemas.DefaultDraft(jsonschema.Draft2020)
	d.schemas.AssertFormat()
	if err := d.schemas.AddResource(resource, raw); err != nil {
		return nil, err
	}
	paths, _ := d.raw["paths"].(object)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		methods := paths[path].(object)
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			op := &Operation{Method: strings.ToUpper(method), Path: path, place: pointer("paths", path, method), raw: methods[method].(object)}
			if op.responses, err = d.responses(op); err != nil {
				return nil, fmt.Errorf("%s %s: %w", op.Method, path, err)
			}
			d.Operations = append(d.Operations, op)
		}
	}
	return d, nil
}

// pointer is the place of a value.
func pointer(keys ...string) string {
	var b strings.Builder
	for _, key := range keys {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return b.String()
}

func (d *Document) responses(op *Operation) (map[int]response, error) {
	all := map[int]response{}
	listed, _ := op.raw["responses"].(object)
	for code, value := range listed {
		status, err := strconv.Atoi(code)
		if err != nil {
			return nil, err
		}
		place, raw := op.place+pointer("responses", code), value.(object)
		if ref, ok := raw["$ref"].(string); ok {
			place = strings.TrimPrefix(ref, "#")
			raw = d.resolve(raw)
		}
		r := response{content: map[string]*jsonschema.Schema{}}
		content, _ := raw["content"].(object)
		for media, form := range content {
			r.content[media] = nil
			if form.(object)["schema"] == nil {
				continue
			}
			if r.content[media], err = d.schemas.Compile(resource + "#" + url.PathEscape(place+pointer("content", media, "schema"))); err != nil {
				return nil, err
			}
		}
		all[status] = r
	}
	return all, nil
}

// resolve follows the reference that raw is, if it is one.
func (d *Document) resolve(raw object) object {
	ref, ok := raw["$ref"].(string)
	if !ok {
		return raw
	}
	found := d.raw
	for _, key := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		found, _ = found[key].(object)
	}
	return d.resolve(found)
}

// Find returns the operation of a request, or nil. The slash at the end of a path of
// the document may be left out.
func (d *Document) Find(method, path string) *Operation {
	for _, op := range d.Operations {
		want, asked := op.Path, path
		if strings.HasSuffix(want, "/") {
			want, asked = strings.TrimSuffix(want, "/"), strings.TrimSuffix(asked, "/")
		}
		if op.Method == method && matches(strings.Split(want, "/"), strings.Split(asked, "/")) {
			return op
		}
	}
	return nil
}

func matches(pattern, parts []string) bool {
	return slices.EqualFunc(pattern, parts, func(want, part string) bool {
		return want == part || strings.HasPrefix(want, "{") && part != ""
	})
}

// Check returns how an answer differs from what the document says.
func (op *Operation) Check(status int, header http.Header, body []byte) error {
	r, ok := op.responses[status]
	if !ok {
		return fmt.Errorf("status %d is not in the document", status)
	}
	if len(r.content) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("status %d has a body, which is not in the document: %.200q", status, body)
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("status %d: Content-Type %q: %w", status, header.Get("Content-Type"), err)
	}
	schema, ok := r.content[media]
	_, anything := r.content["*/*"]
	if !ok && !anything {
		return fmt.Errorf("status %d: %s is not in the document", status, media)
	}
	if schema == nil || media != "application/json" {
		return nil
	}
	if !json.Valid(body) {
		return fmt.Errorf("status %d: no JSON: %.200q", status, body)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("status %d: %w in %.500s", status, err, body)
	}
	return nil
}
