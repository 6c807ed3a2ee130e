// Package console serves the page on which people see and steer their sandboxes. The
// page itself is made of web/ and checked in below dist, so that a build needs no
// Node; `task web:build` makes it anew. It is a client of the API like any other: what
// it may is decided there.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"embed"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

//go:embed all:dist
var built embed.FS

// Built is the page that the build has: index.html as it is, and each asset twice,
// packed as .br and .gz.
func Built() fs.FS {
	dist, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // the name is ours
	}
	return dist
}

// pages are the addresses of the page; what it shows at each it decides itself.
var pages = []string{"/{$}", "/sessions", "/sessions/{id}", "/images", "/snapshots", "/workspaces", "/secrets", "/usage", "/users", "/audit", "/host"}

// New returns the surface. It needs no key: the page asks for one, and has nothing
// before somebody has signed in.
func New(page fs.FS) api.Surface {
	s := &surface{page: page}
	routes := []api.Route{{Pattern: "GET /assets/{file}", Scope: api.Public, Handler: http.HandlerFunc(s.asset)}}
	for _, pattern := range pages {
		routes = append(routes, api.Route{Pattern: "GET " + pattern, Scope: api.Public, Handler: http.HandlerFunc(s.index)})
	}
	return api.Surface{Name: "console", Routes: routes}
}

type surface struct{ page fs.FS }

// nonceMark stands in the page for the nonce of each answer.
const nonceMark = "__NONCE__"

// policy lets the page load what the daemon itself serves, and nothing else. A style
// that is made in the page needs the nonce: the terminal makes some. Scripts are files,
// and no text becomes one.
func policy(nonce string) string {
	return strings.Join([]string{
		"default-src 'none'", "script-src 'self'", "style-src 'self' 'nonce-" + nonce + "'", "img-src 'self' blob:", "font-src 'self'", "connect-src 'self'", "frame-src 'self'",
		"base-uri 'none'", "form-action 'self'", "require-trusted-types-for 'script'", "trusted-types 'none'",
	}, "; ")
}

// permissions takes from the page what it does not need: all that browsers ask people for, but
// the clipboard.
const permissions = "accelerometer=(), autoplay=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), magnetometer=(), " +
	"microphone=(), midi=(), payment=(), publickey-credentials-get=(), screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()"

func (s *surface) index(w http.ResponseWriter, r *http.Request) {
	text, err := fs.ReadFile(s.page, "index.html")
	if err != nil {
		api.WriteError(w, r, errdefs.New(errdefs.NotFound, "this build has no page in it: run `go tool task web:build`, which needs Node, and build again; the documentation is at /docs"))
		return
	}
	nonce := rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	api.PageHeaders(h, policy(nonce))
	h.Set("Permissions-Policy", permissions)
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(bytes.ReplaceAll(text, []byte(nonceMark), []byte(nonce))) // a client that has left is no failure
}

// asset serves a file whose name changes with its content.
func (s *surface) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	encoding := encodingFor(r.Header.Get("Accept-Encoding"))
	ending := ".gz"
	if encoding == "br" {
		ending = ".br"
	}
	data, err := fs.ReadFile(s.page, path.Join("assets", path.Base(name)+ending))
	if err != nil || path.Base(name) != name {
		api.WriteError(w, r, errdefs.New(errdefs.NotFound, "there is no such file: the page is of another version than the daemon; load it again"))
		return
	}
	h := w.Header()
	if encoding == "" {
		if data, err = unpack(data); err != nil {
			api.WriteError(w, r, err)
			return
		}
	} else {
		h.Set("Content-Encoding", encoding)
	}
	kind := mime.TypeByExtension(path.Ext(name))
	switch path.Ext(name) { // not as a host's list of types may say
	case ".js":
		kind = "text/javascript; charset=utf-8"
	case ".css":
		kind = "text/css; charset=utf-8"
	case ".svg":
		kind = "image/svg+xml"
	}
	h.Set("Content-Type", kind)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(data) // a client that has left is no failure
}

// encodingFor is the packing that a client takes, and "" if it takes none of ours.
func encodingFor(accepts string) string {
	takes := map[string]bool{}
	for one := range strings.SplitSeq(accepts, ",") {
		name, parameters, _ := strings.Cut(strings.TrimSpace(one), ";")
		takes[strings.ToLower(name)] = strings.ReplaceAll(parameters, " ", "") != "q=0"
	}
	switch {
	case takes["br"]:
		return "br"
	case takes["gzip"]:
		return "gzip"
	}
	return ""
}

// unpack is the file as it was before it was packed.
func unpack(packed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
}
