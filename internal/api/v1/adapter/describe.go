package adapter

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/shapes"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// maxProblems is how many wrong fields one error lists.
const maxProblems = 5

// describe is huma's finding about a request in our words. It never repeats a
// value that the client sent.
func describe(model *huma.ErrorModel, op *huma.Operation) error {
	switch {
	case model.Status == http.StatusRequestEntityTooLarge:
		return errTooLarge(op.MaxBodyBytes - 1)
	case model.Status == http.StatusUnsupportedMediaType:
		return api.MediaType("application/json")
	case model.Status == http.StatusRequestTimeout:
		return fmt.Errorf("read request body: %w", os.ErrDeadlineExceeded)
	case len(model.Errors) == 0:
		return errdefs.New(errdefs.InvalidArgument, "a JSON request body is needed")
	case model.Status == http.StatusInternalServerError:
		return errdefs.Wrap(fmt.Errorf("%s", model.Errors[0].Message), errdefs.InvalidArgument, "the request body could not be read to its end")
	}
	var field string
	var problems []string
	for i, detail := range model.Errors {
		if i == maxProblems {
			problems = append(problems, fmt.Sprintf("and %d more", len(model.Errors)-maxProblems))
			break
		}
		name, problem := sentence(detail, op)
		if i == 0 {
			field = name
		}
		problems = append(problems, problem)
	}
	err := errdefs.New(errdefs.InvalidArgument, "%s", strings.Join(problems, "; "))
	err.Field = field
	return err
}

func errTooLarge(limit int64) error {
	return errdefs.New(errdefs.TooLarge, "the request body is over its limit of %d bytes", limit)
}

// sentence says what is wrong with one field.
func sentence(detail *huma.ErrorDetail, op *huma.Operation) (field, problem string) {
	if name, message, ok := strings.Cut(detail.Message, bodyErrorMark); ok {
		return name, message
	}
	_, field, _ = strings.Cut(detail.Location, ".") // body. query. path. header.
	field = shapes.FieldName(field)
	const missing = "expected required property "
	switch rest, isMissing := strings.CutPrefix(detail.Message, missing); {
	case isMissing:
		name := strings.TrimSuffix(rest, " to be present")
		if field != "" {
			name = field + "." + name
		}
		return name, name + " is required"
	case strings.HasPrefix(detail.Message, "required "): // ... parameter is missing
		return field, field + " is required"
	case detail.Message == "unexpected property":
		return field, field + " is not a field of this request" + api.Suggestion(lastName(field), bodyFields(op, field))
	case detail.Message == "unknown query parameter":
		return field, field + " is not a parameter of this request" + api.Suggestion(field, queryNames(op))
	}
	subject := field
	if subject == "" {
		subject = "the request body"
	}
	return field, subject + " must " + duty(detail.Message)
}

// duties are the beginnings of huma's messages and what we say instead.
var duties = []struct{ theirs, ours string }{
	{"expected number >= ", "be at least "},
	{"expected number > ", "be more than "},
	{"expected number <= ", "be at most "},
	{"expected number < ", "be less than "},
	{"expected length >= ", "have a length of at least "},
	{"expected length <= ", "have a length of at most "},
	{"expected array length >= ", "have at least this many entries: "},
	{"expected array length <= ", "have at most this many entries: "},
	{"expected object with ", "have "},
	{"expected value to be ", "be "},
	{"expected string to ", ""},
	{"expected integer", "be an integer"},
	{"invalid integer", "be an integer"},
	{"expected number", "be a number"},
	{"invalid float", "be a number"},
	{"expected boolean", "be true or false"},
	{"invalid boolean", "be true or false"},
	{"expected string", "be a string"},
	{"expected array", "be a list"},
	{"expected object", "be an object"},
}

func duty(message string) string {
	for _, d := range duties {
		if rest, ok := strings.CutPrefix(message, d.theirs); ok {
			return d.ours + plain(rest)
		}
	}
	return "be valid"
}

// plain writes a number the way people do: huma has 3.1536e+07 for a large one.
func plain(text string) string {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return text
}

// lastName is the name at the end of a field's path.
func lastName(field string) string { return field[strings.LastIndexByte(field, '.')+1:] }

// bodyFields are the names that stand beside field in the schema of op's body. Of
// what is in arrays it knows none.
func bodyFields(op *huma.Operation, field string) []string {
	schemas, ok := op.Metadata[schemasKey].(huma.Registry)
	if !ok || op.RequestBody == nil || op.RequestBody.Content[mediaType] == nil {
		return nil
	}
	schema := op.RequestBody.Content[mediaType].Schema
	parents := strings.Split(field, ".")
	for _, name := range append([]string{""}, parents[:len(parents)-1]...) {
		if schema != nil && name != "" {
			schema = schema.Properties[name]
		}
		if schema != nil && schema.Ref != "" {
			schema = schemas.SchemaFromRef(schema.Ref)
		}
	}
	if schema == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(schema.Properties))
}

func queryNames(op *huma.Operation) (names []string) {
	for _, parameter := range op.Parameters {
		if parameter.In == "query" {
			names = append(names, parameter.Name)
		}
	}
	return names
}
