package model

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/agents/frontmatter"
)

// OpenAI's own models refuse the name of the limit that compatible servers know.
func TestLimitOfAnAnswer(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{ownOpenAI: `"max_completion_tokens":99`, "http://127.0.0.1:11434/v1": `"max_tokens":99`} {
		m := &openAI{model: "m", api: endpoint{base: base}}
		text, err := json.Marshal(m.request(Request{Config: frontmatter.Config{MaxOutputTokens: 99}}))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(text); !strings.Contains(got, want) || strings.Count(got, "99") != 1 {
			t.Errorf("%s is sent %s; want %s", base, got, want)
		}
	}
}
