package api_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/api"
)

// wantJSON is what encoding/json makes of text.
func wantJSON(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(strings.ToValidUTF8(text, "\uFFFD")); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func checkJSONString(t *testing.T, text string) {
	t.Helper()
	got, valid := api.AppendJSONString([]byte("before "), []byte(text))
	if want := "before " + wantJSON(t, text); string(got) != want || valid != utf8.ValidString(text) {
		t.Fatalf("%q is %s, valid %t; want %s", text, got, valid, want)
	}
}

func TestAppendJSONString(t *testing.T) {
	for c := range rune(0x3000) { // all that has an escape, and more
		checkJSONString(t, "a"+string(c)+"b")
	}
	for c := range 256 { // and each byte by itself
		checkJSONString(t, string([]byte{byte(c)}))
	}
	pieces := []string{"a", "line of text\n", "\x00", "\x1b", `"`, `\`, "<&>", "ä", "€", "😀", "\u2028", "\uFFFD", "\xff", "\xc3", "\xe2\x82", "\xed\xa0\x80"}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var text strings.Builder
		for range r.IntN(20) {
			text.WriteString(pieces[r.IntN(len(pieces))])
		}
		checkJSONString(t, text.String())
	}
}

func FuzzAppendJSONString(f *testing.F) {
	f.Add("a\n\x00\"\\\u2028\xff\xffä")
	f.Fuzz(checkJSONString)
}

func BenchmarkAppendJSONString(b *testing.B) {
	for name, piece := range map[string]string{
		"lines":  "a line of ordinary output, of no great length\n",
		"y":      "y\n",
		"german": "größere Mäuse äßen Käse\n",
		"binary": "\x00\xff\xfe\x80ab\x9d\n",
	} {
		b.Run(name, func(b *testing.B) {
			text := bytes.Repeat([]byte(piece), 32<<10/len(piece))
			b.SetBytes(int64(len(text)))
			var out []byte
			for b.Loop() {
				out, _ = api.AppendJSONString(out[:0], text)
			}
		})
		b.Run(name+"/encoding/json", func(b *testing.B) {
			text := bytes.Repeat([]byte(piece), 32<<10/len(piece))
			b.SetBytes(int64(len(text)))
			var out bytes.Buffer
			for b.Loop() {
				out.Reset()
				if err := json.NewEncoder(&out).Encode(string(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
