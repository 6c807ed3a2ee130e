package api

import (
	"net/http"
	"slices"
)

// What scripts of other origins may send and see, beyond what every page may.
const (
	corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE"
	corsSends   = "Authorization, X-API-Key, Content-Type, Idempotency-Key, Last-Event-ID, If-Match, If-None-Match, If-Range, Range, X-Request-Id"
	corsSees    = "X-Request-Id, Retry-After, ETag, Content-Range, Content-Disposition"
	corsSeconds = "600" // for which a browser remembers that
)

// fromOrigin tells browsers what a page of a configured origin may do, marks
// the request as allowed, and answers it if it is only a browser's question
// whether it may ask.
//
// Such a page has what its own key opens. Cookies are dropped: they are the
// visitor's, and would open previews to a page that was never given them.
func (h *handler) fromOrigin(w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(h.origins) == 0 {
		return false
	}
	header := w.Header()
	header.Add("Vary", "Origin")
	origins := r.Header["Origin"]
	if len(origins) != 1 || !slices.Contains(h.origins, origins[0]) {
		return false
	}
	From(r.Context()).otherOrigin = true
	r.Header.Del("Cookie")
	header.Set("Access-Control-Allow-Origin", origins[0])
	header.Set("Access-Control-Expose-Headers", corsSees)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	header.Set("Access-Control-Allow-Methods", corsMethods)
	header.Set("Access-Control-Allow-Headers", corsSends)
	header.Set("Access-Control-Max-Age", corsSeconds)
	w.WriteHeader(http.StatusNoContent)
	return true
}
