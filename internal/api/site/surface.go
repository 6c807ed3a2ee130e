package site

import (
	"io/fs"
	"net/http"
	"path"
	"sync"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// policy lets a page load files of the site and openapi.json, and ask the daemon that
// serves it. No text becomes a script or markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".json": "application/json",
	".svg":  "image/svg+xml",
	".webp": "image/webp",
}

// New serves the site made of source at /docs, to everybody: it is the same for all and
// holds nothing of this daemon. It is built when somebody first asks for it.
func New(source fs.FS, o Options) api.Surface {
	o.Daemon = true
	files := sync.OnceValues(func() (map[string][]byte, error) { return Build(source, o) })
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
		if page := pageOf(all, name); !ok && page != "" {
			http.Redirect(w, r, "/docs/"+page, http.StatusTemporaryRedirect)
			return
		}
		if !ok {
			api.WriteError(w, r, errdefs.New(errdefs.NotFound, "there is no such page; /docs/ lists all"))
			return
		}
		header := w.Header()
		header.Set("Content-Type", types[path.Ext(name)])
		api.PageHeaders(header, policy)
		if _, err := w.Write(content); err != nil {
			api.Failed(r.Context(), err)
		}
	}
}

// pageOf is the page that somebody means who leaves out the end of its name, or "".
func pageOf(all map[string][]byte, name string) string {
	if _, ok := all[name+".html"]; ok {
		return name + ".html"
	}
	if _, ok := all[name+"/index.html"]; ok {
		return name + "/"
	}
	return ""
}
