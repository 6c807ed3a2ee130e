package openapitest

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// odd are values that no request expects. None is a path out of a directory, and
// none is a command that does anything.
var odd = []any{
	nil, true, false, 0, -1, 1.5, 1e300, json.Number("1e400"), json.Number("-0"), json.Number("9223372036854775808"), json.Number("18446744073709551616"),
	"", " ", "\x00", "a\x00b", "\n", "\u202e", "\U0001F4A9", "\u0000\u0001", "é", "null", "0x10", "1e3", "-", "%s%n", "'", `"`, `\`, "<>", "￿",
	[]any{},
	[]any{nil},
	[]any{[]any{}},
	[]any{"a", 1, nil, object{}},
	object{},
	object{"": nil},
	object{"a": object{"b": []any{1}}},
	object{"\x00": "\x00"},
}

// Broken draws a request that the document does not allow, or hardly.
func (d *Drawer) Broken(op *Operation) Request {
	r := d.Valid(op)
	switch d.Random.IntN(8) {
	case 0:
		d.breakPath(op, &r)
	case 1:
		d.breakQuery(&r)
	case 2:
		d.breakHeaders(&r)
	case 3:
		d.breakBytes(&r)
	default:
		d.breakValue(&r)
	}
	return r
}

// names are parts of a path that are no name of anything.
var names = []string{
	"%00", "%ff", "%20", "a%2Fb", "%C3%A9", "%F0%9F%92%A9", "*", "+", "%25", "%2B", "~", "a;b", "a:b", "@", "null", "0", "-1", "%7B%7D", "%E2%80%AE",
	"00000000-0000-0000-0000-000000000000", "AAAAAAAAAAAAAAAAAAAAAAAAAA", "aaaaaaaaaaaaaaaaaaaaaaaaaa", "%0d%0a", "'", "%22",
}

func (d *Drawer) breakPath(op *Operation, r *Request) {
	r.Broken = "path"
	_, query, _ := strings.Cut(r.Target, "?")
	parts := strings.Split(op.Path, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = pick(d, append([]string{strings.Repeat("a", 5000), strings.Repeat("%C3", 300)}, names...))
		}
	}
	if r.Target = strings.Join(parts, "/"); d.chance(6) {
		r.Target += "/" + pick(d, names)
	}
	if query != "" {
		r.Target += "?" + query
	}
	if d.chance(10) {
		r.Method = pick(d, []string{"PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "HEAD", "X"})
	}
}

func (d *Drawer) breakQuery(r *Request) {
	r.Broken = "query"
	path, query, _ := strings.Cut(r.Target, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		values = url.Values{}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch d.Random.IntN(3) {
		case 0:
			values.Del(name)
		case 1:
			values.Add(name, values.Get(name))
		default:
			values.Set(name, d.oddText())
		}
	}
	r.Target = path + "?" + values.Encode() + pick(d, []string{"", "&unknown=1", "&%zz", "&=", "&path=%ff%00", "&a;b", "&limit=99999999999999999999", "&" + strings.Repeat("q", 9000)})
}

// oddText is an odd value as a text.
func (d *Drawer) oddText() string {
	switch v := pick(d, odd).(type) {
	case string:
		return v
	default:
		return string(text(v))
	}
}

func (d *Drawer) breakHeaders(r *Request) {
	r.Broken = "header"
	switch d.Random.IntN(4) {
	case 0:
		r.Type = pick(d, []string{"", "text/plain", "application/xml", "application/json; charset=utf-16", "application/json;", "multipart/form-data", "multipart/form-data; boundary=x", "*/*", "a", ";", "application/x-www-form-urlencoded"})
	case 1:
		r.Headers[pick(d, []string{"Range", "If-Range", "Last-Event-ID", "Idempotency-Key"})] = pick(d, []string{"", "bytes=", "bytes=9-1", "bytes=-0", "bytes=0-0,2-3", "x", "\xff", "-1", "99999999999999999999", strings.Repeat("k", 300)})
	case 2:
		r.Headers["Accept"] = pick(d, []string{"", "x", "text/event-stream", "application/octet-stream", "image/*;q=x", "*/*;q=0"})
	default:
		r.Headers["Origin"] = pick(d, []string{"null", "http://evil.example.org", "x", "http://localhost"})
	}
}

// breakBytes breaks the JSON itself.
func (d *Drawer) breakBytes(r *Request) {
	r.Broken = "bytes"
	deep := strings.Repeat("[", 20000)
	whole := string(r.Body)
	r.Body = []byte(pick(d, []string{
		"", "{", "}", "null", "[]", "1", `""`, "\xef\xbb\xbf" + whole, whole + whole, whole + "x", "\xff\xfe", `{"a":1,"a":2}`, `{"a"}`, `{'a':1}`, `{"` + "\xff" + `":1}`,
		deep, `{"metadata":` + deep + strings.Repeat("]", 20000) + "}", `{"command":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000) + "}",
		`{"cmd":"` + strings.Repeat("\\u0000", 1000) + `"}`, whole[:len(whole)/2], strings.Repeat(" ", 100000) + whole, `{"path":"\ud800"}`, `{"content":"\udfff\ud800","path":"a"}`,
	}))
}

// breakValue puts an odd value into a JSON body.
func (d *Drawer) breakValue(r *Request) {
	var value any
	if r.Type != "application/json" || json.Unmarshal(r.Body, &value) != nil {
		d.breakQuery(r)
		return
	}
	r.Broken = "value"
	root, ok := value.(object)
	if !ok || len(root) == 0 {
		r.Body = text(pick(d, odd))
		return
	}
	d.breakOne(root, &r.Broken)
	r.Body = text(root)
}

// breakOne changes one property of an object, or adds one.
func (d *Drawer) breakOne(o object, how *string) {
	keys := slices.Sorted(maps.Keys(o))
	if len(keys) == 0 || d.chance(10) {
		o["unknown"+strconv.Itoa(d.Random.IntN(3))] = pick(d, odd)
		return
	}
	key := pick(d, keys)
	*how += " " + key
	switch child := o[key].(type) {
	case object:
		if d.chance(2) {
			d.breakOne(child, how)
			return
		}
	case []any:
		if len(child) > 0 && d.chance(2) {
			child[d.Random.IntN(len(child))] = pick(d, odd)
			return
		}
	case string:
		if d.chance(5) {
			o[key] = strings.Repeat("a", 1<<17)
			return
		}
	}
	if d.chance(10) {
		delete(o, key)
		return
	}
	o[key] = pick(d, odd)
}
