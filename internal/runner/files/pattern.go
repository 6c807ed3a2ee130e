package files

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/protocol"
)

// pattern is a compiled glob pattern. Matching takes time linear in the path,
// whatever the pattern.
type pattern struct {
	re     *regexp.Regexp
	hidden bool     // names that begin with a dot are like others
	dotted bool     // the pattern itself begins a name with a dot
	prefix []string // names that every match begins with
	depth  int      // of the deepest match; 0 is any
}

// compilePattern compiles a glob pattern.
func compilePattern(glob string, hidden bool) (*pattern, error) {
	if glob == "" || len(glob) > protocol.MaxPattern {
		return nil, badPattern("it must have 1 to %d bytes", protocol.MaxPattern)
	}
	glob = strings.TrimPrefix(asText(glob), "./")
	if strings.HasPrefix(glob, "/") {
		return nil, badPattern("it must be relative: it is matched below path")
	}
	if !strings.Contains(glob, "/") {
		glob = "**/" + glob
	}
	t := translator{rest: glob, start: true}
	if err := t.run(); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(`(?s)\A(?:` + t.out.String() + `)\z`)
	if err != nil {
		return nil, badPattern("a [...] in it is not valid")
	}
	p := &pattern{re: re, hidden: hidden, dotted: t.dotted}
	if !strings.ContainsAny(glob, `{\`) { // else a slash may lie within
		parts := strings.Split(glob, "/")
		if !strings.Contains(glob, "**") {
			p.depth = len(parts)
		}
		for _, part := range parts[:len(parts)-1] {
			if strings.ContainsAny(part, "*?[") {
				break
			}
			p.prefix = append(p.prefix, part)
		}
	}
	return p, nil
}

// strayByte plus a byte that is not UTF-8 stands for it in what is matched: expressions are
// of text. It is for private use, and the last of all.
const strayByte = 0x10ff00

// asText replaces what is written as \xHH in a pattern, as in names.
func asText(glob string) string {
	var text strings.Builder
	for i := 0; i < len(glob); {
		if glob[i] != '\\' || i+1 == len(glob) {
			text.WriteByte(glob[i])
			i++
			continue
		}
		name := protocol.UnescapeName(glob[i:min(len(glob), i+4)])
		switch {
		case len(name) > 1:
			text.WriteString(glob[i : i+2])
			i += 2
			continue
		case name == `\`:
			text.WriteString(`\\`)
		default:
			text.WriteRune(strayByte + rune(name[0]))
		}
		i += 4
	}
	return text.String()
}

// withStrays replaces the bytes of a path that are not UTF-8.
func withStrays(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	var text strings.Builder
	for len(path) > 0 {
		r, size := utf8.DecodeRuneInString(path)
		if r == utf8.RuneError && size == 1 {
			r = strayByte + rune(path[0])
		}
		text.WriteRune(r)
		path = path[size:]
	}
	return text.String()
}

func badPattern(format string, args ...any) error {
	e := protocol.Refuse(protocol.CodeInvalid, format, args...)
	e.Message = "the pattern is not valid: " + e.Message
	return e
}

// matches reports whether a path, relative and clean, fits.
func (p *pattern) matches(path string) bool {
	if !p.hidden {
		path = markHidden(path)
	}
	return p.re.MatchString(withStrays(path))
}

// markHidden puts a zero byte, which no name has and no wildcard matches,
// before every name that begins with a dot.
func markHidden(path string) string {
	if path[0] == '.' {
		path = "\x00" + path
	}
	return strings.ReplaceAll(path, "/.", "/\x00.")
}

// enters reports whether something below the directory, which has that many
// above it, may match.
func (p *pattern) enters(name string, depth int) bool {
	switch {
	case p.depth > 0 && depth+1 >= p.depth:
		return false
	case depth < len(p.prefix):
		return withStrays(name) == p.prefix[depth]
	}
	return p.hidden || p.dotted || name[0] != '.'
}

// translator makes a regular expression of a glob pattern.
type translator struct {
	rest   string
	out    strings.Builder
	start  bool // at the beginning of a name
	dotted bool
	braces int
}

func (t *translator) run() error {
	for t.rest != "" {
		c := t.rest[0]
		start := t.start
		t.start = false
		switch {
		case c == '*':
			t.star(start)
		case c == '?':
			t.emit(`[^/\x00]`, 1)
		case c == '[':
			if err := t.class(); err != nil {
				return err
			}
		case c == '{':
			if t.braces++; t.braces > 8 {
				return badPattern("its {...} are more than 8 deep")
			}
			t.emit(`(?:`, 1)
			t.start = start
		case c == '}' && t.braces > 0:
			t.braces--
			t.emit(`)`, 1)
		case c == ',' && t.braces > 0:
			t.emit(`|`, 1)
			t.start = true
		case c == '/':
			t.emit(`/`, 1)
			t.start = true
		case c == '.' && start:
			t.dotted = true
			t.emit(`\x00?\.`, 1)
		case c == '\\':
			if len(t.rest) < 2 {
				return badPattern("it ends with a backslash")
			}
			t.rest = t.rest[1:]
			t.literal()
		default:
			t.literal()
		}
	}
	if t.braces > 0 {
		return badPattern("a { in it is not closed")
	}
	return nil
}

func (t *translator) emit(re string, used int) {
	t.out.WriteString(re)
	t.rest = t.rest[used:]
}

// star translates * and, as a whole name, **.
func (t *translator) star(start bool) {
	switch {
	case start && strings.HasPrefix(t.rest, "**/"):
		t.emit(`(?:[^/\x00]+/)*`, 3)
		t.start = true
	case start && t.rest == "**":
		t.emit(`[^/\x00]+(?:/[^/\x00]+)*`, 2)
	default:
		t.emit(`[^/\x00]*`, 1)
	}
}

// class translates [...].
func (t *translator) class() error {
	end := strings.IndexByte(t.rest[min(2, len(t.rest)):], ']')
	if end < 0 {
		return badPattern("a [ in it is not closed")
	}
	body := t.rest[1 : end+2]
	not := ""
	if body[0] == '!' || body[0] == '^' {
		not, body = `^/\x00`, body[1:]
	}
	if body == "" || strings.ContainsAny(body, "/") {
		return badPattern("a [...] in it is empty or has a slash")
	}
	// A dash stays what it is; all else that means something to regexp does not.
	quoted := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `&`, `\&`, `~`, `\~`).Replace(body)
	t.emit(`[`+not+quoted+`]`, end+3)
	return nil
}

// literal takes one character as it is.
func (t *translator) literal() {
	for i := range t.rest {
		if i > 0 {
			t.emit(regexp.QuoteMeta(t.rest[:i]), i)
			return
		}
	}
	t.emit(regexp.QuoteMeta(t.rest), len(t.rest))
}
