package site

import (
	"io/fs"
	"net/http"
	"path"
	"sync"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// policy lets a page load files of the site and openapi.json, and nothing
// else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".json": "application/json",
}

// New serves the site made of source at /docs, to everybody: it is the same for all,
// and public. It is built when somebody
// first asks for it.
func New(source fs.FS) api.Surface {
	files := sync.OnceValues(func() (map[string][]byte, error) { return Build(source) })
	return api.Surface{Name: "docs", Routes: []api.Route{
		// The pages' links are relative to a directory.
		{Pattern: "GET /docs", Scope: api.Public, Handler: http.RedirectHandler("/docs/", http.StatusTemporaryRedirect)},
		{Pattern: "GET /docs/{file...}", Scope: api.Public, Handler: serve(files)},
	}}
}

func serve(files func() (map[string][]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		all, err := files()
		if err != nil {
			api.WriteError(w, r, err)
			return
		}
		name := r.PathValue("file")
		if name == "" || name[len(name)-1] == '/' {
			name += "index.html"
		}
		content, ok := all[name]
		if !ok {
			api.WriteError(w, r, errdefs.New(errdefs.NotFound, "there is no such page; /docs/ lists all"))
			return
		}
		header := w.Header()
		header.Set("Content-Type", types[path.Ext(name)])
		header.Set("Content-Security-Policy", policy)
		header.Set("Referrer-Policy", "no-referrer")
		if _, err := w.Write(content); err != nil {
			api.Failed(r.Context(), err)
		}
	}
}
