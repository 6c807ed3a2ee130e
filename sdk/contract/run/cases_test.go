package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

type step struct {
	Do     string          `json:"do"`
	On     string          `json:"on"`
	Client string          `json:"client"`
	Key    string          `json:"key"`
	User   string          `json:"user"`
	With   map[string]any  `json:"with"`
	As     string          `json:"as"`
	Expect json.RawMessage `json:"expect"`
	Error  map[string]any  `json:"error"`
}

// TestCasesAreWhole finds what no SDK could run.
func TestCasesAreWhole(t *testing.T) {
	text, err := os.ReadFile("../cases.json")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var cases []struct {
		Name  string `json:"name"`
		Steps []step `json:"steps"`
	}
	if err := decoder.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, c := range cases {
		if c.Name == "" || names[c.Name] || len(c.Steps) == 0 {
			t.Errorf("case %q has no name, the name of another, or no steps", c.Name)
		}
		names[c.Name] = true
		checkSteps(t, c.Name, c.Steps, string(readme))
	}
}

var reference = regexp.MustCompile(`\$\{(\w+)\.?\w*\}`)

func checkSteps(t *testing.T, name string, steps []step, readme string) {
	known := map[string]bool{"": true, "unique": true}
	for _, s := range steps {
		if !strings.Contains(readme, "`"+s.Do+"`") {
			t.Errorf("case %q: the README does not explain %q", name, s.Do)
		}
		if s.Expect != nil && s.Error != nil {
			t.Errorf("case %q: %s has both a result and an error", name, s.Do)
		}
		if s.On != "" && s.Client+s.Key != "" || s.Client != "" && s.Key != "" {
			t.Errorf("case %q: %s has more than one of on, client and key", name, s.Do)
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		used := []string{s.On}
		for _, match := range reference.FindAllStringSubmatch(string(text), -1) {
			used = append(used, match[1])
		}
		for _, use := range used {
			if !known[use] {
				t.Errorf("case %q: %s uses %q, which no step before it made", name, s.Do, use)
			}
		}
		known[s.As] = true
		if s.Do == "fork" {
			known[s.As+"0"], known[s.As+"1"] = true, true
		}
	}
}
