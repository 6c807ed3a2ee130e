package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/strictjson"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// binder fills the input of one route. It is compiled when the route is added, so
// that a request costs no look at a tag.
type binder struct {
	row     Row
	params  []param
	queries []string // the names of query parameters, sorted
	body    *body    // nil if the input has none
	bodies  *counts
}

// body is the JSON body of an input.
type body struct {
	index    []int
	required bool
	schema   *strictjson.Schema
}

func newBinder(d *documenter, t reflect.Type, row Row, bodies *counts) *binder {
	b := &binder{row: row, params: paramsOf(d, row.Pattern, t, nil), bodies: bodies}
	for _, p := range b.params {
		if p.in == inQuery {
			b.queries = append(b.queries, p.name)
		}
	}
	slices.Sort(b.queries)
	f, ok := t.FieldByName("Body")
	if !ok {
		return b
	}
	b.body = &body{index: f.Index, required: f.Type.Kind() != reflect.Pointer}
	if protection.Off(protection.RequestSchema) {
		b.body.schema = strictjson.OfType(f.Type)
	} else {
		b.body.schema = d.compile(row.Pattern, d.schemas().Schema(f.Type, true, ""), strictjson.OfType(f.Type))
	}
	return b
}

// bind fills input, a pointer to the input's type, of a request. Release is
// called when the request has been answered.
func (b *binder) bind(w http.ResponseWriter, r *http.Request, input any) (release func(), err error) {
	if b.row.MaxBody > 0 && r.ContentLength > b.row.MaxBody {
		return nil, errTooLarge(b.row.MaxBody)
	}
	if b.body == nil {
		return func() {}, b.bindParams(r, input)
	}
	if r.ContentLength != 0 && !saysJSON(r.Header) {
		return nil, api.MediaType(mediaType)
	}
	size := r.ContentLength
	if size < 0 {
		size = b.row.MaxBody
	}
	counted, err := b.bodies.begin(r.Context(), api.Caller(r.Context()).Owner, size, b.row.Class)
	if err != nil {
		// Many clients look for an answer only when they have sent everything.
		return nil, errors.Join(err, discardBody(w, r, b.row.MaxBody))
	}
	if err := b.bindAll(w, r, input); err != nil {
		counted.end()
		return nil, err
	}
	counted.decoded()
	return counted.end, nil
}

func (b *binder) bindParams(r *http.Request, input any) error {
	problems, err := b.checkParams(r, reflect.ValueOf(input).Elem())
	if err != nil {
		return err
	}
	return errProblems(problems)
}

func (b *binder) bindAll(w http.ResponseWriter, r *http.Request, input any) error {
	fields := reflect.ValueOf(input).Elem()
	problems, err := b.checkParams(r, fields)
	if err != nil {
		return err
	}
	data, err := readBody(w, r, b.row.MaxBody)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		if b.body.required && len(problems) == 0 {
			return errdefs.New(errdefs.InvalidArgument, "a JSON request body is needed")
		}
		return errProblems(problems)
	}
	found, err := b.decode(r.Context(), data, fields.FieldByIndex(b.body.index).Addr().Interface())
	if err != nil && len(problems) == 0 {
		return err
	}
	if e, ok := errors.AsType[*errdefs.Error](err); ok {
		problems = append(problems, strictjson.Problem{Field: e.Field, What: strings.TrimPrefix(e.Message, e.Field+" ")})
	}
	return errProblems(append(problems, found...))
}

// decode fills v with a body, a large one when it is its owner's turn.
func (b *binder) decode(ctx context.Context, data []byte, v any) ([]strictjson.Problem, error) {
	if len(data) >= smallBody {
		if err := api.BeginTurn(ctx); err != nil {
			return nil, err
		}
		defer api.EndTurn(ctx)
	}
	return b.body.schema.Decode(data, v)
}

// checkParams sets what is not in the body. A parameter that nobody knows is an
// error before all others.
func (b *binder) checkParams(r *http.Request, fields reflect.Value) (problems []strictjson.Problem, err error) {
	query := map[string][]string(nil)
	if r.URL.RawQuery != "" {
		query = r.URL.Query()
	}
	if !protection.Off(protection.RequestSchema) {
		for name := range query {
			if _, known := slices.BinarySearch(b.queries, name); !known {
				field := strictjson.FieldName(name)
				problems = append(problems, strictjson.Problem{Field: field, What: "is not a parameter of this request" + strictjson.Suggestion(field, b.queries)})
			}
		}
		if len(problems) > 0 {
			slices.SortFunc(problems, func(a, b strictjson.Problem) int { return strings.Compare(a.Field, b.Field) })
			return nil, errProblems(problems)
		}
	}
	for i := range b.params {
		problems = append(problems, b.params[i].set(r, query, fields)...)
	}
	return problems, nil
}

// readBody returns a whole body, within its limit and its time.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(api.BodyTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	var buf bytes.Buffer
	buf.Grow(int(min(max(r.ContentLength, 0), smallBody)) + bytes.MinRead)
	n, err := buf.ReadFrom(io.LimitReader(r.Body, limit+1))
	if n > limit {
		return nil, errTooLarge(limit)
	}
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		return nil, fmt.Errorf("read request body: %w", os.ErrDeadlineExceeded)
	}
	if err != nil {
		return nil, errdefs.Wrap(err, errdefs.InvalidArgument, "the request body could not be read to its end")
	}
	return buf.Bytes(), endBody(r, control)
}

// endBody takes back the deadline of a body that has been read: it would otherwise end the
// request, minutes of running command included.
func endBody(r *http.Request, control *http.ResponseController) error {
	err := errors.Join(r.Body.Close(), control.SetReadDeadline(time.Time{}))
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// discardBody reads a body that nobody needs, within its limit and its time.
func discardBody(w http.ResponseWriter, r *http.Request, limit int64) error {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(api.BodyTimeout)) // fails where there are none
	_, _ = io.CopyN(io.Discard, r.Body, limit)                   // what does not come is not missed
	return endBody(r, control)
}

const mediaType = "application/json"

// saysJSON reports whether a body says that it is JSON. What says nothing any
// page can make a browser send, so it is taken for JSON only from what is no
// browser: one says where a request comes from, or brings cookies.
func saysJSON(h http.Header) bool {
	if len(h["Content-Type"]) == 0 {
		return !fromBrowser(h)
	}
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
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

func errTooLarge(limit int64) error {
	return errdefs.New(errdefs.TooLarge, "the request body is over its limit of %d bytes", limit)
}

// maxProblems is how many wrong fields one error lists.
const maxProblems = 5

// errProblems is all that is wrong as one error, or nil. It never repeats a value
// that the client sent.
func errProblems(problems []strictjson.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	var list []string
	for i, p := range problems {
		if i == maxProblems {
			list = append(list, fmt.Sprintf("and %d more", len(problems)-maxProblems))
			break
		}
		list = append(list, p.String())
	}
	err := errdefs.New(errdefs.InvalidArgument, "%s", strings.Join(list, "; "))
	err.Field = problems[0].Field
	return err
}
