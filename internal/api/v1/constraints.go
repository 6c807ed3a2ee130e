package v1

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/auth"
)

// What the daemon checks by itself, in words that are closer to the matter than
// those of a schema. It is in the document for those who make requests of it, and
// not for validation.
const (
	noNUL = `^[^\x00]*$`
	aFile = `^(/|[^\x00]*[^\x00/])$` // no slash at the end, but for the root
	// aName is neither . nor ..
	aName      = `^([A-Za-z0-9_-]|\.[A-Za-z0-9_-]|\.\.[A-Za-z0-9._-])[A-Za-z0-9._-]*$`
	aVariable  = `^[A-Za-z_][A-Za-z0-9_]*$`
	aShortName = `^[A-Za-z0-9._-]*$`
	aLabel     = `^[^\x00-\x1F\x7F]{1,63}$`
	aHostname  = `^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$`
	aSession   = `^[A-Za-z0-9][A-Za-z0-9._-]*$`
	aUser      = `^([A-Za-z0-9._-]{1,64}(:[A-Za-z0-9._-]{1,64})?)?$`
	aPassword  = `^([\s\S]{8,})?$`
	aTitle     = `^[^\x00-\x1F\x7F-\x9F]*$`
	anImage    = `^[a-z0-9][a-z0-9._/:-]*$`
	inBase64   = `^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`
)

// patterns are those of strings, by schema and property. A property that ends in []
// means its items, one that ends in {} its names.
var patterns = map[string]string{
	"ExecRequest.cmd": noNUL, "ExecRequest.cwd": noNUL, "ExecRequest.env{}": aVariable, "ExecRequest.output_file": aFile,
	"ProcessRequest.cmd[]": noNUL, "ProcessRequest.cwd": noNUL, "ProcessRequest.env{}": aVariable, "ProcessRequest.output_file": aFile,
	"ProcessRequest.stdin_base64": inBase64, "ProcessRequest.user": aUser, "StdinRequest.data_base64": inBase64,
	"CreateRequest.env{}": aVariable, "CreateRequest.name": aSession, "CreateRequest.hostname": aHostname, "CreateRequest.workspace_id": aName,
	"CreateRequest.restore_snapshot_id": aName, "CreateRequest.labels{}": aLabel,
	"ForkRequest.env{}": aVariable, "ForkRequest.hostname": aHostname, "ForkRequest.labels{}": aLabel, "UpdateRequest.labels{}": aLabel,
	"WriteRequest.path": aFile, "WriteRequest.content_base64": inBase64, "EditRequest.path": aFile, "MkdirRequest.path": noNUL, "ChmodRequest.path": aFile, "DeleteRequest.path": aFile,
	"MoveRequest.from": aFile, "MoveRequest.to": aFile, "CopyRequest.from": aFile, "CopyRequest.to": aFile,
	"WorkspaceRequest.id": aName, "WorkspaceRequest.labels{}": aLabel, "SnapshotRequest.name": aShortName,
	"UserRequest.name": auth.OwnerPattern, "UserRequest.email": accounts.EmailPattern, "UserUpdateRequest.email": accounts.EmailPattern,
	"UserUpdateRequest.password": aPassword, "KeyRequest.name": aTitle, "KeyRequest.user": auth.OwnerPattern,
	"BuildRequest.name": anImage, "CommitRequest.name": anImage,
}

// exclusions are pairs of fields of which a request has at most one, by schema.
var exclusions = map[string][][]any{
	"CreateRequest":  {{"limits", "cpu"}, {"limits", "memory_mb"}, {"limits", "pids"}, {"limits", "disk_mb"}},
	"CommitRequest":  {{"session_id", "snapshot_id"}},
	"ProcessRequest": {{"stdin", "stdin_base64"}},
	"SecretRequest":  {{"header", "query"}},
	"StdinRequest":   {{"data", "data_base64"}},
	"WriteRequest":   {{"text", "content_base64"}, {"create", "append"}},
}

// choices are fields of which a request needs one.
var choices = map[string][]any{
	"SecretRequest": {"header", "query"},
	"WriteRequest":  {"text", "content_base64"},
}

// documentConstraints puts them into the schemas.
func documentConstraints(schemas map[string]*huma.Schema) {
	required := func(names ...any) map[string]any { return map[string]any{"required": names} }
	for place, pattern := range patterns {
		name, property, _ := strings.Cut(place, ".")
		schema, ok := schemas[name]
		if !ok {
			panic("v1: no schema " + name)
		}
		field, items := strings.CutSuffix(property, "[]")
		field, names := strings.CutSuffix(field, "{}")
		p, ok := schema.Properties[field]
		if !ok {
			panic("v1: " + name + " has no field " + field)
		}
		switch {
		case items:
			extend(p.Items, "pattern", pattern)
		case names:
			extend(p, "propertyNames", map[string]any{"pattern": pattern})
		default:
			extend(p, "pattern", pattern)
		}
	}
	for name, pairs := range exclusions {
		var never []any
		for _, pair := range pairs {
			never = append(never, required(pair...))
		}
		extend(schemas[name], "not", map[string]any{"anyOf": never})
	}
	for name, fields := range choices {
		var one []any
		for _, field := range fields {
			one = append(one, required(field))
		}
		extend(schemas[name], "anyOf", one)
	}
	names := strings.Join(signals, "|")
	extend(schemas["SignalRequest"].Properties["signal"], "anyOf", []any{
		map[string]any{"type": "string", "pattern": "^(SIG)?(" + names + ")$|^(sig)?(" + strings.ToLower(names) + ")$"},
		map[string]any{"type": "integer", "minimum": 1, "maximum": maxSignal},
	})
}

func extend(s *huma.Schema, key string, value any) {
	if s.Extensions == nil {
		s.Extensions = make(map[string]any)
	}
	s.Extensions[key] = value
}
