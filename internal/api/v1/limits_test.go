package v1_test

import (
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	imagestore "github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/protocol"
)

// A request that the document allows is not refused for a length below the surface,
// and the document allows none that is.
func TestDocumentHasTheLimitsOfTheParts(t *testing.T) {
	doc := readDocument(t, "openapi.json")
	for _, tt := range []struct {
		schema, property, limit string
		want                    int
	}{
		{"CreateRequest", "image", "maxLength", check.MaxImage},
		{"CreateRequest", "env", "maxProperties", check.MaxEnv},
		{"CreateRequest", "labels", "maxProperties", check.MaxLabels},
		{"CreateRequest", "name", "maxLength", check.MaxName},
		{"CreateRequest", "hostname", "maxLength", check.MaxHostname},
		{"CreateRequest", "workspace_id", "maxLength", check.MaxName},
		{"ForkRequest", "env", "maxProperties", check.MaxEnv},
		{"ForkRequest", "labels", "maxProperties", check.MaxLabels},
		{"ForkRequest", "hostname", "maxLength", check.MaxHostname},
		{"UpdateRequest", "labels", "maxProperties", check.MaxLabels},
		{"SnapshotRequest", "name", "maxLength", check.MaxName},
		{"SecretRequest", "hosts", "maxItems", secrets.MaxHosts},
		{"SecretRequest", "header", "maxLength", secrets.MaxPlace},
		{"SecretRequest", "query", "maxLength", secrets.MaxPlace},
		{"SecretRequest", "value", "maxLength", network.MaxSecret},
		{"UserRequest", "email", "maxLength", accounts.MaxEmail},
		{"UserRequest", "password", "minLength", accounts.MinPassword},
		{"UserRequest", "password", "maxLength", accounts.MaxPassword},
		{"UserUpdateRequest", "email", "maxLength", accounts.MaxEmail},
		{"UserUpdateRequest", "password", "maxLength", accounts.MaxPassword},
		{"KeyRequest", "name", "maxLength", accounts.MaxKeyName},
		{"KeyRequest", "ttl_seconds", "maximum", int(accounts.MaxKeyLife / time.Second)},
		{"BuildRequest", "name", "maxLength", imagestore.MaxName},
		{"PullRequest", "name", "maxLength", imagestore.MaxName},
		{"WriteRequest", "path", "maxLength", protocol.MaxPath},
		{"MoveRequest", "to", "maxLength", protocol.MaxPath},
	} {
		got, ok := at(doc, "components", "schemas", tt.schema, "properties", tt.property)[tt.limit].(float64)
		if !ok || int(got) != tt.want {
			t.Errorf("%s.%s has %s %v, and the rule is %d", tt.schema, tt.property, tt.limit, got, tt.want)
		}
	}
	for _, tt := range []struct {
		path, method, parameter string
		want                    int
	}{
		{"/v1/sessions", "post", "Idempotency-Key", check.MaxIdempotencyKey},
		{"/v1/sessions/{id}/fs/glob", "get", "pattern", protocol.MaxPattern},
		{"/v1/sessions/{id}/fs/grep", "get", "pattern", protocol.MaxPattern},
		{"/v1/sessions/{id}/fs/list", "get", "path", protocol.MaxPath},
	} {
		found := false
		parameters, _ := at(doc, "paths", tt.path, tt.method)["parameters"].([]any)
		for _, p := range parameters {
			parameter := p.(schema)
			if parameter["name"] != tt.parameter {
				continue
			}
			found = true
			if got := at(parameter, "schema")["maxLength"]; got != float64(tt.want) {
				t.Errorf("%s of %s may have %v bytes, and the rule is %d", tt.parameter, tt.path, got, tt.want)
			}
		}
		if !found {
			t.Errorf("%s %s has no %s", tt.method, tt.path, tt.parameter)
		}
	}
}
