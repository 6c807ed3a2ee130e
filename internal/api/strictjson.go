package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/weaken"
)

// maxDepth of a request's JSON. Ours need three.
const maxDepth = 32

// DecodeJSON decodes a request body into v and refuses, with InvalidArgument
// that names the field, what encoding/json lets pass: a key twice, a key in
// another case, null, bytes that are not UTF-8, half a surrogate pair, deep
// nesting. Where v holds structs, their fields are all that is known.
func DecodeJSON(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errdefs.New(errdefs.InvalidArgument, "the request body must be UTF-8")
	}
	if err := json.Unmarshal(data, v); err != nil {
		return describeJSON(err, data)
	}
	if weaken.Off(weaken.StrictJSON) {
		return nil
	}
	// The syntax is right from here on.
	s := scanner{data: data}
	return s.value("", fieldsOf(reflect.TypeOf(v)), 0)
}

// describeJSON puts an error of encoding/json into words for a client.
func describeJSON(err error, data []byte) error {
	switch e := err.(type) { //nolint:errorlint // Unmarshal returns these unwrapped
	case *json.UnmarshalTypeError:
		// Its Field has the names of embedded structs, which are no client's business.
		if field := fieldAt(data, int(e.Offset)-1); field != "" {
			return errdefs.Invalid(field, "must not be a %s of this kind or size", strings.Fields(e.Value)[0])
		}
	case *json.SyntaxError:
		return errdefs.Wrap(err, errdefs.InvalidArgument, "the request body is not valid JSON: error at byte %d", e.Offset)
	}
	return errdefs.Wrap(err, errdefs.InvalidArgument, "the request body is not the JSON that is wanted here")
}

// fieldAt names the innermost value that has the byte at offset. A body whose walk
// fails before it is there has another fault, too, and no name for this one.
func fieldAt(data []byte, offset int) string {
	s := scanner{data: data, look: offset}
	if err := s.value("", nil, 0); err != nil && s.found == "" {
		return ""
	}
	return s.found
}

// scanner walks over JSON that is known to be well-formed.
type scanner struct {
	data []byte
	pos  int

	look  int    // an offset to be named, if it is not 0
	found string // the name of the innermost value that has it
}

// value checks the value at pos, whose name in errors is path, against known:
// the fields it may have, nil for anything.
func (s *scanner) value(path string, known *fields, depth int) error {
	if depth > maxDepth {
		return errdefs.New(errdefs.InvalidArgument, "the request body is nested deeper than %d levels", maxDepth)
	}
	c := s.next()
	if s.look > 0 && s.pos <= s.look {
		s.begin(path)
	}
	switch c {
	case '{':
		return s.object(path, known, depth)
	case '[':
		return s.array(path, known, depth)
	case '"':
		_, _, err := s.skipText(path)
		return err
	case 'n':
		return errdefs.Invalid(nameOf(path), "must not be null; leave it out instead")
	default: // a number, true or false
		for s.pos < len(s.data) && strings.IndexByte(" \t\r\n,]}", s.data[s.pos]) < 0 {
			s.pos++
		}
		return nil
	}
}

// begin is told that the value of this name begins at pos. The last one that
// begins before look is the one that has it, for no value ends with another's comma.
func (s *scanner) begin(path string) {
	if path != "" {
		s.found = nameOf(path)
	}
}

func (s *scanner) object(path string, known *fields, depth int) error {
	s.pos++ // {
	var seen map[string]bool
	for s.next() != '}' {
		key, err := s.text(path)
		if err != nil {
			return err
		}
		name := key
		if path != "" {
			name = path + "." + key
		}
		if seen[key] {
			return errdefs.Invalid(nameOf(name), "appears twice")
		}
		if seen == nil {
			seen = make(map[string]bool)
		}
		seen[key] = true
		inside, ok := known.field(key)
		if !ok {
			return errdefs.Invalid(nameOf(name), "is not a field of this request%s", known.suggestion(key))
		}
		s.next()
		s.pos++ // :
		if err := s.value(name, inside, depth+1); err != nil {
			return err
		}
		if s.next() == ',' {
			s.pos++
		}
	}
	s.pos++ // }
	return nil
}

func (s *scanner) array(path string, known *fields, depth int) error {
	s.pos++ // [
	for i := 0; s.next() != ']'; i++ {
		if err := s.value(fmt.Sprintf("%s[%d]", path, i), known, depth+1); err != nil {
			return err
		}
		if s.next() == ',' {
			s.pos++
		}
	}
	s.pos++ // ]
	return nil
}

// next skips white space and returns the byte at pos.
func (s *scanner) next() byte {
	for {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
}

// text reads the string at pos.
func (s *scanner) text(path string) (string, error) {
	quoted, escaped, err := s.skipText(path)
	if err != nil || !escaped {
		return string(bytes.Trim(quoted, `"`)), err
	}
	var decoded string
	err = json.Unmarshal(quoted, &decoded)
	return decoded, err
}

// skipText checks the string at pos without a copy of it, and returns it in its
// quotes and whether it has escapes.
func (s *scanner) skipText(path string) (quoted []byte, escaped bool, err error) {
	start := s.pos + 1
	end := start + bytes.IndexByte(s.data[start:], '"')
	if bytes.IndexByte(s.data[start:end], '\\') < 0 {
		s.pos = end + 1
		return s.data[start-1 : s.pos], false, nil
	}
	for s.pos++; s.data[s.pos] != '"'; s.pos++ {
		if s.data[s.pos] != '\\' {
			continue
		}
		s.pos++ // whatever is escaped, so that \" does not end the string
		if s.data[s.pos] == 'u' && !s.surrogates() {
			return nil, true, errdefs.Invalid(nameOf(path), "holds half of a surrogate pair")
		}
	}
	s.pos++
	return s.data[start-1 : s.pos], true, nil
}

// surrogates checks a \u escape, pos being on the u, and moves to its end and
// to that of the second half if it is the first one of a pair.
func (s *scanner) surrogates() bool {
	hex := func(at int) string { return strings.ToLower(string(s.data[at : at+4])) }
	first := hex(s.pos + 1)
	s.pos += 4
	if first < "d800" || first > "dfff" {
		return true
	}
	if first >= "dc00" || len(s.data) < s.pos+7 || string(s.data[s.pos+1:s.pos+3]) != `\u` {
		return false
	}
	second := hex(s.pos + 3)
	s.pos += 6
	return second >= "dc00" && second <= "dfff"
}

// nameOf is how an error names a place in the body.
func nameOf(path string) string {
	const most = 128
	switch {
	case path == "":
		return "the request body"
	case len(path) > most:
		return clean(path[:most]) + "..."
	}
	return clean(path)
}

// fields is the set of JSON names that a struct has, and what is inside them.
// A nil one knows any name.
type fields struct {
	named map[string]*fields
	any   *fields // of a map, what is inside every name
}

func (f *fields) field(name string) (*fields, bool) {
	if f == nil {
		return nil, true
	}
	if f.named == nil {
		return f.any, true
	}
	inside, ok := f.named[name]
	return inside, ok
}

// fieldsCache holds *fields by reflect.Type: the types are those of the
// routes, so it stops growing soon.
var fieldsCache sync.Map

func fieldsOf(t reflect.Type) *fields {
	if known, ok := fieldsCache.Load(t); ok {
		return known.(*fields)
	}
	known := newFields(t)
	fieldsCache.Store(t, known)
	return known
}

func newFields(t reflect.Type) *fields {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return newFields(t.Elem())
	case reflect.Map:
		return &fields{any: newFields(t.Elem())}
	case reflect.Struct:
		named := make(map[string]*fields)
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				maps.Copy(named, newFields(f.Type).named)
			case f.IsExported() && name != "" && name != "-":
				named[name] = newFields(f.Type)
			}
		}
		return &fields{named: named}
	}
	return nil
}
