package orchestrator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
)

// fields reads a request's JSON object field by field, and notes what is wrong.
// Fields that nobody asks for are ignored: clients of other versions send some.
type fields struct {
	given  map[string]json.RawMessage
	errors fieldErrors
}

// readFields reads the body of a request. No body is an empty object.
func (s *surface) readFields(w http.ResponseWriter, r *http.Request) (*fields, error) {
	f := &fields{errors: fieldErrors{}}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	if r.ContentLength == 0 {
		return f, nil
	}
	// What says nothing any page can make a browser send.
	browser := len(r.Header["Origin"])+len(r.Header["Sec-Fetch-Site"])+len(r.Header["Cookie"]) > 0
	if kind != "application/json" && (kind != "" || browser) {
		return nil, &statusError{status: http.StatusUnsupportedMediaType, text: `Unsupported media type "` + kind + `" in request.`}
	}
	var data []byte
	err := takeBody(w, http.MaxBytesReader(w, r.Body, s.opts.BodyBytes), func(body io.Reader) (err error) {
		data, err = io.ReadAll(body)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return f, nil
	}
	err = json.Unmarshal(data, &f.given)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, fieldErrors{"non_field_errors": {"Invalid data. Expected a dictionary, but got " + pythonKind(wrong.Value) + "."}}
	}
	if err != nil {
		return nil, &statusError{status: http.StatusBadRequest, text: "JSON parse error - " + err.Error(), cause: err}
	}
	return f, nil
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

// take returns a field that is there, and notes one that has to be and is not.
func (f *fields) take(name string, required bool) (json.RawMessage, bool) {
	raw, there := f.given[name]
	switch {
	case !there && required:
		f.errors.add(name, "This field is required.")
	case there && string(raw) == "null":
		if required {
			f.errors.add(name, "This field may not be null.")
		}
		there = false
	}
	return raw, there
}

// text is a field that is a text, or a number as one.
func (f *fields) text(name string, required bool) string {
	raw, there := f.take(name, required)
	if !there {
		return ""
	}
	var text string
	var number json.Number
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	if kindOf(raw) == "int" && json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	f.errors.add(name, "Not a valid string.")
	return ""
}

// filled is a text that is not empty.
func (f *fields) filled(name string) string {
	text := f.text(name, true)
	if text == "" && len(f.errors[name]) == 0 {
		f.errors.add(name, "This field may not be blank.")
	}
	return text
}

// choice is one of several texts, or "".
func (f *fields) choice(name string, choices ...string) string {
	text := f.text(name, false)
	for _, one := range append(choices, "") {
		if text == one {
			return text
		}
	}
	f.errors.add(name, "%q is not a valid choice.", text)
	return ""
}

// seconds is a whole number of at least least, or 0.
func (f *fields) seconds(name string, least int64) time.Duration {
	raw, there := f.take(name, false)
	if !there {
		return 0
	}
	const most = 10 * 365 * 24 * 60 * 60
	n, err := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64)
	switch {
	case err != nil:
		f.errors.add(name, "A valid integer is required.")
	case n < least:
		f.errors.add(name, "Ensure this value is greater than or equal to %d.", least)
	case n > most:
		f.errors.add(name, "Ensure this value is less than or equal to %d.", int64(most))
	default:
		return time.Duration(n) * time.Second
	}
	return 0
}

// flag is true unless the field says false.
func (f *fields) flag(name string) bool {
	raw, there := f.take(name, false)
	value := true
	if there && json.Unmarshal(raw, &value) != nil {
		f.errors.add(name, "Must be a valid boolean.")
	}
	return value
}

// uuid is a UUID in our writing, or "".
func (f *fields) uuid(name string) string {
	text := f.text(name, false)
	if text == "" {
		return ""
	}
	id, ok := orchestrator.ParseUUID(text)
	if !ok {
		f.errors.add(name, "Must be a valid UUID.")
	}
	return id
}

// webAddress is where a path can be put behind, or "".
func (f *fields) webAddress(name string) string {
	text := f.text(name, false)
	u, err := url.Parse(text)
	good := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
	if text != "" && (!good || strings.ContainsAny(text, "?#")) {
		f.errors.add(name, "Enter a valid URL.")
	}
	return text
}

// texts is a list of texts.
func (f *fields) texts(name string) (list []string) {
	raw, there := f.take(name, false)
	if !there || json.Unmarshal(raw, &list) == nil {
		return list
	}
	if kind := kindOf(raw); kind != "list" {
		f.errors.add(name, "Expected a list of items but got type %q.", kind)
	} else {
		f.errors.add(name, "Not a valid string.")
	}
	return nil
}

// object is a JSON object.
func (f *fields) object(name string) (object map[string]any) {
	raw, there := f.take(name, false)
	if there && json.Unmarshal(raw, &object) != nil {
		f.errors.add(name, "Expected a dictionary of items but got type %q.", kindOf(raw))
	}
	return object
}

// takeBody hands a body to take, which each piece may let wait for a time.
func takeBody(w http.ResponseWriter, body io.ReadCloser, take func(io.Reader) error) error {
	patient := &patientBody{body, http.NewResponseController(w)}
	if err := take(patient); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errdefs.Wrap(err, errdefs.InvalidArgument, "the body ended before its Content-Length")
		}
		return err
	}
	// The deadline of the body would otherwise end the request, minutes of
	// running command included.
	return patient.control.SetReadDeadline(time.Time{})
}

// patientBody is a body with a new deadline for every read.
type patientBody struct {
	body    io.Reader
	control *http.ResponseController
}

func (p *patientBody) Read(b []byte) (int, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(api.BodyTimeout)); err != nil {
		return 0, err
	}
	return p.body.Read(b)
}
