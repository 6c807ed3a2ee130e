package api

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// jsonAppender is what appends itself to b as JSON without a newline. It is for
// what is sent often and may be long; all else is left to encoding/json.
type jsonAppender interface {
	AppendJSON(b []byte) []byte
}

// appendJSON appends v to b as JSON without a newline and without escapes for
// HTML.
func appendJSON(b []byte, v any) ([]byte, error) {
	if a, ok := v.(jsonAppender); ok {
		return a.AppendJSON(b), nil
	}
	buf := bytes.NewBuffer(b)
	encoder := json.NewEncoder(buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// AppendJSONString appends text to b as a JSON string, with the escapes that
// encoding/json uses when it does not care for HTML. Each run of bytes that are
// no UTF-8 becomes one U+FFFD, as in strings.ToValidUTF8; valid says that there
// was none.
func AppendJSONString(b, text []byte) (_ []byte, valid bool) {
	valid = true
	b = append(b, '"')
	for len(text) > 0 {
		if text[0] < utf8.RuneSelf {
			n := 0
			b, n = appendASCII(b, text)
			text = text[n:]
			continue
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			valid = false
			size = invalidRun(text)
			b = append(b, "\uFFFD"...)
		case r == '\u2028':
			b = append(b, `\u2028`...)
		case r == '\u2029':
			b = append(b, `\u2029`...)
		default:
			b = append(b, text[:size]...)
		}
		text = text[size:]
	}
	return append(b, '"'), valid
}

// appendASCII appends the ASCII at the start of text, which is n bytes long.
func appendASCII(b, text []byte) (_ []byte, n int) {
	const hex = "0123456789abcdef"
	for n < len(text) && text[n] < utf8.RuneSelf {
		c := text[n]
		switch e := escapes[c]; e {
		case plain:
			b = append(b, c)
		case numbered:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		default:
			b = append(b, '\\', e)
		}
		n++
	}
	return b, n
}

// invalidRun is how many bytes at the start of text are no UTF-8.
func invalidRun(text []byte) int {
	n := 0
	for n < len(text) {
		if r, size := utf8.DecodeRune(text[n:]); r != utf8.RuneError || size != 1 {
			break
		}
		n++
	}
	return n
}

// escapes has for each ASCII character plain, numbered, or what follows the
// backslash.
var escapes = func() (e [utf8.RuneSelf]byte) {
	for c := range byte(' ') {
		e[c] = numbered
	}
	e['\b'], e['\f'], e['\n'], e['\r'], e['\t'] = 'b', 'f', 'n', 'r', 't'
	e['"'], e['\\'] = '"', '\\'
	return e
}()

const (
	plain    = 0
	numbered = 'u'
)
