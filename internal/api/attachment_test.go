package api_test

import (
	"mime"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
)

func TestAttachment(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"report.csv":                 "report.csv",
		"../../.ssh/authorized_keys": "authorized_keys",
		"/etc/passwd":                "passwd",
		`..\..\evil.exe`:             "evil.exe",
		`C:\x/y\z`:                   "z",
		"C:x":                        "C:x",
		"a/..":                       "file",
		"a/.":                        "file",
		"a/":                         "file",
		"":                           "file",
		"..":                         "file",
		`a"; filename="b`:            `a"; filename="b`,
		"a\r\nSet-Cookie: b":         "a\r\nSet-Cookie: b",
		"r\u00e9sum\u00e9 1.html":    "r\u00e9sum\u00e9 1.html",
		"\xff.txt":                   "_.txt",
	} {
		header := api.Attachment(name)
		kind, told, err := mime.ParseMediaType(header)
		if err != nil || kind != "attachment" || len(told) != 1 || told["filename"] != want {
			t.Errorf("%q is %q: %v, %v", name, header, told, err)
		}
		for _, b := range []byte(header) {
			if b < ' ' || b > '~' {
				t.Errorf("%q is %q", name, header)
				break
			}
		}
	}
}
