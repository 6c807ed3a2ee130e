// Package kit makes a surface of rows: what a request of each route may say, who
// may send it, how long it takes, how much it carries and what answers it. A
// request is decoded and checked against the struct tags of the handler's input,
// errors take the surface's form, and the OpenAPI document says the same things.
// It knows no endpoint.
package kit

import (
	"context"
	"net/http"
	"reflect"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/strictjson"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// Bounds of request bodies.
const (
	DefaultBody = 1 << 20
	NoLimit     = -1 // the handler has one
)

// Row is one route: all that there is to know of it but its types, which are its
// handler's.
type Row struct {
	Pattern string // of net/http: "POST /v1/sessions/{id}/exec"
	Scope   api.Scope
	Class   api.Class
	Acts    bool // see api.Route
	Turn    bool // see api.Route
	Listens bool // see api.Route

	Reserved string // see api.Route

	MaxBody int64 // DefaultBody if nothing is said
	Resolve func(r *http.Request) error
	Ticket  func(r *http.Request) (p auth.Principal, shown bool, err error) // see api.Route
	Doc     Doc

	// Prepare, which may be nil, is given the input once its parameters are known and
	// before a body is read: what it refuses, it refuses whatever the body says.
	Prepare func(ctx context.Context, input any) error
}

// Codec is how requests are read and errors written in a dialect.
type Codec struct {
	// Body returns how bodies become values of a type. It panics if the type says what
	// cannot be checked.
	Body func(t reflect.Type) Decoder

	// Problems is the error of parameters that are wrong. Those that nobody knows are not:
	// they are ignored.
	Problems func([]strictjson.Problem) error

	// Fail answers with an error.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}

// Decoder reads bodies of one type.
type Decoder struct {
	Media  func(h http.Header) error                        // refuses a body by what its headers say
	Decode func(data []byte, h http.Header, into any) error // a whole body, which may be empty; into is a pointer to the type
}

// Options describes a surface.
type Options struct {
	Name    string
	Prefix  string      // of its paths; those that it does not have are answered in its dialect
	Dialect api.Dialect // nil is api.ErrorBody
	Cookie  *api.Cookie // of who has signed in; nil is api.SessionCookie
	Codec   *Codec      // nil is that of /v1

	EitherKey bool // see api.Surface

	// EitherSlash serves each path with a slash at its end, too. The document has it so.
	EitherSlash bool

	// LargeBodies is what else a client can do who may not send a large body:
	// "send files by PUT fs/raw". It may be empty.
	LargeBodies string

	// KeyErrors are the statuses that any route with a key may answer; nil is those
	// of api.ErrorBody's dialect.
	KeyErrors []int
}

// Surface collects the rows of one public API.
type Surface struct {
	opts     Options
	document *documenter
	bodies   counts
	routes   []api.Route
}

// New returns a surface without rows.
func New(o Options) *Surface {
	return &Surface{opts: o, document: newDocumenter(o.KeyErrors), bodies: newCounts(o.LargeBodies)}
}

// Surface is what is served.
func (s *Surface) Surface() api.Surface {
	return api.Surface{Name: s.opts.Name, Routes: s.routes, Prefix: s.opts.Prefix, Dialect: s.opts.Dialect, Cookie: s.opts.Cookie, EitherKey: s.opts.EitherKey}
}

// Plain adds a route that decodes its requests by itself and is no part of the
// document.
func (s *Surface) Plain(route api.Route) { s.routes = append(s.routes, route) }

// Nothing is the output of a route whose answer has no body.
type Nothing struct{}

// Route adds a row. Its handler's input has fields with the tags path, query and
// header, and may have a field Body, which is JSON. Its output is a *Stream, *Nothing, or
// has a field Body, which is sent as JSON, and may have the fields Status, Location and
// Cookies. It panics at start if a type says what cannot be checked.
func Route[I, O any](s *Surface, row Row, handle func(context.Context, *I) (*O, error)) {
	if row.MaxBody == 0 {
		row.MaxBody = DefaultBody
	}
	if protection.Off(protection.BodyLimit) && row.MaxBody > 0 {
		row.MaxBody <<= 10
	}
	documented := row
	if s.opts.EitherSlash {
		documented.Pattern += "/"
	}
	documentRow[I, O](s.document, documented)
	in := newBinder(s.document, s.opts.Codec, reflect.TypeFor[I](), row, &s.bodies)
	out := newAnswer(reflect.TypeFor[O](), row)
	fail := api.WriteError
	if s.opts.Codec != nil {
		fail = s.opts.Codec.Fail
	}
	s.add(api.Route{
		Pattern: row.Pattern, Scope: row.Scope, Class: row.Class, Acts: row.Acts, Turn: row.Turn, Listens: row.Listens, Reserved: row.Reserved, Resolve: row.Resolve, Ticket: row.Ticket,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			input := new(I)
			release, err := in.bind(w, r, input)
			if err != nil {
				fail(w, r, err)
				return
			}
			defer release()
			if !out.stream {
				clear(r.Header) // input has what it needs of it, and the handler may wait for long
			}
			output, err := handle(r.Context(), input)
			if err != nil {
				fail(w, r, err)
				return
			}
			out.write(w, r, output)
		}),
	})
}

func (s *Surface) add(route api.Route) {
	s.routes = append(s.routes, route)
	if s.opts.EitherSlash {
		route.Pattern += "/{$}"
		s.routes = append(s.routes, route)
	}
}

// Stream is the answer of a route that writes by itself once its input was
// accepted. Until then it fails like any other.
type Stream struct {
	serve func(w http.ResponseWriter, r *http.Request)
}

// Streaming is the Stream that serve writes.
func Streaming(serve func(w http.ResponseWriter, r *http.Request)) *Stream { return &Stream{serve} }

// answer is how the outputs of one route are written.
type answer struct {
	stream bool
	status int
	body   int // the index of the output's field, or -1
	coded  int // that of Status, or -1
	made   int // that of Location, or -1
	cookie int // that of Cookies, or -1
}

func newAnswer(t reflect.Type, row Row) answer {
	a := answer{stream: t == reflect.TypeFor[Stream](), status: row.Doc.status()}
	for name, at := range map[string]*int{"Body": &a.body, "Status": &a.coded, "Location": &a.made, "Cookies": &a.cookie} {
		*at = -1
		if f, ok := t.FieldByName(name); ok {
			*at = f.Index[0]
		}
	}
	if !a.stream && a.body < 0 && t != reflect.TypeFor[Nothing]() && a.cookie < 0 {
		panic("kit: " + row.Pattern + ": the output " + t.String() + " has no Body")
	}
	return a
}

func (a answer) write(w http.ResponseWriter, r *http.Request, output any) {
	if a.stream {
		output.(*Stream).serve(w, r)
		return
	}
	fields := reflect.ValueOf(output).Elem()
	status := a.status
	if a.coded >= 0 {
		status = int(fields.Field(a.coded).Int())
	}
	if a.made >= 0 && fields.Field(a.made).String() != "" {
		w.Header().Set("Location", fields.Field(a.made).String())
	}
	if a.cookie >= 0 {
		for _, c := range fields.Field(a.cookie).Interface().([]*http.Cookie) {
			http.SetCookie(w, c)
		}
	}
	if a.body < 0 {
		w.WriteHeader(status)
		return
	}
	api.WriteJSON(w, r, status, fields.Field(a.body).Addr().Interface())
}

// NothingBehind is the answer to who comes back to a stream that has ended.
var NothingBehind = map[int]Answer{204: {Means: "Last-Event-ID is that of done: there is nothing behind it."}}
