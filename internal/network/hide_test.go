package network

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

// written are a secret's forms as servers write them.
func written(t *testing.T, value, token string) map[string]string {
	t.Helper()
	quoted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"the value": value, "the token": token, "a query": url.QueryEscape(token), "a path": url.PathEscape(value),
		"a query in lower case": strings.ToLower(url.QueryEscape(token)), "JSON": string(quoted), "JSON of PHP": strings.ReplaceAll(string(quoted), "/", `\/`),
		"base64": base64.StdEncoding.EncodeToString([]byte(value)), "base64 of the token": base64.StdEncoding.EncodeToString([]byte(token)),
	}
	for _, user := range []string{"", "a", "me", "you"} {
		forms["basic authentication of "+user] = base64.StdEncoding.EncodeToString([]byte(user + ":" + token))
		forms["base64 of URLs in a text behind "+user] = base64.RawURLEncoding.EncodeToString([]byte(user + token + " and more"))
	}
	return forms
}

// leaks reports whether a text has the token in some form, or nearly.
func leaks(text, token string) bool {
	for before := range 3 {
		core := base64Core(token, before)
		if strings.Contains(text, core[2:len(core)-2]) {
			return true
		}
	}
	return strings.Contains(text, token) || strings.Contains(text, url.QueryEscape(token)) || strings.Contains(text, token[:len(token)-1])
}

func TestValuesAreHiddenInBodies(t *testing.T) {
	t.Parallel()
	const token = "s3cr+t/w&th\"<signs>"
	secret := Secret{Value: "Bearer " + token, Placeholder: NewPlaceholder()}
	for about, form := range written(t, secret.Value, token) {
		for _, around := range []string{"%", "Bearer s3cr%Bear", "s3c%s3cr+t/w", "%%", "\x00%\xff"} {
			body := strings.ReplaceAll(around, "%", form)
			var outs []string
			for _, from := range []io.Reader{strings.NewReader(body), iotest.OneByteReader(strings.NewReader(body)), iotest.HalfReader(strings.NewReader(body)), iotest.DataErrReader(strings.NewReader(body))} {
				out, err := io.ReadAll(HideIn(from, []Compiled{compiled(secret)}))
				if err != nil || leaks(string(out), token) || !strings.Contains(string(out), secret.Placeholder) {
					t.Errorf("%s in %q: %q, %v", about, around, out, err)
				}
				outs = append(outs, string(out))
			}
			if outs[0] != outs[1] || outs[0] != outs[3] {
				t.Errorf("%s in %q: pieces make a difference: %q", about, around, outs)
			}
		}
		header := http.Header{"Echo": {form}}
		if compiled(secret).Hide(header); leaks(header.Get("Echo"), token) {
			t.Errorf("%s in a header: %q", about, header.Get("Echo"))
		}
	}
}

func TestOtherBodiesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	secret := Secret{Value: "the-real-one", Placeholder: NewPlaceholder()}
	other := Secret{Value: "the-real-two", Placeholder: NewPlaceholder()}
	for _, body := range []string{"", "t", "the-real-on", "the-real-the-real-on", strings.Repeat("the-real", 20000)} {
		out, err := io.ReadAll(HideIn(strings.NewReader(body), []Compiled{compiled(secret), compiled(other)}))
		if err != nil || string(out) != body {
			t.Errorf("%.50q: %.50q, %v", body, out, err)
		}
	}
	broken := errors.New("broken")
	out, err := io.ReadAll(HideIn(io.MultiReader(strings.NewReader("the-re"), iotest.ErrReader(broken)), []Compiled{compiled(secret)}))
	if string(out) != "the-re" || !errors.Is(err, broken) {
		t.Errorf("%q, %v", out, err)
	}
	out, err = io.ReadAll(HideIn(strings.NewReader("the-real-one the-real-two"), []Compiled{compiled(secret), compiled(other)}))
	if want := secret.Placeholder + " " + other.Placeholder; string(out) != want || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// A stream of events is not held up by what its next bytes could be.
func TestBodiesAreNotHeldUp(t *testing.T) {
	t.Parallel()
	secret := Secret{Value: "the-real-one", Placeholder: NewPlaceholder()}
	from, to := io.Pipe()
	defer from.Close()
	body := HideIn(from, []Compiled{compiled(secret)})
	buf := make([]byte, 100)
	for _, piece := range []struct{ in, out string }{{"data: 1\n\n", "data: 1\n\n"}, {"data: the-r", "data: "}, {"ight\n", "the-right\n"}} {
		go io.WriteString(to, piece.in)
		if n, err := body.Read(buf); string(buf[:n]) != piece.out || err != nil {
			t.Fatalf("%q: %q, %v", piece.in, buf[:n], err)
		}
	}
}
