package strictjson_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api/strictjson"
)

func ptr[T any](v T) *T { return &v }

// shape is an object with one field of each kind.
var shape = &strictjson.Schema{Kind: strictjson.Object, Closed: true, Fields: []strictjson.Field{
	{Name: "name", Required: true, Schema: &strictjson.Schema{Kind: strictjson.String, Least: ptr(2), Most: ptr(4)}},
	{Name: "mode", Schema: &strictjson.Schema{Kind: strictjson.String, Pattern: regexp.MustCompile(`^[0-7]+$`), Means: "an octal mode"}},
	{Name: "kind", Schema: &strictjson.Schema{Kind: strictjson.String, Enum: []string{"a", "b"}}},
	{Name: "data", Schema: &strictjson.Schema{Kind: strictjson.String, Base64: true}},
	{Name: "count", Schema: &strictjson.Schema{Kind: strictjson.Integer, Min: ptr(1.0), Max: ptr(31536000.0)}},
	{Name: "on", Schema: &strictjson.Schema{Kind: strictjson.Boolean}},
	{Name: "list", Schema: &strictjson.Schema{Kind: strictjson.Array, Least: ptr(1), Most: ptr(2), Items: &strictjson.Schema{Kind: strictjson.Number}}},
	{Name: "env", Schema: &strictjson.Schema{Kind: strictjson.Object, Most: ptr(2), Rest: &strictjson.Schema{Kind: strictjson.String}}},
	{Name: "any"},
}}

func TestSchema(t *testing.T) {
	for _, tt := range []struct{ name, in, problems string }{
		{"good", `{"any":[{"x":1}],"env":{"A":"1"},"list":[1.5],"on":true,"count":2,"data":"YQ==","kind":"b","mode":"07","name":"äöü"}`, ""},
		{"no object", `[1]`, "the request body must be an object"},
		{"missing", `{}`, "name is required"},
		{"missing in other letters", `{"Name":"ab"}`, "Name is not a field of this request; did you mean name?"},
		{"short", `{"name":"a"}`, "name must have a length of at least 2"},
		{"long, escaped", `{"name":"\u00e4\u00e4\u00e4\u00e4\u00e4"}`, "name must have a length of at most 4"},
		{"pattern", `{"name":"ab","mode":"8"}`, "mode must be an octal mode"},
		{"enum", `{"name":"ab","kind":"c"}`, `kind must be one of "a, b"`},
		{"base64", `{"name":"ab","data":"ä"}`, "data must be base64 encoded"},
		{"small", `{"name":"ab","count":0}`, "count must be at least 1"},
		{"large, written out", `{"name":"ab","count":1e9}`, "count must be at most 31536000"},
		{"fraction", `{"name":"ab","count":1.5}`, "count must be an integer"},
		{"kinds", `{"any":null1,"name":1}`, "not valid JSON"},
		{
			"wrong kinds, in the order of the schema", `{"env":1,"list":{},"on":"x","count":"1","name":true}`,
			"name must be a string; count must be an integer; on must be true or false; list must be a list; env must be an object",
		},
		{"lists", `{"name":"ab","list":[1,"x",2]}`, "list must have at most this many entries: 2; list[1] must be a number"},
		{"empty list", `{"name":"ab","list":[]}`, "list must have at least this many entries: 1"},
		{"maps", `{"name":"ab","env":{"A":1,"B":"","C":""}}`, "env must have at most 2 properties; env.A must be a string"},
		{"unknown at last", `{"nome":1,"count":0}`, "name is required; count must be at least 1; nome is not a field of this request; did you mean name?"},
		{"what is never right comes alone", `{"count":0,"on":null}`, "on must not be null; leave it out instead"},
		{"inside what is anything, too", `{"name":"ab","any":{"a":1,"a":2}}`, "any.a appears twice"},
		{"a number that none is", `{"name":"ab","count":1e999}`, "count must not be a number of this kind or size"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var v any
			problems, err := shape.Decode([]byte(tt.in), &v)
			if err != nil {
				if tt.problems == "" || !strings.Contains(err.Error(), tt.problems) {
					t.Errorf("error %v, want %q", err, tt.problems)
				}
				return
			}
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
			}
			if strings.Join(got, "; ") != tt.problems {
				t.Errorf("got %q, want %q", strings.Join(got, "; "), tt.problems)
			}
		})
	}
}
