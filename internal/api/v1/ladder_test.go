package v1_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// waysToCredentials are the operations that take what somebody signs in by, or answer with
// something that opens anything, and what bounds what they give.
var waysToCredentials = map[string]string{
	"POST /v1/auth/sign-in":                         "the password or key that it is shown",
	"GET /v1/auth/session":                          "the token beside the cookie that it is shown",
	"POST /v1/users":                                "accounts.TestNoCredentialMakesAStrongerOne",
	"PATCH /v1/users/{name}":                        "accounts.TestNoCredentialMakesAStrongerOne",
	"POST /v1/keys":                                 "accounts.TestNoCredentialMakesAStrongerOne",
	"POST /v1/sessions/{id}/previews":               "its time, and the credential of its request: preview.TestTokensEndWithWhatMadeThem",
	"POST /api/auth/login/":                         "the password that it is shown",
	"POST /api/auth/register/":                      "orchestrator.registration, which makes users without rights",
	"POST /api/api-keys/":                           "accounts.TestNoCredentialMakesAStrongerOne",
	"GET /api/sandbox/sessions/{id}/artifacts/":     "the credential of its request: artifacts.TestLinkEndsWithItsCredential",
	"POST /api/sandbox/sessions/{id}/files/export/": "the credential of its request: artifacts.TestLinkEndsWithItsCredential",
}

// A new way to a credential shows itself by the names of its fields, and wants a row here
// and in the ladder of package accounts.
func TestWaysToCredentials(t *testing.T) {
	found := map[string]bool{}
	for _, file := range []string{"openapi.json", "../orchestrator/openapi.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc credentialDocument
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		for path, methods := range doc.Paths {
			for method, op := range methods {
				if doc.givesCredentials(op) {
					found[strings.ToUpper(method)+" "+path] = true
				}
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(waysToCredentials)), slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("ways to credentials, in the table and in the API:\n%s", diff)
	}
}

type credentialDocument struct {
	Paths      map[string]map[string]credentialOperation
	Components struct{ Schemas map[string]credentialSchema }
}

type credentialOperation struct {
	RequestBody struct{ Content credentialContent }
	Responses   map[string]struct{ Content credentialContent }
}

type credentialContent map[string]struct{ Schema credentialSchema }

type credentialSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Properties map[string]credentialSchema
	Items      *credentialSchema
}

func (d credentialDocument) givesCredentials(op credentialOperation) bool {
	for _, body := range op.RequestBody.Content {
		if d.has(body.Schema, nil, "password", "api_key", "email", "role") {
			return true
		}
	}
	for status, answer := range op.Responses {
		for _, body := range answer.Content {
			if status < "300" && d.has(body.Schema, nil, "token", "csrf_token", "download_url", "key") {
				return true
			}
		}
	}
	return false
}

// has reports whether a schema has a text of one of these names anywhere.
func (d credentialDocument) has(s credentialSchema, seen []string, names ...string) bool {
	if s.Ref != "" {
		if slices.Contains(seen, s.Ref) {
			return false
		}
		return d.has(d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")], append(seen, s.Ref), names...)
	}
	for name, property := range s.Properties {
		if slices.Contains(names, name) && property.Ref == "" || d.has(property, seen, names...) {
			return true
		}
	}
	return s.Items != nil && d.has(*s.Items, seen, names...)
}
