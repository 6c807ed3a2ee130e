package network

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Hide puts the placeholder where the value stands in a header of an answer: some
// servers repeat what they are sent. A header with the value in its name goes. It does not
// see what they make of it.
func (s Compiled) Hide(header http.Header) {
	for name, values := range header {
		if slices.ContainsFunc(s.forms, func(form string) bool { return isIn(name, form) }) {
			delete(header, name)
			continue
		}
		for i, value := range values {
			for _, form := range s.forms {
				value = strings.ReplaceAll(value, form, s.Placeholder)
			}
			values[i] = value
		}
	}
}

// isIn reports whether a form stands in the name of a header, which has letters of its own.
// Most values are longer than any name, and cost nothing.
func isIn(name, form string) bool {
	return len(form) <= len(name) && strings.Contains(strings.ToLower(name), strings.ToLower(form))
}

// forms are the ways in which servers write a value, the longest first: as it is, in
// JSON, in URLs and in base64.
func (s Secret) forms() []string {
	var forms []string
	for _, text := range []string{s.Value, s.token()} {
		forms = append(forms, text, url.QueryEscape(text), url.PathEscape(text))
		forms = append(forms, lowerEscapes(url.QueryEscape(text)), lowerEscapes(url.PathEscape(text)))
		if quoted, err := json.Marshal(text); err == nil {
			inner := string(quoted[1 : len(quoted)-1])
			forms = append(forms, inner, strings.ReplaceAll(text, `"`, `\"`), strings.ReplaceAll(inner, "/", `\/`))
		}
	}
	for before := range 3 {
		core := base64Core(s.token(), before)
		forms = append(forms, core, strings.NewReplacer("+", "-", "/", "_").Replace(core))
	}
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.DeleteFunc(slices.Compact(forms), func(form string) bool { return len(form) < minSecret })
}

// lowerEscapes writes the percent escapes of a text in lower case.
func lowerEscapes(text string) string {
	parts := strings.Split(text, "%")
	for i := range parts[1:] {
		if part := parts[i+1]; len(part) >= 2 {
			parts[i+1] = strings.ToLower(part[:2]) + part[2:]
		}
	}
	return strings.Join(parts, "%")
}

// base64Core is what a text has in common wherever it stands in base64, if the number
// of bytes before it is before, modulo 3: as the password in basic authentication.
func base64Core(text string, before int) string {
	coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + text))
	first := (8*before + 5) / 6            // the first digit with no bits of what is before
	last := (8 * (before + len(text))) / 6 // behind the last one with no bits of what follows
	return coded[first:last]
}

// HideIn returns a body without the values of secrets: their placeholders stand there
// instead. It keeps back what may become a value, and nothing else.
func HideIn(body io.Reader, secrets []Compiled) io.Reader {
	h := &hidden{from: body}
	for _, s := range secrets {
		for _, form := range s.forms {
			h.forms = append(h.forms, hiddenForm{[]byte(form), []byte(s.Placeholder)})
		}
	}
	slices.SortStableFunc(h.forms, func(a, b hiddenForm) int { return len(b.text) - len(a.text) })
	return h
}

// hidden is a body that is looked through while it passes.
type hidden struct {
	from  io.Reader
	forms []hiddenForm // the longest first

	kept  []byte // read, and may become a value
	ready []byte // to be returned
	err   error  // behind all that
	buf   []byte
}

type hiddenForm struct{ text, placeholder []byte }

const hidingBuffer = 32 << 10

// Read implements io.Reader.
func (h *hidden) Read(p []byte) (int, error) {
	if h.buf == nil {
		h.buf = make([]byte, hidingBuffer)
	}
	for len(h.ready) == 0 && h.err == nil {
		var n int
		n, h.err = h.from.Read(h.buf)
		h.look(append(h.kept, h.buf[:n]...))
	}
	n := copy(p, h.ready)
	h.ready = h.ready[n:]
	if len(h.ready) > 0 {
		return n, nil
	}
	return n, h.err
}

// look hides the values in a text, which begins with what was kept.
func (h *hidden) look(text []byte) {
	for _, form := range h.forms {
		if bytes.Contains(text, form.text) {
			text = bytes.ReplaceAll(text, form.text, form.placeholder)
		}
	}
	keep := 0
	if h.err == nil {
		keep = h.unfinished(text)
	}
	h.ready = text[:len(text)-keep]
	h.kept = bytes.Clone(text[len(text)-keep:])
}

// unfinished is how many bytes at the end of a text may be the beginning of a value.
func (h *hidden) unfinished(text []byte) (keep int) {
	for _, form := range h.forms {
		for at := max(0, len(text)-len(form.text)+1); at < len(text)-keep; at++ {
			next := bytes.IndexByte(text[at:len(text)-keep], form.text[0])
			if next < 0 {
				break
			}
			if at += next; bytes.HasPrefix(form.text, text[at:]) {
				keep = len(text) - at
			}
		}
	}
	return keep
}
