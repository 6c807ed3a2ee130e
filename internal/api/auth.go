package api

import (
	"net/http"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// maxKey bounds what is hashed for a caller whom we do not know yet.
const maxKey = 512

// credential returns the one API key that a request shows. None, more than
// one, or one in an unknown form is Unauthenticated.
func credential(r *http.Request, scope Scope) (string, error) {
	bearer, apiKey := r.Header["Authorization"], r.Header["X-Api-Key"]
	if len(bearer)+len(apiKey) != 1 {
		return "", errUnauthenticated(nil)
	}
	var key string
	if len(apiKey) == 1 {
		key = apiKey[0]
	} else if scheme, rest, ok := strings.Cut(bearer[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
		key = rest
	} else if _, password, ok := r.BasicAuth(); ok && scope == Page {
		key = password
	}
	if key == "" || len(key) > maxKey {
		return "", errUnauthenticated(nil)
	}
	return key, nil
}

// errUnauthenticated is the one answer to every wrong key, so that it tells
// nothing about the right one.
func errUnauthenticated(cause error) error {
	return errdefs.Wrap(cause, errdefs.Unauthenticated, "a valid API key is needed: send Authorization: Bearer <key> or X-API-Key: <key>")
}
