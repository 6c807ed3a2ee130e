package v1

import (
	"embed"
	"net/http"
	"path"

	"github.com/sandkasten/sandkasten/internal/api"
)

// page is the reference at /docs: a small program that draws openapi.json.
//
//go:embed page/*
var page embed.FS

// pagePolicy lets the page load its own two files and openapi.json, and
// nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
}

// servePage serves one of the page's files.
func servePage(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		content, err := page.ReadFile("page/" + name)
		if err != nil {
			api.WriteError(w, r, err)
			return
		}
		header := w.Header()
		header.Set("Content-Type", pageTypes[path.Ext(name)])
		header.Set("Content-Security-Policy", pagePolicy)
		header.Set("Referrer-Policy", "no-referrer")
		if _, err := w.Write(content); err != nil {
			api.Failed(r.Context(), err)
		}
	}
}
