package agents

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sandkasten/sandkasten/agents/tools"
)

// conforms holds an answer to the schema that its tool announces, as clients do.
func conforms(t *testing.T, tool string, answer json.RawMessage) {
	t.Helper()
	for _, one := range tools.All() {
		if one.Name != tool {
			continue
		}
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(one.Output()))
		if err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("answer.json", schema); err != nil {
			t.Fatal(err)
		}
		compiled, err := compiler.Compile("answer.json")
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer))
		if err == nil {
			err = compiled.Validate(value)
		}
		if err != nil {
			t.Errorf("%s: %s is not as its schema says: %v", tool, answer, err)
		}
	}
}
