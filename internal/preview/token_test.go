package preview

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/rawpath"
)

const (
	idA = "aaaaaaaaaaaaaaaaaaaaaaaaaa"
	idB = "bbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// maker is who makes tokens.
var maker = auth.Principal{Owner: "alice", ID: "api_keys[0]"}

// credentials are those that open anything.
type credentials map[string]auth.Hash

func (c credentials) HashOf(id string) (hash auth.Hash, ok bool) {
	hash, ok = c[id]
	return hash, ok
}

// A token ends with the credential that it was made with, and with another one of its name.
func TestTokensEndWithWhatMadeThem(t *testing.T) {
	keys := credentials{maker.ID: {1}, "other": {2}}
	p := New(Options{Credentials: keys})
	mine := Target{idA, 3000}
	token, _, err := p.Issue(maker, mine, 0)
	if err != nil {
		t.Fatal(err)
	}
	stands := func() bool { _, ok := p.expiry(mine, token); return ok }
	if !stands() {
		t.Error("it opens nothing")
	}
	keys[maker.ID] = auth.Hash{3}
	if stands() {
		t.Error("it outlives its key, whose id another has")
	}
	delete(keys, maker.ID)
	if stands() {
		t.Error("it outlives its key")
	}
	if _, _, err := p.Issue(maker, mine, 0); !errdefs.Is(err, errdefs.PermissionDenied) {
		t.Errorf("made with what opens nothing: %v", err)
	}
	keys[maker.ID] = auth.Hash{1}
	if !stands() {
		t.Error("it does not stand with its key")
	}
}

// TestTokens: a token opens the port of the session that it was made for, and
// only while it lasts.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := credentials{maker.ID: {1}}
		p := New(Options{Secret: []byte("0123456789abcdef0123456789abcdef"), Credentials: keys})
		other := New(Options{Secret: []byte("another secret of thirty-two byt"), Credentials: keys})
		mine := Target{idA, 3000}
		token, expires, err := p.Issue(maker, mine, 0)
		if err != nil || time.Until(expires) > time.Hour || time.Until(expires) < time.Hour-2*time.Second {
			t.Fatalf("%q until %v, %v", token, expires, err)
		}
		forged, _, err := other.Issue(maker, mine, 0)
		if err != nil {
			t.Fatal(err)
		}
		restart := New(Options{Secret: []byte("0123456789abcdef0123456789abcdef"), Credentials: keys})
		for name, tt := range map[string]struct {
			p      *Previews
			target Target
			token  string
			want   bool
		}{
			"its own":          {p, mine, token, true},
			"after a restart":  {restart, mine, token, true},
			"another port":     {p, Target{idA, 3001}, token, false},
			"another session":  {p, Target{idB, 3000}, token, false},
			"another secret":   {p, mine, forged, false},
			"empty":            {p, mine, "", false},
			"prefix only":      {p, mine, tokenPrefix, false},
			"without prefix":   {p, mine, strings.TrimPrefix(token, tokenPrefix), false},
			"longer":           {p, mine, token + "A", false},
			"shorter":          {p, mine, token[:len(token)-1], false},
			"padded":           {p, mine, token + "==", false},
			"other characters": {p, mine, tokenPrefix + strings.Repeat("*", len(token)-len(tokenPrefix)), false},
			"no MAC":           {p, mine, tokenPrefix + strings.Repeat("A", len(token)-len(tokenPrefix)), false},
		} {
			if _, ok := tt.p.expiry(tt.target, tt.token); ok != tt.want {
				t.Errorf("%s: %v", name, ok)
			}
		}
		// No character can be another: not of the expiry, not of the MAC.
		for i := range token {
			changed := token[:i] + "B" + token[i+1:]
			if _, ok := p.expiry(mine, changed); ok && changed != token {
				t.Errorf("changed at %d, it is still valid", i)
			}
		}
		time.Sleep(time.Until(expires) - time.Second)
		if _, ok := p.expiry(mine, token); !ok {
			t.Error("it ends too early")
		}
		time.Sleep(time.Second)
		if _, ok := p.expiry(mine, token); ok {
			t.Error("it does not end")
		}
	})
}

func TestIssueRefuses(t *testing.T) {
	p := New(Options{MaxTTL: time.Minute})
	for ttl, ok := range map[time.Duration]bool{
		0: true, time.Second: true, time.Minute: true,
		time.Millisecond: false, -time.Second: false, time.Minute + 1: false, 1<<63 - 1: false,
	} {
		if _, _, err := p.Issue(maker, Target{idA, 1}, ttl); (err == nil) != ok || err != nil && !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%v: %v", ttl, err)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for _, tt := range []struct {
		id, port string
		code     errdefs.Code
	}{
		{idA, "1", ""},
		{idA, "65535", ""},
		{idA, "0", errdefs.InvalidArgument},
		{idA, "65536", errdefs.InvalidArgument},
		{idA, "99999", errdefs.InvalidArgument},
		{idA, "-1", errdefs.InvalidArgument},
		{idA, "+80", errdefs.InvalidArgument},
		{idA, "080", errdefs.InvalidArgument},
		{idA, "0x50", errdefs.InvalidArgument},
		{idA, "80@evil", errdefs.InvalidArgument},
		{idA, "80 ", errdefs.InvalidArgument},
		{idA, "", errdefs.InvalidArgument},
		{"short", "80", errdefs.NotFound},
		{strings.ToUpper(idA), "80", errdefs.NotFound},
		{idA + "a", "80", errdefs.NotFound},
		{"../../../../etc/passwd", "80", errdefs.NotFound},
	} {
		got, err := ParseTarget(tt.id, tt.port)
		if tt.code == "" && err != nil || tt.code != "" && !errdefs.Is(err, tt.code) {
			t.Errorf("%q %q: %+v, %v", tt.id, tt.port, got, err)
		}
	}
}

// TestSite: exactly the hosts of targets are sites.
func TestSite(t *testing.T) {
	p := New(Options{Domain: "preview.test"})
	for host, want := range map[string]bool{
		"3000-" + idA + ".preview.test":     true,
		"65535-" + idA + ".preview.test":    true,
		"0-" + idA + ".preview.test":        false,
		"03000-" + idA + ".preview.test":    false,
		"65536-" + idA + ".preview.test":    false,
		"-1-" + idA + ".preview.test":       false,
		"3000-short.preview.test":           false,
		"x.3000-" + idA + ".preview.test":   false,
		"3000-" + idA + ".x.preview.test":   false,
		"3000-" + idA + ".preview.test.":    false,
		"3000-" + idA + ".preview.test.org": false,
		"3000-" + idA + ".evil.test":        false,
		"3000-" + idA:                       false,
		"preview.test":                      false,
		"localhost":                         false,
		"":                                  false,
	} {
		if got := p.Site(host) != nil; got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
	if New(Options{}).Site("3000-"+idA+".") != nil {
		t.Error("without a domain there is a site")
	}
}

func TestURL(t *testing.T) {
	target := Target{idA, 3000}
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{}, "http:///prefix/"},
		{Options{HTTPS: true}, "https:///prefix/"},
		{Options{Domain: "preview.test"}, "http://3000-" + idA + ".preview.test/"},
	} {
		if got := New(tt.o).URL(t.Context(), target, "/prefix"); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.o, got, tt.want)
		}
	}
	for host, want := range map[string]string{"a": "", "a:1": ":1", "[::1]": "", "[::1]:2": ":2", "": ""} {
		if got := portSuffix(host); got != want {
			t.Errorf("%q: %q", host, got)
		}
	}
}

func TestWithoutToken(t *testing.T) {
	for query, want := range map[string]string{
		"":                              "",
		"preview_token=x":               "",
		"a=1&preview_token=x&b=2":       "a=1&b=2",
		"preview_token=x&preview_token": "",
		"preview%5ftoken=x&a":           "a",
		"a=%zz&b=%2F+&c":                "a=%zz&b=%2F+&c",
		"not_preview_token=1":           "not_preview_token=1",
	} {
		if got := withoutToken(query); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}

// Servers may read a query as they like: what one has that Go would not parse reaches them.
func TestQueriesPassAsTheyCame(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI }))
	defer server.Close()
	v := &visit{p: &Previews{}, target: Target{idA, 80}}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		v.rewrite(r)
		r.Out.URL.Host = strings.TrimPrefix(server.URL, "http://")
	}}
	for query, want := range map[string]string{
		"?flag&style=a;b": "?flag&style=a;b", "?%zz=%&b": "?%zz=%&b", "?a+b=%2F;": "?a+b=%2F;", "?": "?", "": "",
		"?x;y&preview_token=t&z": "?x;y&z",
	} {
		r := httptest.NewRequest(http.MethodGet, "/a%2fb"+query, nil)
		v.asked = askedFor(rawpath.Of(r), "")
		proxy.ServeHTTP(httptest.NewRecorder(), r)
		if got != "/a%2fb"+want {
			t.Errorf("%q arrives as %q", query, got)
		}
	}
}

func TestNavigation(t *testing.T) {
	for _, tt := range []struct {
		header map[string]string
		want   bool
	}{
		{map[string]string{"Sec-Fetch-Mode": "navigate"}, true},
		{map[string]string{"Sec-Fetch-Mode": "cors", "Accept": "text/html"}, false},
		{map[string]string{"Accept": "text/html,*/*"}, true},
		{map[string]string{"Accept": "*/*"}, false},
		{map[string]string{"Accept": "text/html", "Upgrade": "websocket"}, false},
		{nil, false},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		for name, value := range tt.header {
			r.Header.Set(name, value)
		}
		if got := navigation(r); got != tt.want {
			t.Errorf("%v: %v", tt.header, got)
		}
	}
}
