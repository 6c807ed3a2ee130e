package v1_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// schema is any object of an OpenAPI document.
type schema = map[string]any

// TestNothingThatClientsUseIsTaken compares the document with that of the last
// release. With a release, testdata/released.json becomes a copy of openapi.json.
func TestNothingThatClientsUseIsTaken(t *testing.T) {
	released, now := readDocument(t, "testdata/released.json"), readDocument(t, "openapi.json")
	for _, change := range breaks(released, now) {
		t.Errorf("%s: clients of the last release would break; add beside it instead", change)
	}
}

func readDocument(t *testing.T, name string) schema {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var doc schema
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// breaks tells what clients of the old document may not do with the new one.
func breaks(old, now schema) []string {
	c := comparison{old: old, now: now, seen: make(map[[2]string]bool)}
	for _, path := range slices.Sorted(maps.Keys(at(old, "paths"))) {
		for _, method := range slices.Sorted(maps.Keys(at(old, "paths", path))) {
			where := method + " " + path
			op := at(now, "paths", path, method)
			if op == nil {
				c.tell(where, "is gone")
				continue
			}
			c.operation(where, at(old, "paths", path, method), op)
		}
	}
	return c.found
}

type comparison struct {
	old, now schema
	seen     map[[2]string]bool // references compared, with the direction
	found    []string
}

func (c *comparison) tell(where, format string, args ...any) {
	c.found = append(c.found, where+" "+fmt.Sprintf(format, args...))
}

func (c *comparison) operation(where string, old, now schema) {
	c.parameters(where, old, now)
	if body := at(now, "requestBody"); at(old, "requestBody") == nil && body["required"] == true {
		c.tell(where, "needs a body")
	}
	c.content(where+" request", at(old, "requestBody"), at(now, "requestBody"), true)
	for status, response := range at(old, "responses") {
		if at(now, "responses", status) == nil {
			c.tell(where, "does not answer %s", status)
		}
		c.content(where+" "+status, response.(schema), at(now, "responses", status), false)
	}
}

func (c *comparison) parameters(where string, old, now schema) {
	before, after := parameters(old), parameters(now)
	for key, parameter := range before {
		if after[key] == nil {
			c.tell(where, "has no parameter %s", key)
			continue
		}
		c.schema(where+" "+key, at(parameter, "schema"), at(after[key], "schema"), true)
	}
	for key, parameter := range after {
		if parameter["required"] == true && before[key]["required"] != true {
			c.tell(where, "needs parameter %s", key)
		}
	}
}

func parameters(op schema) map[string]schema {
	found := make(map[string]schema)
	list, _ := op["parameters"].([]any)
	for _, parameter := range list {
		p := parameter.(schema)
		found[fmt.Sprintf("%s %s", p["in"], p["name"])] = p
	}
	return found
}

func (c *comparison) content(where string, old, now schema, request bool) {
	for media, body := range at(old, "content") {
		other := at(now, "content", media)
		if other == nil {
			c.tell(where, "has no %s", media)
			continue
		}
		c.schema(where, at(body.(schema), "schema"), at(other, "schema"), request)
	}
}

// schema compares what is sent (request) or got. A reference is compared once
// for each direction.
func (c *comparison) schema(where string, old, now schema, request bool) {
	if ref, ok := old["$ref"].(string); ok {
		key := [2]string{ref, fmt.Sprint(now["$ref"], request)}
		if c.seen[key] {
			return
		}
		c.seen[key] = true
		where = fmt.Sprintf("%s (in %s)", ref[strings.LastIndexByte(ref, '/')+1:], where)
	}
	old, now = resolve(c.old, old), resolve(c.now, now)
	if old == nil {
		return
	}
	was, is := fmt.Sprint(old["type"]), fmt.Sprint(now["type"])
	neverTaken := request && was == "["+is+" null]" // the daemon has refused null always
	if was != is && !neverTaken {
		c.tell(where, "is %v instead of %v", now["type"], old["type"])
	}
	c.values(where, old, now, request)
	for name, property := range at(old, "properties") {
		if at(now, "properties", name) == nil {
			c.tell(where, "has no field %s", name)
			continue
		}
		c.schema(where+"."+name, property.(schema), at(now, "properties", name), request)
	}
	before, after := words(old["required"]), words(now["required"])
	if !request {
		before, after = after, before
	}
	for _, name := range after {
		if !slices.Contains(before, name) && request {
			c.tell(where, "needs the field %s", name)
		} else if !slices.Contains(before, name) && at(now, "properties", name) != nil {
			c.tell(where, "may have no field %s", name)
		}
	}
	if items := at(old, "items"); items != nil {
		c.schema(where+"[]", items, at(now, "items"), request)
	}
}

// values compares which values of a schema are allowed. New ones in an answer
// are no surprise: clients are told to expect them.
func (c *comparison) values(where string, old, now schema, request bool) {
	before, after := words(old["enum"]), words(now["enum"])
	for _, value := range before {
		if len(after) > 0 && !slices.Contains(after, value) {
			c.tell(where, "has no value %s", value)
		}
	}
	if !request {
		return
	}
	if len(before) == 0 && len(after) > 0 {
		c.tell(where, "takes nothing but %v", after)
	}
	for limit, sign := range map[string]float64{
		"maximum": 1, "maxLength": 1, "maxItems": 1, "maxProperties": 1,
		"minimum": -1, "minLength": -1, "minItems": -1,
	} {
		was, limited := old[limit].(float64)
		is, stays := now[limit].(float64)
		if stays && (!limited || sign*is < sign*was) {
			c.tell(where, "has the narrower %s %v", limit, is)
		}
	}
	if pattern := now["pattern"]; pattern != nil && pattern != old["pattern"] && !slices.Contains(alwaysHeld, fmt.Sprint(pattern)) {
		c.tell(where, "must match %v", pattern)
	}
}

// alwaysHeld are patterns of strings that the daemon checked before the document
// had them: TestSchemasForbidWhatIsRefused sends what they forbid.
var alwaysHeld = []string{
	`^[^\x00]*$`, `^(/|[^\x00]*[^\x00/])$`, `^([A-Za-z0-9_-]|\.[A-Za-z0-9_-]|\.\.[A-Za-z0-9._-])[A-Za-z0-9._-]*$`, `^[A-Za-z0-9._-]*$`,
	`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$`, `^([A-Za-z0-9._-]{1,64}(:[A-Za-z0-9._-]{1,64})?)?$`,
	`^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`,
}

func at(object schema, path ...string) schema {
	for _, name := range path {
		object, _ = object[name].(schema)
	}
	return object
}

func resolve(doc, s schema) schema {
	if ref, ok := s["$ref"].(string); ok {
		return at(doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return s
}

func words(list any) []string {
	values, _ := list.([]any)
	var found []string
	for _, value := range values {
		found = append(found, fmt.Sprint(value))
	}
	return found
}

// TestBreaks changes a small document in each way that matters.
func TestBreaks(t *testing.T) {
	const doc = `{"paths": {"/a": {"post": {
		"parameters": [{"in": "query", "name": "q", "schema": {"type": "string", "maxLength": 9}}],
		"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Ask"}}}},
		"responses": {"200": {"content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Tell"}}}}}, "404": {}}
	}}}, "components": {"schemas": {
		"Ask": {"type": "object", "properties": {"kind": {"type": "string", "enum": ["x", "y"]}, "n": {"type": "integer", "maximum": 10}}},
		"Tell": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "more": {"type": "string"}}}
	}}}`
	tests := []struct {
		name, from, to string
		want           string
	}{
		{"nothing", "", "", ""},
		{"a path is gone", `"/a"`, `"/b"`, "post /a is gone"},
		{"a method is gone", `"post"`, `"put"`, "post /a is gone"},
		{"a parameter is gone", `"name": "q"`, `"name": "r"`, "post /a has no parameter query q"},
		{"a parameter is needed", `"name": "q",`, `"name": "q", "required": true,`, "post /a needs parameter query q"},
		{"a parameter is shorter", `"maxLength": 9`, `"maxLength": 8`, "post /a query q has the narrower maxLength 8"},
		{"an answer is gone", `"404"`, `"410"`, "post /a does not answer 404"},
		{"a field of a request is gone", `"n":`, `"m":`, "Ask (in post /a request) has no field n"},
		{"a field of a request is needed", `"properties": {"kind"`, `"required": ["n"], "properties": {"kind"`, "Ask (in post /a request) needs the field n"},
		{"a value of a request is gone", `["x", "y"]`, `["x"]`, "Ask (in post /a request).kind has no value y"},
		{"a limit is lower", `"maximum": 10`, `"maximum": 9`, "Ask (in post /a request).n has the narrower maximum 9"},
		{"a limit is new", `"type": "integer",`, `"type": "integer", "minimum": 1,`, "Ask (in post /a request).n has the narrower minimum 1"},
		{"a field of an answer is gone", `"more":`, `"less":`, "Tell (in post /a 200[]) has no field more"},
		{"a field of an answer may be missing", `"required": ["id"],`, ``, "Tell (in post /a 200[]) may have no field id"},
		{"a type is another", `"id": {"type": "string"}`, `"id": {"type": "integer"}`, "Tell (in post /a 200[]).id is integer instead of string"},
		{"a value of a request is new", `["x", "y"]`, `["x", "y", "z"]`, ""},
		{"a limit is higher", `"maximum": 10`, `"maximum": 11`, ""},
		{"a field of a request is new", `"n":`, `"m": {"type": "string"}, "n":`, ""},
		{"a field of an answer is new and always there", `["id"], "properties": {`, `["id", "x"], "properties": {"x": {"type": "string"},`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(doc, tt.from) {
				t.Fatalf("the document has no %s", tt.from)
			}
			var old, now schema
			if err := json.Unmarshal([]byte(doc), &old); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(strings.Replace(doc, tt.from, tt.to, 1)), &now); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(breaks(old, now), "; "); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}
