// Package shapes has what the handlers of several parts of /v1 share: the path
// of a session, the answer where there is nothing to say, and the way of a
// handler that writes its answer by itself. Handlers and what only one part
// needs do not belong here.
package shapes

import (
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// SessionPath is what every route of one session takes. It is exported, as is
// what else is embedded in inputs, because huma passes over what is not.
type SessionPath struct {
	ID string `path:"id" doc:"The session's id, its name, or the beginning of its id, of three characters or more, if no other of the key's sessions begins so." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
}

// OK is the answer where there is nothing to say.
type OK struct {
	OK bool `json:"ok" example:"true"`
}

// OKOutput is OK as huma wants it.
type OKOutput struct{ Body OK }

// Done is the OKOutput.
func Done() *OKOutput { return &OKOutput{OK{true}} }

// Exchange is a huma.Context that knows its request and where to answer it. All
// contexts of this surface are one.
type Exchange interface {
	HTTP() (http.ResponseWriter, *http.Request)
}

// Streaming is the answer of a route that writes by itself once its input was
// accepted. Until then it fails like any other.
func Streaming(handle func(w http.ResponseWriter, r *http.Request)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		handle(ctx.(Exchange).HTTP())
	}}
}

// FieldName keeps a field's name, which a client may have chosen, short and
// printable.
func FieldName(name string) string {
	const most = 128
	if len(name) > most {
		name = name[:most] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
}
