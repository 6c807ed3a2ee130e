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
// servers repeat what they are sent. It does not see what they make of it.
func (s Secret) Hide(header http.Header) {
	forms := s.forms()
	for _, values := range header {
		for i, value := range values {
			for _, form := range forms {
				value = strings.ReplaceAll(value, form, s.Placeholder)
			}
			values[i] = value
		}
	}
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
func HideIn(body io.Reader, secrets []Secret) io.Reader {
	h := &hidden{from: body}
	for _, s := range secrets {
		for _, form := range s.forms() {
			h.forms = append(h.forms, hiddenForm{[]byte(form), []byte(s.Placeholder)})
			h.longest = max(h.longest, len(form))
		}
	}
	slices.SortStableFunc(h.forms, func(a, b hiddenForm) int { return len(b.text) - len(a.text) })
	return h
}

// hidden is a body that is looked through while it passes.
type hidden struct {
	from    io.Reader
	forms   []hiddenForm // the longest first
	longest int

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
func (h *hidden) unfinished(text []byte) int {
	for n := min(len(text), h.longest-1); n > 0; n-- {
		end := text[len(text)-n:]
		for _, form := range h.forms {
			if len(form.text) > n && bytes.HasPrefix(form.text, end) {
				return n
			}
		}
	}
	return 0
}
