package orchestrator

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// detail is the body of every error that is not about fields.
type detail struct {
	Detail string `json:"detail"`
}

// fieldErrors is what is wrong with the fields of a request.
type fieldErrors map[string][]string

func (f fieldErrors) Error() string {
	return fmt.Sprintf("fields are wrong: %v", map[string][]string(f))
}

func (f fieldErrors) add(field, format string, args ...any) {
	f[field] = append(f[field], fmt.Sprintf(format, args...))
}

// orNil is the error that f is, or none.
func (f fieldErrors) orNil() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// statusError is an error with a status and a text of this API's own.
type statusError struct {
	status int
	text   string
	cause  error
}

func (e *statusError) Error() string { return e.text }
func (e *statusError) Unwrap() error { return e.cause }

// listError is an error that is a list of texts.
type listError []string

func (e listError) Error() string { return strings.Join(e, "; ") }

func writeError(w http.ResponseWriter, r *http.Request, err error) {
	if list, ok := errors.AsType[listError](err); ok {
		api.Failed(r.Context(), err)
		api.WriteJSON(w, r, http.StatusBadRequest, list)
		return
	}
	if fields, ok := errors.AsType[fieldErrors](err); ok {
		api.Failed(r.Context(), err)
		api.WriteJSON(w, r, http.StatusBadRequest, fields)
		return
	}
	if own, ok := errors.AsType[*statusError](err); ok {
		api.Failed(r.Context(), err)
		api.WriteJSON(w, r, own.status, detail{own.text})
		return
	}
	api.WriteError(w, r, err)
}

func errNotFound() error { return &statusError{status: http.StatusNotFound, text: "Not found."} }

// dialect is how errors look that are common to all surfaces. A request without a
// valid key is forbidden here. What the state or the content of a session does not
// allow is a bad request.
func dialect(e api.ErrorBody, status int) (body any, as int) {
	switch {
	case e.NoToken:
		return detail{"CSRF Failed: CSRF token missing."}, http.StatusForbidden
	case e.Code == errdefs.Unauthenticated && e.Keyless:
		return detail{"Authentication credentials were not provided."}, http.StatusForbidden
	case e.Code == errdefs.Unauthenticated:
		return detail{"Invalid API key"}, http.StatusForbidden
	case e.Reason == errdefs.NoSuchSession:
		return detail{"No SandboxSession matches the given query."}, status
	case e.Reason == errdefs.NoSuchSnapshot:
		return detail{"Snapshot not found"}, status
	case e.Code == errdefs.NotFound && e.Reason == "":
		return detail{"Not found."}, status
	case status == http.StatusMethodNotAllowed:
		return detail{`Method "` + e.Method + `" not allowed.`}, status
	case status == http.StatusConflict, status == http.StatusUnprocessableEntity, status == http.StatusNotFound:
		return detail{e.Error}, http.StatusBadRequest
	}
	return detail{e.Error}, status
}

// requestFields are fields of a request which the core's errors name as we do.
var requestFields = map[string]bool{
	"mode": true, "cpu": true, "memory": true, "ephemeral_storage": true, "idle_timeout_sec": true, "max_lifetime_sec": true,
}

// coreFields are fields of a request by the names that the core has for them.
var coreFields = map[string]string{"limits.cpu": "cpu", "limits.memory_mb": "memory", "limits.disk_mb": "ephemeral_storage"}

// unitsOf are the units in which the core counts what these fields say.
var unitsOf = map[string]string{"memory": " (MiB)", "ephemeral_storage": " (MiB)"}

// provisionError is the error of a create: that of a field, one that is worth
// another try, or that nothing could be made of the mode that people call title. With a
// snapshot in the request that is a 404, so that clients go on without it.
func provisionError(err error, title string, restores bool) error {
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok || e.Code == errdefs.Internal {
		return err
	}
	if own := coreFields[e.Field]; own != "" && e.Code == errdefs.InvalidArgument {
		return fieldErrors{own: {strings.TrimPrefix(e.Message, e.Field+" ") + unitsOf[own]}}
	}
	if e.Code == errdefs.InvalidArgument && requestFields[e.Field] {
		return fieldErrors{e.Field: {strings.TrimPrefix(e.Message, e.Field+" ")}}
	}
	switch e.Code {
	case errdefs.ResourceExhausted, errdefs.Unavailable, errdefs.InsufficientSpace, errdefs.Unimplemented:
		return err
	}
	if e.Reason == errdefs.NoSuchSession || e.Reason == errdefs.NoSuchSnapshot {
		return err
	}
	status := http.StatusBadRequest
	if restores {
		status = http.StatusNotFound
	}
	return &statusError{status, "Failed to provision " + title + " sandbox: " + e.Message, err}
}
