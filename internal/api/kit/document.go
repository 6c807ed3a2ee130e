package kit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/strictjson"
)

// Doc is what the OpenAPI document says of a route beside its types.
type Doc struct {
	ID, Summary, Description string

	Status  int            // of success, if not 200
	Media   string         // of a successful answer, if not JSON
	Example any            // of a successful answer
	Answers map[int]Answer // that the handler's output does not show
	Body    *Body          // that the handler's input does not show
	Errors  []int          // beside those that every route has

	Variables map[string]Variable // of the path, where they are not what the input says
}

func (d Doc) status() int { return cmp.Or(d.Status, http.StatusOK) }

// Answer is one that a handler writes by itself.
type Answer struct {
	Means   string // its status' name if nothing is said
	Content []Media
}

// Body is a request's body that a handler reads by itself.
type Body struct {
	Means    string
	Content  []Media
	Optional bool
}

// Variable is a part of a path.
type Variable struct{ Means, Example string }

// Media is a form of a body.
type Media struct {
	Type    string
	Example any

	shape  reflect.Type
	schema *huma.Schema
}

// JSON is a body of type T.
func JSON[T any](example any) Media {
	return Media{Type: mediaType, Example: example, shape: reflect.TypeFor[T]()}
}

// Bytes is a body of bytes.
func Bytes(media string) Media {
	return Media{Type: media, schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
}

// Form is a body that is a form.
func Form(fields map[string]*huma.Schema) Media {
	return Media{Type: "multipart/form-data", schema: &huma.Schema{Type: huma.TypeObject, Properties: fields}}
}

// What any route with a key may answer, and any route.
var (
	defaultKeyErrors = []int{400, 401, 403, 413, 429, 431, 500, 503}
	anyErrors        = []int{400, 431, 503}
)

// documenter makes the OpenAPI document. The library huma derives schemas from
// types and does nothing else: it sees no request. It is configured here, never
// by its package variables, which other surfaces would share.
type documenter struct {
	api       huma.API
	last      *huma.Operation // that was added
	keyErrors []int           // of every route with a key
}

func newDocumenter(keyErrors []int) *documenter {
	if keyErrors == nil {
		keyErrors = defaultKeyErrors
	}
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	registry.RegisterTypeAlias(reflect.TypeFor[huma.ErrorModel](), reflect.TypeFor[api.ErrorBody]())
	d := &documenter{keyErrors: keyErrors}
	d.api = huma.NewAPI(huma.Config{
		OpenAPI:       &huma.OpenAPI{OpenAPI: "3.1.0", Components: &huma.Components{Schemas: registry}},
		Formats:       map[string]huma.Format{mediaType: {}},
		DefaultFormat: mediaType,
	}, d)
	return d
}

// Handle is called by huma for each operation.
func (d *documenter) Handle(op *huma.Operation, _ func(huma.Context)) { d.last = op }

// ServeHTTP is in huma's interface and not used.
func (d *documenter) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

func (d *documenter) schemas() huma.Registry { return d.api.OpenAPI().Components.Schemas }

// Document is the surface's, for it to complete.
func (s *Surface) Document() *huma.OpenAPI { return s.document.api.OpenAPI() }

// DocumentText returns a complete document as it is served. It is written when it is first
// asked for: that takes longer than all else of a surface's start.
func DocumentText(doc *huma.OpenAPI) func() []byte {
	return sync.OnceValue(func() []byte {
		text, err := json.MarshalIndent(doc, "", "  ")
		if err != nil {
			panic(fmt.Sprintf("kit: openapi document: %v", err))
		}
		return append(text, '\n')
	})
}

// documentRow adds a route to the document.
func documentRow[I, O any](d *documenter, row Row) {
	doc := row.Doc
	if doc.ID == "" || doc.Summary == "" {
		panic("kit: route " + row.Pattern + " is not documented")
	}
	method, path, _ := strings.Cut(row.Pattern, " ")
	op := huma.Operation{
		OperationID: doc.ID, Summary: doc.Summary, Description: doc.Description,
		Method: method, Path: path, DefaultStatus: doc.status(), Responses: d.responses(row, method),
		Security: []map[string][]string{},
	}
	switch row.Scope {
	case api.Public, api.Open:
	case api.SignedIn:
		op.Security = []map[string][]string{{"session": {}}}
	default:
		op.Security = []map[string][]string{{"bearer": {}}, {"apiKey": {}}}
	}
	huma.Register(d.api, op, func(context.Context, *I) (*O, error) { return nil, nil })
	added := d.last
	if doc.Body != nil {
		added.RequestBody = &huma.RequestBody{Required: !doc.Body.Optional, Content: d.content(doc.Body.Content), Description: doc.Body.Means}
	} else if added.RequestBody != nil && method == http.MethodPost {
		added.RequestBody.Description = fmt.Sprintf("At most %d bytes.", row.MaxBody)
	}
	for i, p := range added.Parameters {
		if v, ok := doc.Variables[p.Name]; ok && p.In == "path" {
			p, described := *p, *p.Schema
			p.Description, p.Example = v.Means, v.Example
			described.Description, described.Examples = v.Means, []any{v.Example}
			p.Schema = &described
			added.Parameters[i] = &p
		}
	}
}

// responses are the answers of a route. What the handler's output says is added
// to that of success.
func (d *documenter) responses(row Row, method string) map[string]*huma.Response {
	doc := row.Doc
	success := &huma.Response{Description: http.StatusText(doc.status())}
	if doc.Media != "" || doc.Example != nil {
		success.Content = map[string]*huma.MediaType{cmp.Or(doc.Media, mediaType): {Example: doc.Example}}
	}
	all := map[string]*huma.Response{strconv.Itoa(doc.status()): success}
	for status, answer := range doc.Answers {
		all[strconv.Itoa(status)] = &huma.Response{
			Description: cmp.Or(answer.Means, http.StatusText(status)), Content: d.content(answer.Content),
		}
	}
	errors := append(append([]int{}, anyErrors...), doc.Errors...)
	if method != http.MethodGet {
		errors = append(errors, http.StatusRequestTimeout)
	}
	if row.Scope != api.Public {
		errors = append(errors, d.keyErrors...)
	}
	for _, status := range errors {
		code := strconv.Itoa(status)
		all[code] = &huma.Response{Ref: "#/components/responses/" + code}
	}
	return all
}

func (d *documenter) content(forms []Media) map[string]*huma.MediaType {
	if forms == nil {
		return nil
	}
	content := make(map[string]*huma.MediaType)
	for _, form := range forms {
		schema := form.schema
		if form.shape != nil {
			schema = d.schemas().Schema(form.shape, true, "")
		}
		content[form.Type] = &huma.MediaType{Schema: schema, Example: form.Example}
	}
	return content
}

var kinds = map[string]strictjson.Kind{
	"": strictjson.Any, huma.TypeBoolean: strictjson.Boolean, huma.TypeInteger: strictjson.Integer, huma.TypeNumber: strictjson.Number,
	huma.TypeString: strictjson.String, huma.TypeArray: strictjson.Array, huma.TypeObject: strictjson.Object,
}

// compile makes a check of a schema, so that the document and the check cannot
// differ. The order of fields is that of a type.
func (d *documenter) compile(where string, s *huma.Schema, of *strictjson.Schema) *strictjson.Schema {
	for s.Ref != "" {
		s = d.schemas().SchemaFromRef(s.Ref)
	}
	refuseUnchecked(where, s)
	check := &strictjson.Schema{
		Kind: kinds[s.Type], Nullable: s.Nullable && s.Type != huma.TypeArray, Min: s.Minimum, Max: s.Maximum, Means: s.PatternDescription, Base64: s.ContentEncoding == "base64",
		Least: cmp.Or(s.MinLength, s.MinItems, s.MinProperties), Most: cmp.Or(s.MaxLength, s.MaxItems, s.MaxProperties),
	}
	if s.Pattern != "" {
		check.Pattern = regexp.MustCompile(s.Pattern)
	}
	for _, one := range s.Enum {
		check.Enum = append(check.Enum, fmt.Sprint(one))
	}
	if of == nil {
		of = &strictjson.Schema{}
	}
	if s.Items != nil {
		check.Items = d.compile(where, s.Items, of.Items)
	}
	for _, field := range of.Fields {
		property, ok := s.Properties[field.Name]
		if !ok {
			panic("kit: " + where + ": the schema has no " + field.Name)
		}
		check.Fields = append(check.Fields, strictjson.Field{
			Name: field.Name, Required: slices.Contains(s.Required, field.Name), Schema: d.compile(where, property, field.Schema),
		})
	}
	switch rest := s.AdditionalProperties.(type) {
	case bool:
		check.Closed = !rest
	case *huma.Schema:
		check.Rest = d.compile(where, rest, of.Rest)
	}
	return check
}

// refuseUnchecked panics if a schema says what strictjson does not check.
func refuseUnchecked(where string, s *huma.Schema) {
	ofText := s.Type == huma.TypeString && s.Format != ""
	combined := len(s.OneOf)+len(s.AnyOf)+len(s.AllOf) > 0 || s.Not != nil
	other := s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil || s.UniqueItems || len(s.DependentRequired) > 0
	if ofText || combined || other {
		panic(fmt.Sprintf("kit: %s: the schema %+v says what nobody checks", where, s))
	}
}
