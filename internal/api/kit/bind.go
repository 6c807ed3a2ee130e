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
	codec   *Codec // nil is that of /v1
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

	own *Decoder // of a codec; nil is by schema
}

func newBinder(d *documenter, codec *Codec, t reflect.Type, row Row, bodies *counts) *binder {
	b := &binder{row: row, codec: codec, params: paramsOf(d, row.Pattern, t, nil), bodies: bodies}
	for _, p := range b.params {
		if p.in == inQuery {
			b.queries = append(b.queries, p.name)
		}
	}
	slices.Sort(b.queries)
	f, ok := t.FieldByName("Body")
	isChecked := !protection.Off(protection.RequestSchema)
	if !ok {
		b.empty = isChecked && codec == nil && row.Doc.Body == nil && row.MaxBody > 0 && !strings.HasPrefix(row.Pattern, http.MethodGet+" ")
		return b
	}
	b.body = &body{index: f.Index, required: f.Type.Kind() != reflect.Pointer}
	if codec != nil {
		b.body.own = new(codec.Body(f.Type))
		return b
	}
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
	problems, err := b.checkParams(r, reflect.ValueOf(input).Elem())
	if err != nil {
		return nil, err
	}
	if b.row.Prepare != nil || b.body == nil {
		if err := b.wrong(problems); err != nil {
			return nil, err
		}
		problems = nil
	}
	if b.row.Prepare != nil {
		if err := b.row.Prepare(r.Context(), input); err != nil {
			return nil, err
		}
	}
	if b.body == nil {
		if b.empty {
			err = refuseFields(w, r)
		}
		return func() {}, err
	}
	if r.ContentLength != 0 {
		if err := b.checkMedia(r.Header); err != nil {
			return nil, err
		}
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
	if size, err = b.bindBody(w, r, input, problems); err != nil {
		counted.end()
		return nil, err
	}
	counted.decoded(size)
	return counted.end, nil
}

// checkMedia refuses a body that does not say what it is, or something else.
func (b *binder) checkMedia(h http.Header) error {
	if b.body.own != nil {
		return b.body.own.Media(h)
	}
	if !saysJSON(h) {
		return api.MediaType(mediaType)
	}
	return nil
}

// wrong is the error of parameters that are wrong, or nil.
func (b *binder) wrong(problems []strictjson.Problem) error {
	if b.codec != nil && len(problems) > 0 {
		return b.codec.Problems(problems)
	}
	return errProblems(problems)
}

// bindBody decodes the body, a large one when it is its owner's turn, and returns its length.
func (b *binder) bindBody(w http.ResponseWriter, r *http.Request, input any, problems []strictjson.Problem) (size int64, err error) {
	data, err := readBody(w, r, b.row.MaxBody)
	if err != nil {
		return 0, err
	}
	size = int64(len(data))
	if size >= smallBody {
		if err := api.BeginTurn(r.Context()); err != nil {
			return size, err
		}
		defer api.EndTurn(r.Context())
	}
	into := reflect.ValueOf(input).Elem().FieldByIndex(b.body.index).Addr().Interface()
	if b.body.own == nil {
		return size, b.body.strict(data, into, problems)
	}
	if err := b.wrong(problems); err != nil {
		return size, err
	}
	return size, b.body.own.Decode(data, r.Header, into)
}

// strict decodes what is exactly of the schema.
func (b *body) strict(data []byte, into any, problems []strictjson.Problem) error {
	if len(data) == 0 {
		if b.required && len(problems) == 0 {
			return errdefs.New(errdefs.InvalidArgument, "a JSON request body is needed")
		}
		return errProblems(problems)
	}
	found, err := b.schema.Decode(data, into)
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
	if b.codec == nil && !protection.Off(protection.RequestSchema) {
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

// readBody returns a whole body, within its limit and its time. One that may be larger than
// others has as much more time.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	control := http.NewResponseController(w)
	within := api.BodyTimeout * time.Duration(max(limit/DefaultBody, 1))
	if err := control.SetReadDeadline(time.Now().Add(within)); err != nil && !errors.Is(err, http.ErrNotSupported) {
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
