// Package tokens counts what the definitions of the tools cost a model. It is a
// module of its own, since a vocabulary is large.
package tokens

import (
	"bytes"
	"testing"

	"github.com/tiktoken-go/tokenizer"

	"github.com/sandkasten/sandkasten/agents/tools"
)

// budget is for the definitions of all tools, schemas included.
const budget = 4000

func TestDefinitionsFitTheBudget(t *testing.T) {
	for _, encoding := range []tokenizer.Encoding{tokenizer.O200kBase, tokenizer.Cl100kBase} {
		codec, err := tokenizer.Get(encoding)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range tools.Formats {
			text, err := tools.Definitions(format, tools.All())
			if err != nil {
				t.Fatal(err)
			}
			if format == tools.MCP { // clients give models no schemas of answers
				for _, tool := range tools.All() {
					text = bytes.Replace(text, append([]byte(`"outputSchema":`), tool.Output()...), []byte(`"outputSchema":{}`), 1)
				}
			}
			ids, _, err := codec.Encode(string(text))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, %s: %d tokens of %d bytes", format, encoding, len(ids), len(text))
			if len(ids) > budget {
				t.Errorf("%s costs %d tokens of %s, over %d", format, len(ids), encoding, budget)
			}
		}
	}
}
