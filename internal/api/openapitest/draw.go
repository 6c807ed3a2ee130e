package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Request is one that was drawn.
type Request struct {
	Method  string
	Target  string // path and query, escaped
	Type    string // Content-Type; "" is none
	Headers map[string]string
	Body    []byte
	Broken  string // what was broken in it, or ""
}

func (r Request) String() string {
	return fmt.Sprintf("%s %.300s (%s, %v, broken: %q) %.600q", r.Method, r.Target, r.Type, r.Headers, r.Broken, r.Body)
}

// Drawer draws requests. The same seed draws the same ones from the same document
// and pools.
type Drawer struct {
	Random   *rand.Rand
	Document *Document

	// Pools are values for parameters and properties of a name, or for what comes
	// behind a path, as /v1/sessions/: things that there are, and texts that do no
	// harm where they are run. Commands are drawn from them only.
	Pools map[string][]any
	// Only are names for which nothing but values of the pool is drawn as text.
	Only []string
}

// chance is true once in n.
func (d *Drawer) chance(n int) bool { return d.Random.IntN(n) == 0 }

func pick[T any](d *Drawer, list []T) T { return list[d.Random.IntN(len(list))] }

// Valid draws a request that the document allows.
func (d *Drawer) Valid(op *Operation) Request {
	r := Request{Method: op.Method, Headers: map[string]string{}}
	path, query := op.Path, url.Values{}
	parameters, _ := op.raw["parameters"].([]any)
	for _, value := range parameters {
		p := value.(object)
		name, _ := p["name"].(string)
		required, _ := p["required"].(bool)
		if !required && !d.chance(3) {
			continue
		}
		text := d.parameter(op, name, p)
		switch p["in"] {
		case "path":
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(text))
		case "query":
			query.Set(name, text)
		case "header":
			r.Headers[name] = text
		}
	}
	if r.Target = path; d.chance(2) {
		r.Target = strings.TrimSuffix(path, "/")
	}
	if len(query) > 0 {
		r.Target += "?" + query.Encode()
	}
	d.body(op, &r)
	return r
}

// parameter draws one as a text: of a path, something that there is, if anything is.
func (d *Drawer) parameter(op *Operation, name string, p object) string {
	if p["in"] == "path" {
		before, _, _ := strings.Cut(op.Path, "{"+name+"}")
		for _, pool := range []string{before, name} {
			if known := d.Pools[pool]; len(known) > 0 && !d.chance(10) {
				return fmt.Sprint(pick(d, known))
			}
		}
	}
	return fmt.Sprint(d.value(name, p["schema"].(object), 0))
}

// body draws the body of a request, if it has one.
func (d *Drawer) body(op *Operation, r *Request) {
	described, ok := op.raw["requestBody"].(object)
	if !ok {
		return
	}
	content := described["content"].(object)
	r.Type = pick(d, slices.Sorted(maps.Keys(content)))
	switch r.Type {
	case "application/json":
		r.Body = text(d.value("", content[r.Type].(object)["schema"].(object), 0))
	case "multipart/form-data":
		r.Type, r.Body = d.form()
	default:
		r.Body = d.bytes()
	}
}

// text is a value as JSON.
func text(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was made of JSON
	}
	return encoded
}

func (d *Drawer) bytes() []byte {
	b := make([]byte, d.Random.IntN(1<<pickBits(d)))
	for i := range b {
		b[i] = byte(d.Random.Uint32())
	}
	return b
}

func pickBits(d *Drawer) int { return d.Random.IntN(14) }

func (d *Drawer) form() (kind string, body []byte) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for range d.Random.IntN(3) {
		header := textproto.MIMEHeader{}
		header.Set("Content-Disposition", fmt.Sprintf("form-data; name=%q; filename=%q", pick(d, []string{"file", "path", "files"}), pick(d, []string{"a.txt", "", "b"})))
		part, err := form.CreatePart(header)
		if err == nil {
			_, err = part.Write(d.bytes())
		}
		if err != nil {
			panic(err) // a buffer takes everything
		}
	}
	if err := form.Close(); err != nil {
		panic(err)
	}
	return form.FormDataContentType(), b.Bytes()
}

// value draws one that a schema allows, as far as it can.
func (d *Drawer) value(name string, s object, depth int) any {
	s = d.Document.resolve(s)
	if pool := d.Pools[name]; len(pool) > 0 && (slices.Contains(d.Only, name) || d.chance(2)) {
		if kind(s) == "array" {
			return []any{pick(d, pool)}
		}
		return pick(d, pool)
	}
	if examples, _ := s["examples"].([]any); len(examples) > 0 && d.chance(3) {
		return pick(d, examples)
	}
	if enum, _ := s["enum"].([]any); len(enum) > 0 {
		return pick(d, enum)
	}
	for _, word := range []string{"oneOf", "anyOf"} {
		if list, _ := s[word].([]any); len(list) > 0 && s["properties"] == nil {
			return d.value(name, pick(d, list).(object), depth)
		}
	}
	switch kind(s) {
	case "object":
		return d.object(s, depth)
	case "array":
		list := []any{}
		items, _ := s["items"].(object)
		for range int(number(s, "minItems", 0)) + d.Random.IntN(3) {
			list = append(list, d.value(name, items, depth+1))
		}
		return list
	case "integer":
		least := number(s, "minimum", 0)
		most := min(number(s, "maximum", 1e6), least+1e6)
		return int64(pick(d, []float64{least, most, math.Floor(least + d.Random.Float64()*(most-least))}))
	case "number":
		return number(s, "minimum", 0) + d.Random.Float64()
	case "boolean":
		return d.chance(2)
	case "string":
		return d.text(s)
	}
	return pick(d, []any{"x", 1, true, object{"a": []any{1, nil}}, []any{}})
}

func kind(s object) string {
	if list, ok := s["type"].([]any); ok {
		return fmt.Sprint(list[0])
	}
	one, _ := s["type"].(string)
	return one
}

func number(s object, word string, otherwise float64) float64 {
	if n, ok := s[word].(json.Number); ok {
		if f, err := n.Float64(); err == nil {
			return f
		}
	}
	return otherwise
}

func (d *Drawer) object(s object, depth int) object {
	o := object{}
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(object)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || depth < 4 && d.chance(3) {
			o[name] = d.value(name, properties[name].(object), depth+1)
		}
	}
	if rest, ok := s["additionalProperties"].(object); ok && depth < 4 && len(properties) == 0 {
		for range d.Random.IntN(3) {
			o[pick(d, []string{"A", "b_1", "LANG"})] = d.value("", rest, depth+1)
		}
	}
	return o
}

// plain are texts for most patterns.
var plain = []string{"a", "abc", "x1", "0644", "a.txt", "d/e.txt", "YQ==", "TERM", "aaaaaaaaaaaaaaaaaaaaaaaaaa", "someone", "b-2", "ab cd", "über", ""}

// text draws a text that a schema allows, or the nearest that is known.
func (d *Drawer) text(s object) string {
	if s["format"] == "uuid" {
		return fmt.Sprintf("%08x-0000-4000-8000-%012x", d.Random.Uint32N(4), d.Random.Uint32N(4))
	}
	least, most := int(number(s, "minLength", 0)), int(number(s, "maxLength", 1<<20))
	pattern, _ := s["pattern"].(string)
	fits := func(text string) bool {
		return len(text) >= least && len(text) <= most && (pattern == "" || regexp.MustCompile(pattern).MatchString(text))
	}
	if long := strings.Repeat("a", min(most, 1<<16)); d.chance(20) && fits(long) {
		return long
	}
	for range 20 {
		if text := pick(d, plain); fits(text) {
			return text
		}
	}
	return strings.Repeat("a", max(least, 1))
}
