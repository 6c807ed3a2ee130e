// Package adapter puts the library huma between /v1 and the server: requests are
// checked against the document and errors have the shape of the contract, in our
// words. It knows no endpoint.
package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/weaken"
)

// config is huma without what we do not want of it: no routes of its own, no
// $schema links (they echo the Host header), JSON only, and errors in our
// shape. What differs is set here and in exchange, never in huma's package
// variables, which other surfaces would share.
func config() huma.Config {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	registry.RegisterTypeAlias(reflect.TypeFor[huma.ErrorModel](), reflect.TypeFor[api.ErrorBody]())
	return huma.Config{
		OpenAPI: &huma.OpenAPI{OpenAPI: "3.1.0", Components: &huma.Components{Schemas: registry}},
		Formats: map[string]huma.Format{
			mediaType: {Marshal: marshal, Unmarshal: unmarshal},
			// By its suffix, of application/problem+json, which huma gives its
			// own errors before translate has seen them. Nobody may send it.
			"json": {Marshal: marshal, Unmarshal: func([]byte, any) error { return huma.ErrUnknownContentType }},
		},
		DefaultFormat:                mediaType,
		Transformers:                 []huma.Transformer{translate},
		RejectUnknownQueryParameters: true,
	}
}

// marshal never fails for a client that is gone: nobody is left to be told.
func marshal(w io.Writer, v any) error {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	if _, err := w.Write(buf.Bytes()); err != nil {
		return nil
	}
	return nil
}

// unmarshal is called twice for a body: into an any, for validation against
// the schema, and then into the route's type, which is when it is strict.
func unmarshal(data []byte, v any) error {
	err := api.DecodeJSON(data, v)
	if e, ok := errors.AsType[*errdefs.Error](err); ok {
		return bodyError{e}
	}
	return err
}

// bodyError takes a field's name through huma, which keeps nothing of an
// unmarshalling error but its text.
type bodyError struct{ err *errdefs.Error }

const bodyErrorMark = "\n" // is in no field's name and in no message

func (e bodyError) Error() string { return e.err.Field + bodyErrorMark + e.err.Message }

// New returns an API whose operations become routes, which add gets.
func New(add func(api.Route)) huma.API { return huma.NewAPI(config(), adapter{add, newCounts()}) }

// Where an operation carries what its route says beside its handler.
const (
	scopeKey   = "scope"
	classKey   = "class"
	schemasKey = "schemas" // those that the schema of its body refers to
)

// With says what a caller's key must allow for op, and what its requests wait
// for.
func With(op huma.Operation, scope api.Scope, class api.Class) huma.Operation {
	op.Metadata = map[string]any{scopeKey: scope, classKey: class}
	op.SkipValidateParams, op.SkipValidateBody = weaken.Off(weaken.RequestSchema), weaken.Off(weaken.RequestSchema)
	return op
}

// adapter puts huma's operations into a surface's table of routes.
type adapter struct {
	add    func(api.Route)
	bodies counts
}

// Handle is called once for each route.
func (a adapter) Handle(op *huma.Operation, handle func(huma.Context)) {
	scope, _ := op.Metadata[scopeKey].(api.Scope)
	class, _ := op.Metadata[classKey].(api.Class)
	a.add(api.Route{
		Pattern: op.Method + " " + op.Path,
		Scope:   scope,
		Class:   class,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if op.MaxBodyBytes > 0 && r.ContentLength >= op.MaxBodyBytes {
				api.WriteError(w, r, errTooLarge(op.MaxBodyBytes-1))
				return
			}
			if !isJSON(op, r) {
				api.WriteError(w, r, api.MediaType(mediaType))
				return
			}
			a.bodies.serve(w, r, op, class, func(w http.ResponseWriter, r *http.Request) {
				handle(&exchange{humaContext: humago.NewContext(op, r, w), w: w, r: r})
			})
		}),
	})
}

const mediaType = "application/json"

// isJSON reports whether what r carries for op says that it is JSON. What says
// nothing any page can make a browser send, so it is taken for JSON only from what
// is no browser: one says where a request comes from, or brings cookies.
func isJSON(op *huma.Operation, r *http.Request) bool {
	if op.RequestBody == nil || op.RequestBody.Content[mediaType] == nil || r.ContentLength == 0 {
		return true
	}
	if len(r.Header["Content-Type"]) == 0 {
		return !fromBrowser(r.Header)
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.TrimSpace(kind) == mediaType
}

// fromBrowser reports whether a header is there that browsers send by themselves.
func fromBrowser(h http.Header) bool {
	for name := range h {
		if name == "Origin" || name == "Cookie" || name == "Referer" || strings.HasPrefix(name, "Sec-Fetch-") {
			return true
		}
	}
	return false
}

// ServeHTTP is in huma's interface and not used: api.Handler serves.
func (a adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

// humaContext gives the embedded interface a name other than its method
// Context.
type humaContext = huma.Context

// exchange is one request with its answer, as huma sees it.
type exchange struct {
	humaContext
	w      http.ResponseWriter
	r      *http.Request
	status int // instead of huma's, set by translate
}

// HTTP is for handlers that write by themselves.
func (x *exchange) HTTP() (http.ResponseWriter, *http.Request) { return x.w, x.r }

func (x *exchange) SetStatus(status int) {
	if x.status != 0 {
		status = x.status
	}
	x.humaContext.SetStatus(status)
}

// BodyReader ends the deadline that huma set for the body when huma closes it:
// it would otherwise end the request, minutes of running command included.
func (x *exchange) BodyReader() io.Reader { return deadlineBody{x.r.Body, x} }

type deadlineBody struct {
	io.ReadCloser
	x *exchange
}

func (b deadlineBody) Close() error {
	return errors.Join(b.ReadCloser.Close(), b.x.SetReadDeadline(time.Time{}))
}

// Register adds one endpoint. The handler's error decides the status.
func Register[I, O any](to huma.API, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	op.Metadata[schemasKey] = to.OpenAPI().Components.Schemas
	huma.Register(to, op, func(ctx context.Context, in *I) (*O, error) {
		if err := decoded(ctx); err != nil {
			return nil, failure(ctx, err)
		}
		out, err := handle(ctx, in)
		if err != nil {
			return nil, failure(ctx, err)
		}
		return out, nil
	})
}

// failed is an error in the shape of the contract, for huma to write.
type failed struct {
	api.ErrorBody
	status int
}

func failure(ctx context.Context, err error) *failed {
	body, status := api.Describe(ctx, err)
	return &failed{ErrorBody: body, status: status}
}

func (f *failed) Error() string  { return f.ErrorBody.Error }
func (f *failed) GetStatus() int { return f.status }

// GetHeaders adds what belongs to the status.
func (f *failed) GetHeaders() http.Header {
	header := http.Header{}
	api.ErrorHeader(header, f.status)
	return header
}

// translate turns an error that huma found in a request into ours. Answers
// and our own errors pass as they are.
func translate(ctx huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	x := ctx.(*exchange)
	f := failure(ctx.Context(), describe(model, ctx.Operation()))
	x.status = f.status
	for name, values := range f.GetHeaders() {
		ctx.SetHeader(name, strings.Join(values, ", "))
	}
	ctx.SetHeader("Content-Type", "application/json")
	return f.ErrorBody, nil
}
