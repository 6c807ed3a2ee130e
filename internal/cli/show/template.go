package show

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"
)

// TemplateFuncs are what a template of --format may call beside Go's own.
func TemplateFuncs() template.FuncMap {
	return template.FuncMap{
		"json": func(v any) (string, error) {
			var text bytes.Buffer
			e := json.NewEncoder(&text)
			e.SetEscapeHTML(false)
			err := e.Encode(v)
			return strings.TrimSuffix(text.String(), "\n"), err
		},
		"size":   Size,
		"age":    func(t time.Time) string { return Span(time.Since(t)) },
		"join":   strings.Join,
		"labels": Labels,
	}
}

// Labels shows labels on one line: a=1,b=2.
func Labels(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ",")
}
