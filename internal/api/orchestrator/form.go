package orchestrator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/strictjson"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
)

// requests is how requests and errors look here: null is as no field, a number is a text,
// too, and fields that nobody knows are ignored, since clients of other versions send some.
var requests = &kit.Codec{Body: bodyOf, Problems: wrongParameters, Fail: writeError}

// ownField is a type of a field that reads itself, and returns what is wrong.
type ownField interface {
	read(raw json.RawMessage) (wrong string)
}

// formed is a body that may be a form instead of JSON.
type formed interface{ fromForm() }

// bodyOf is how bodies become values of a type, or of what it points at.
func bodyOf(t reflect.Type) kit.Decoder {
	of := t
	if t.Kind() == reflect.Pointer {
		of = t.Elem()
	}
	_, forms := reflect.Zero(of).Interface().(formed)
	fields := fieldsOf(of)
	return kit.Decoder{
		Media: func(h http.Header) error { return checkMedia(h, forms) },
		Decode: func(data []byte, h http.Header, into any) error {
			given, err := givenIn(data, h)
			if err != nil {
				return err
			}
			value := reflect.ValueOf(into).Elem()
			if t.Kind() == reflect.Pointer {
				value.Set(reflect.New(of))
				value = value.Elem()
			}
			wrong := fieldErrors{}
			for _, f := range fields {
				f.read(given, value.Field(f.index), wrong)
			}
			return wrong.orNil()
		},
	}
}

// checkMedia refuses what is neither JSON nor a form where that is taken. What says
// nothing any page can make a browser send.
func checkMedia(h http.Header, forms bool) error {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	browser := len(h["Origin"])+len(h["Sec-Fetch-Site"])+len(h["Cookie"]) > 0
	switch {
	case kind == "application/json", kind == "" && !browser, forms && isForm(kind):
		return nil
	}
	return &statusError{status: http.StatusUnsupportedMediaType, text: `Unsupported media type "` + kind + `" in request.`}
}

func isForm(kind string) bool {
	return kind == "application/x-www-form-urlencoded" || kind == "multipart/form-data"
}

// givenIn are the fields of a body. No body has none.
func givenIn(data []byte, h http.Header) (given map[string]json.RawMessage, err error) {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err == nil && isForm(kind) {
		return givenInForm(data, params["boundary"])
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	err = json.Unmarshal(data, &given)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, fieldErrors{"non_field_errors": {"Invalid data. Expected a dictionary, but got " + pythonKind(wrong.Value) + "."}}
	}
	if err != nil {
		return nil, &statusError{status: http.StatusBadRequest, text: "JSON parse error - " + err.Error(), cause: err}
	}
	return given, nil
}

// givenInForm are the fields of a form; a boundary is of one in parts.
func givenInForm(data []byte, boundary string) (map[string]json.RawMessage, error) {
	values, err := url.Values(nil), error(nil)
	if boundary == "" {
		values, err = url.ParseQuery(string(data))
	} else {
		form, formErr := multipart.NewReader(bytes.NewReader(data), boundary).ReadForm(int64(len(data)))
		if err = formErr; err == nil {
			values, err = form.Value, form.RemoveAll()
		}
	}
	if err != nil {
		return nil, &statusError{http.StatusBadRequest, "the form cannot be read: " + err.Error(), err}
	}
	given := make(map[string]json.RawMessage, len(values))
	for name := range values {
		if given[name], err = json.Marshal(values.Get(name)); err != nil {
			return nil, err
		}
	}
	return given, nil
}

// field is how one field of a type is read: by the tags that the document has, too.
type field struct {
	name       string
	index      int
	kind       reflect.Kind
	own        bool // an ownField
	required   bool
	uuid       bool
	standard   bool // of a flag that is not sent
	enum       []string
	least      int64 // of a number
	most       int64 // of a number, or 0
	leastRunes int
	mostRunes  int
}

func fieldsOf(t reflect.Type) (all []field) {
	number := func(f reflect.StructField, tag string) int64 {
		text := f.Tag.Get(tag)
		if text == "" {
			return 0
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("orchestrator: %s.%s: %s is %q", t, f.Name, tag, text))
		}
		return n
	}
	for at := range t.NumField() {
		f := t.Field(at)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		one := field{
			name: name, index: at, kind: f.Type.Kind(), required: options != "omitempty", uuid: f.Tag.Get("format") == "uuid", standard: f.Tag.Get("default") == "true",
			least: number(f, "minimum"), most: number(f, "maximum"), leastRunes: int(number(f, "minLength")), mostRunes: int(number(f, "maxLength")),
		}
		if choices := f.Tag.Get("enum"); choices != "" {
			one.enum = strings.Split(choices, ",")
		}
		one.own = reflect.PointerTo(f.Type).Implements(reflect.TypeFor[ownField]())
		switch one.kind {
		case reflect.String, reflect.Int64, reflect.Bool, reflect.Map, reflect.Slice:
		default:
			panic(fmt.Sprintf("orchestrator: %s.%s is of a kind that is not read", t, f.Name))
		}
		all = append(all, one)
	}
	return all
}

// read sets a field to what was given, and notes what is wrong.
func (f *field) read(given map[string]json.RawMessage, into reflect.Value, wrong fieldErrors) {
	if f.kind == reflect.Bool {
		into.SetBool(f.standard)
	}
	raw, there := given[f.name]
	switch {
	case !there && f.required:
		wrong.add(f.name, "This field is required.")
	case there && string(raw) == "null" && f.required:
		wrong.add(f.name, "This field may not be null.")
	case there && string(raw) != "null":
		if what := f.set(raw, into); what != "" {
			wrong.add(f.name, "%s", what)
		}
	}
}

func (f *field) set(raw json.RawMessage, into reflect.Value) (wrong string) {
	switch {
	case f.own:
		return into.Addr().Interface().(ownField).read(raw)
	case f.kind == reflect.String:
		text, ok := textOf(raw)
		if !ok {
			return "Not a valid string."
		}
		if f.uuid && text != "" {
			if text, ok = orchestrator.ParseUUID(text); !ok {
				return "Must be a valid UUID."
			}
		}
		into.SetString(text)
		return f.checkText(text)
	case f.kind == reflect.Int64:
		return f.setNumber(raw, into)
	case f.kind == reflect.Bool:
		if json.Unmarshal(raw, into.Addr().Interface()) != nil {
			return "Must be a valid boolean."
		}
	case json.Unmarshal(raw, into.Addr().Interface()) == nil:
	case f.kind == reflect.Map:
		return fmt.Sprintf("Expected a dictionary of items but got type %q.", kindOf(raw))
	case kindOf(raw) != "list":
		return fmt.Sprintf("Expected a list of items but got type %q.", kindOf(raw))
	default:
		return "Not a valid string."
	}
	return ""
}

func (f *field) checkText(text string) (wrong string) {
	runes := utf8.RuneCountInString(text)
	switch {
	case f.leastRunes > 0 && runes == 0:
		return "This field may not be blank."
	case runes < f.leastRunes:
		return fmt.Sprintf("Ensure this field has at least %d characters.", f.leastRunes)
	case f.mostRunes > 0 && runes > f.mostRunes:
		return fmt.Sprintf("Ensure this field has no more than %d characters.", f.mostRunes)
	case text != "" && f.enum != nil && !slices.Contains(f.enum, text):
		return fmt.Sprintf("%q is not a valid choice.", text)
	}
	return ""
}

func (f *field) setNumber(raw json.RawMessage, into reflect.Value) (wrong string) {
	n, err := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64)
	switch {
	case err != nil:
		return "A valid integer is required."
	case n < f.least:
		return fmt.Sprintf("Ensure this value is greater than or equal to %d.", f.least)
	case f.most > 0 && n > f.most:
		return fmt.Sprintf("Ensure this value is less than or equal to %d.", f.most)
	}
	into.SetInt(n)
	return ""
}

// textOf is a text, or a number as one.
func textOf(raw json.RawMessage) (text string, ok bool) {
	var number json.Number
	if json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	if kindOf(raw) == "int" && json.Unmarshal(raw, &number) == nil {
		return number.String(), true
	}
	return "", false
}

// pythonKind is a kind of JSON value as clients of the original know it.
func pythonKind(kind string) string {
	kind, _, _ = strings.Cut(kind, " ")
	return map[string]string{"array": "list", "string": "str", "number": "int", "bool": "bool", "object": "dict"}[kind]
}

// kindOf is the kind of a value.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '[':
		return "list"
	case '{':
		return "dict"
	case '"':
		return "str"
	case 't', 'f':
		return "bool"
	}
	return "int"
}

// wrongParameters is the error of what is wrong in a path or a query.
func wrongParameters(problems []strictjson.Problem) error {
	wrong := fieldErrors{}
	for _, p := range problems {
		switch p.What {
		case strictjson.Required:
			return &statusError{status: http.StatusBadRequest, text: p.Field + " is required"}
		case strictjson.NoBoolean:
			wrong.add(p.Field, "Must be a valid boolean.")
		default:
			wrong.add(p.Field, "%s", p.What)
		}
	}
	return wrong
}

// filePart is the first file of a form. What is before it is skipped.
func filePart(body io.Reader, boundary string) (io.Reader, error) {
	form := multipart.NewReader(body, boundary)
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, &statusError{status: http.StatusBadRequest, text: "the form has no file"}
		}
		if err != nil {
			return nil, &statusError{http.StatusBadRequest, "Multipart form parse error - " + err.Error(), err}
		}
		if part.FileName() != "" {
			return part, nil
		}
	}
}
