package preview

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// FuzzCredentials sends whatever queries and cookies: no server finds our token
// in what goes in, and every other parameter is still there.
func FuzzCredentials(f *testing.F) {
	for _, seed := range []string{
		"preview_token=x", "a=1&preview_token=x&b=2", "preview%5ftoken=x", "preview_token", "&&preview_token=&", "a=preview_token=x", "p=%zz&%70review_token=x",
		"sandkasten_preview=x", "a=1; sandkasten_preview=x; b=2", " sandkasten_preview = x", `d="x;sandkasten_preview=x"`, "sandkasten_preview", ";=;",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before, after := parameters(text), parameters(withoutToken(text))
		if after.Has(tokenParam) {
			t.Errorf("the query %q goes in as %q", text, withoutToken(text))
		}
		before.Del(tokenParam)
		if before.Encode() != after.Encode() {
			t.Errorf("of %q is left %q", before.Encode(), after.Encode())
		}
		header := http.Header{"Cookie": {text}}
		cleanRequest(header)
		for _, cookie := range (&http.Request{Header: header}).Cookies() {
			if cookie.Name == tokenCookie {
				t.Errorf("the cookies %q go in as %q", text, header["Cookie"])
			}
		}
	})
}

// parameters are those that can be read: one that cannot does not hide others.
func parameters(query string) url.Values {
	all := url.Values{}
	for part := range strings.SplitSeq(query, "&") {
		one, err := url.ParseQuery(part)
		if err != nil {
			continue
		}
		for name, values := range one {
			all[name] = append(all[name], values...)
		}
	}
	return all
}
