// Package strictjson decodes the JSON of requests and checks it against a schema,
// in one walk over the bytes. It refuses what encoding/json lets pass, and says
// what is wrong field by field, as data. It knows nothing of HTTP or of documents.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// maxDepth of a request's JSON. Ours need three.
const maxDepth = 32

// Decode decodes data into v and refuses, with InvalidArgument that names the
// field, what encoding/json lets pass: a key twice, a key in another case, null,
// bytes that are not UTF-8, half a surrogate pair, deep nesting. Where v holds
// structs, their fields are all that is known.
func Decode(data []byte, v any) error {
	if err := unmarshal(data, v); err != nil {
		return err
	}
	if protection.Off(protection.StrictJSON) {
		return nil
	}
	s := scanner{data: data}
	if err := s.value(OfType(reflect.TypeOf(v)), 0); err != nil {
		return err
	}
	if len(s.problems) > 0 {
		return s.problems[0].Error()
	}
	return nil
}

// Decode decodes data into v if data is what the schema says, and returns what
// is wrong with its fields otherwise. An error is what Decode refuses in any body.
func (sc *Schema) Decode(data []byte, v any) ([]Problem, error) {
	typeErr := unmarshal(data, v)
	if typeErr != nil && !isTypeError(typeErr) {
		return nil, typeErr
	}
	s := scanner{data: data, lenient: protection.Off(protection.StrictJSON)}
	if err := s.value(sc, 0); err != nil {
		return nil, err
	}
	if len(s.problems) > 0 {
		return s.problems, nil
	}
	return nil, typeErr
}

// errType is an error about one value: the syntax around it is right.
type errType struct{ error }

func (e errType) Unwrap() error { return e.error }

func isTypeError(err error) bool {
	_, ok := errors.AsType[errType](err)
	return ok
}

// unmarshal puts an error of encoding/json into words for a client.
func unmarshal(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errdefs.New(errdefs.InvalidArgument, "the request body must be UTF-8")
	}
	err := json.Unmarshal(data, v)
	switch e := err.(type) { //nolint:errorlint // Unmarshal returns these unwrapped
	case nil:
		return nil
	case *json.SyntaxError:
		return errdefs.Wrap(err, errdefs.InvalidArgument, "the request body is not valid JSON: error at byte %d", e.Offset)
	case *json.UnmarshalTypeError:
		// Its Field has the names of embedded structs, which are no client's business.
		if field := fieldAt(data, int(e.Offset)-1); field != "" {
			return errType{errNumber(field, strings.Fields(e.Value)[0])}
		}
	}
	return errType{errdefs.Wrap(err, errdefs.InvalidArgument, "the request body is not the JSON that is wanted here")}
}

func errNumber(field, kind string) error {
	return errdefs.Invalid(field, "must not be a %s of this kind or size", kind)
}

// fieldAt names the innermost value that has the byte at offset. A body whose walk
// fails before it is there has another fault, too, and no name for this one.
func fieldAt(data []byte, offset int) string {
	s := scanner{data: data, look: offset}
	if err := s.value(nil, 0); err != nil && s.found == "" {
		return ""
	}
	return s.found
}

// scanner walks over JSON that is known to be well-formed.
type scanner struct {
	data     []byte
	pos      int
	path     []step    // to the value at pos
	problems []Problem // with what the schema says
	lenient  bool      // only the schema counts

	look  int    // an offset to be named, if it is not 0
	found string // the name of the innermost value that has it
}

// step is a key of an object or an index of an array.
type step struct {
	key   []byte
	index int // if key is nil
}

// place is how errors name the value at pos.
func (s *scanner) place() string {
	var b strings.Builder
	for _, step := range s.path {
		if step.key == nil {
			b.WriteString("[" + strconv.Itoa(step.index) + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.Write(step.key)
	}
	return FieldName(b.String())
}

// refuse is an error about the value at pos.
func (s *scanner) refuse(why string) error {
	name := s.place()
	if name == "" {
		name = wholeBody
	}
	return errdefs.Invalid(name, "%s", why)
}

// report notes what the schema forbids about the value at pos.
func (s *scanner) report(duty string) { s.problems = append(s.problems, newProblem(s.place(), duty)) }

// value checks the value at pos against a schema, nil for anything.
func (s *scanner) value(as *Schema, depth int) error {
	if depth > maxDepth {
		return errdefs.New(errdefs.InvalidArgument, "the request body is nested deeper than %d levels", maxDepth)
	}
	c := s.next()
	// The last one that begins before look is the one that has it, for no value
	// ends with another's comma.
	if s.look > 0 && s.pos <= s.look && len(s.path) > 0 {
		s.found = s.place()
	}
	switch c {
	case '{':
		return s.object(s.expect(as, Object), depth)
	case '[':
		return s.array(s.expect(as, Array), depth)
	case '"':
		return s.text(s.expect(as, String))
	case 'n':
		if !s.lenient && (as == nil || !as.Nullable) {
			return s.refuse("must not be null; leave it out instead")
		}
	case 't', 'f':
		s.expect(as, Boolean)
	default:
		return s.number(as)
	}
	s.skipWord()
	return nil
}

// expect returns the schema if it is one of this kind. One that is of another is
// reported, and nothing is known of what is inside the value.
func (s *scanner) expect(as *Schema, kind Kind) *Schema {
	if as == nil || as.Kind == Any || as.Kind == kind {
		return as
	}
	s.report(as.Kind.duty())
	return nil
}

// skipWord returns the number or word at pos, and moves behind it.
func (s *scanner) skipWord() []byte {
	start := s.pos
	for s.pos < len(s.data) && strings.IndexByte(" \t\r\n,]}", s.data[s.pos]) < 0 {
		s.pos++
	}
	return s.data[start:s.pos]
}

func (s *scanner) number(as *Schema) error {
	n, err := strconv.ParseFloat(string(s.skipWord()), 64)
	if err != nil && len(s.path) > 0 {
		return errNumber(s.place(), "number")
	}
	if as == nil || as.Kind == Any {
		return nil
	}
	if as.Kind != Integer && as.Kind != Number {
		s.report(as.Kind.duty())
		return nil
	}
	for _, duty := range as.checkNumber(n) {
		s.report(duty)
	}
	return nil
}

func (s *scanner) text(as *Schema) error {
	quoted, escaped, err := s.skipText()
	if err != nil || as == nil || as.Kind == Any {
		return err
	}
	text := quoted[1 : len(quoted)-1]
	if escaped {
		if text, err = unescape(quoted); err != nil {
			return err
		}
	}
	for _, duty := range as.checkText(text) {
		s.report(duty)
	}
	return nil
}

func (s *scanner) array(as *Schema, depth int) error {
	s.pos++ // [
	var items *Schema
	if as != nil {
		items = as.Items
	}
	before := len(s.problems)
	s.path = append(s.path, step{})
	count := 0
	for ; s.next() != ']'; count++ {
		s.path[len(s.path)-1].index = count
		if err := s.value(items, depth+1); err != nil {
			return err
		}
		if s.next() == ',' {
			s.pos++
		}
	}
	s.pos++ // ]
	s.path = s.path[:len(s.path)-1]
	if as == nil || as.Kind == Any {
		return nil
	}
	inside := append([]Problem(nil), s.problems[before:]...)
	s.problems = s.problems[:before]
	for _, duty := range as.checkCount(count) {
		s.report(duty)
	}
	s.problems = append(s.problems, inside...)
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

// key reads the name at pos.
func (s *scanner) key() ([]byte, error) {
	quoted, escaped, err := s.skipText()
	if err != nil || !escaped {
		return quoted[min(1, len(quoted)):max(0, len(quoted)-1)], err
	}
	return unescape(quoted)
}

func unescape(quoted []byte) ([]byte, error) {
	var decoded string
	err := json.Unmarshal(quoted, &decoded)
	return []byte(decoded), err
}

// skipText checks the string at pos without a copy of it, and returns it in its
// quotes and whether it has escapes.
func (s *scanner) skipText() (quoted []byte, escaped bool, err error) {
	start := s.pos
	end := start + 1 + bytes.IndexByte(s.data[start+1:], '"')
	if bytes.IndexByte(s.data[start:end], '\\') < 0 {
		s.pos = end + 1
		return s.data[start:s.pos], false, nil
	}
	for s.pos++; s.data[s.pos] != '"'; s.pos++ {
		if s.data[s.pos] != '\\' {
			continue
		}
		s.pos++ // whatever is escaped, so that \" does not end the string
		if s.data[s.pos] == 'u' && !s.surrogates() && !s.lenient {
			return nil, true, s.refuse("holds half of a surrogate pair")
		}
	}
	s.pos++
	return s.data[start:s.pos], true, nil
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

// FieldName keeps a field's name, which a client may have chosen, short and
// printable.
func FieldName(name string) string {
	const most = 128
	if len(name) > most {
		name = name[:most] + "..."
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, name), "?")
}
