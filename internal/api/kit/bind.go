package kit

import (
	"bytes"
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
	empty   bool     // a request has no body, or an object without fields
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
	isChecked := !protection.Off(protection.RequestSchema)
	if !ok {
		b.empty = isChecked && row.Doc.Body == nil && row.MaxBody > 0 && !strings.HasPrefix(row.Pattern, http.MethodGet+" ")
		return b
	}
	b.body = &body{index: f.Index, required: f.Type.Kind() != reflect.Pointer}
	b.body.schema = strictjson.OfType(f.Type)
	if isChecked {
		b.body.schema = d.compile(row.Pattern, d.schemas().Schema(f.Type, true, ""), b.body.schema)
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
		err := b.bindParams(r, input)
		if err == nil && b.empty {
			err = refuseFields(w, r)
		}
		return func() {}, err
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
		return nil, err
	}
	if err = b.bindAll(w, r, input); err == nil {
		err = counted.hold()
	}
	if err != nil {
		counted.end()
		return nil, err
	}
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
	found, err := b.body.schema.Decode(data, fields.FieldByIndex(b.body.index).Addr().Interface())
	if err != nil && len(problems) == 0 {
		return err
	}
	if e, ok := errors.AsType[*errdefs.Error](err); ok {
		problems = append(problems, strictjson.Problem{Field: e.Field, What: strings.TrimPrefix(e.Message, e.Field+" ")})
	}
	return errProblems(append(problems, found...))
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

// noFields is the body of a request that says nothing in it.
var noFields = &strictjson.Schema{Kind: strictjson.Object, Closed: true, Nullable: true}

// emptyBody is more than a body without fields has.
const emptyBody = 4 << 10

// refuseFields refuses what a body says where nobody would read it: whoever sends
// {"force": true} believes that it does something.
func refuseFields(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	data, err := readBody(w, r, emptyBody)
	if err != nil || len(data) == 0 {
		return err
	}
	if !saysJSON(r.Header) {
		return errdefs.New(errdefs.InvalidArgument, "this request takes no body")
	}
	var none struct{}
	problems, err := noFields.Decode(data, &none)
	if err != nil {
		return err
	}
	for i := range problems {
		if problems[i].Field != "" {
			problems[i].What += "; it has none"
		}
	}
	return errProblems(problems)
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
	// The deadline of the body would otherwise end the request, minutes of
	// running command included.
	if err := errors.Join(r.Body.Close(), control.SetReadDeadline(time.Time{})); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return buf.Bytes(), nil
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
