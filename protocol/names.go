package protocol

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A name of a file is bytes, and JSON has text. EscapeName writes each byte that is not
// UTF-8 as \xHH, and the backslash of what already looks like that as \x5c, so that
// UnescapeName returns the same bytes. All other names are as they are. Answers of the
// runner have escaped names, and requests to it, too.

const hexDigits = "0123456789abcdef"

// EscapeName returns a name as text.
func EscapeName(name string) string {
	if utf8.ValidString(name) && !strings.Contains(name, `\x`) {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		_, escape := escaped(name[i:])
		if r == utf8.RuneError && size == 1 || escape {
			b.WriteString(`\x`)
			b.WriteByte(hexDigits[name[i]>>4])
			b.WriteByte(hexDigits[name[i]&15])
			i++
			continue
		}
		b.WriteString(name[i : i+size])
		i += size
	}
	return b.String()
}

// UnescapeName returns the name whose text that is.
func UnescapeName(text string) string {
	if !strings.Contains(text, `\x`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		if c, ok := escaped(text[i:]); ok {
			b.WriteByte(c)
			i += len(`\xHH`)
			continue
		}
		b.WriteByte(text[i])
		i++
	}
	return b.String()
}

// escaped reports whether s begins with \xHH of a byte that EscapeName escapes. ASCII
// never is, but for the backslash: no escape hides a slash or a zero byte.
func escaped(s string) (byte, bool) {
	if len(s) < 4 || s[:2] != `\x` {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:4], 16, 8)
	if err != nil || n < utf8.RuneSelf && n != '\\' {
		return 0, false
	}
	return byte(n), true
}
