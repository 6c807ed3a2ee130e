package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
)

// The codes of JSON-RPC for what is refused before it is a call.
const (
	codeParse    = -32700
	codeRequest  = -32600
	codeMethod   = -32601
	codeInternal = -32603
)

// rpcErrors has refusals of the library, which are plain text, be errors of JSON-RPC: a
// client reads nothing else.
func rpcErrors(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e := &errorWriter{ResponseWriter: w}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &e.asked), r.Body}
		next(e, r)
	}
}

// errorWriter is the answer to one request.
type errorWriter struct {
	http.ResponseWriter

	asked  head // what the client sent
	status int  // of a refusal in plain text; 0 is none

	unknown json.RawMessage // the id of a call of a method that there is not; nil is none
}

// methods are all that the server has. The library refuses a call of any other in plain text.
var methods = []string{
	"initialize", "ping", "server/discover", "subscriptions/listen", "tools/list", "tools/call",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
}

// WriteHeader implements http.ResponseWriter.
func (e *errorWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(e.Header().Get("Content-Type"), "text/plain") {
		e.status = status
		e.Header().Set("Content-Type", "application/json")
		if e.unknown = e.asked.unknownCall(); e.unknown != nil {
			status = http.StatusOK // a call has an answer, as those have that the library knows
		}
	}
	e.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. A refusal is written at once.
func (e *errorWriter) Write(p []byte) (int, error) {
	if e.status == 0 {
		return e.ResponseWriter.Write(p)
	}
	var refusal struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"` // null where there is no call that it answers
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	refusal.Version, refusal.Error.Code, refusal.Error.Message = "2.0", codeRequest, strings.TrimSpace(string(p))
	refusal.ID = json.RawMessage("null")
	switch {
	case e.unknown != nil:
		refusal.ID, refusal.Error.Code, refusal.Error.Message = e.unknown, codeMethod, "there is no such method"
	case e.status >= http.StatusInternalServerError:
		refusal.Error.Code = codeInternal
	case e.asked.isBroken():
		refusal.Error.Code = codeParse
	}
	if err := json.NewEncoder(e.ResponseWriter).Encode(refusal); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush implements http.Flusher, which the library asks for.
func (e *errorWriter) Flush() { _ = http.NewResponseController(e.ResponseWriter).Flush() } // who has left needs none

// Unwrap is for http.ResponseController.
func (e *errorWriter) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// head keeps the beginning of what is written to it.
type head struct {
	bytes.Buffer

	cut bool
}

const maxHead = 64 << 10

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	if h.Len()+len(p) > maxHead {
		h.cut = true
		return len(p), nil
	}
	return h.Buffer.Write(p)
}

// isBroken reports whether it is no JSON.
func (h *head) isBroken() bool { return !h.cut && h.Len() > 0 && !json.Valid(h.Bytes()) }

// unknownCall is the id of the call that it is, if the server has no such method.
func (h *head) unknownCall() json.RawMessage {
	var call struct {
		Version string `json:"jsonrpc"`
		ID      json.RawMessage
		Method  string
	}
	if h.cut || json.Unmarshal(h.Bytes(), &call) != nil || call.Version != "2.0" || call.Method == "" || slices.Contains(methods, call.Method) {
		return nil
	}
	return call.ID
}
