package api_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/api"
)

func collect(t testing.TB, limit int64, pieces ...string) (text string, valid bool, missing int64) {
	t.Helper()
	o := api.NewOutput(limit)
	for _, p := range pieces {
		if n, err := o.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatalf("Write gave %d, %v", n, err)
		}
	}
	b, missing := o.Text()
	return string(b), utf8.Valid(b), missing
}

func TestOutput(t *testing.T) {
	gap := func(n int) string { return fmt.Sprintf("\n[... %d bytes of output are left out here ...]\n", n) }
	tests := []struct {
		name   string
		limit  int64
		pieces []string
		want   string
		valid  bool
	}{
		{"nothing", 10, nil, "", true},
		{"within the limit", 10, []string{"12345", "67890"}, "1234567890", true},
		{"one byte more", 10, []string{"12345", "67890a"}, "12345" + gap(1) + "7890a", true},
		{"in one piece", 10, []string{"12345abcdef67890"}, "12345" + gap(6) + "67890", true},
		{"byte by byte", 4, strings.Split("123456789", ""), "12" + gap(5) + "89", true},
		{"a character cut at the head", 6, []string{"12\u00e4abcdef"}, "12" + gap(5) + "def", true},
		{"a character cut at the tail", 6, []string{"123abcd\u00e4ef"}, "123" + gap(6) + "ef", true},
		{"not UTF-8", 10, []string{"a\xffb"}, "a\xffb", false},
		{"not UTF-8 at the cut", 4, []string{"a\xffbcd\xff"}, "a\xff" + gap(2) + "d\xff", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, valid, _ := collect(t, tt.limit, tt.pieces...)
			if got != tt.want || valid != tt.valid {
				t.Errorf("%q, %v, want %q, %v", got, valid, tt.want, tt.valid)
			}
		})
	}
}

func FuzzOutput(f *testing.F) {
	f.Add("hello w\u00f6rld", int64(6), 3)
	f.Fuzz(func(t *testing.T, text string, limit int64, n int) {
		limit, n = 2+limit&0xff, 1+n&0xff
		var pieces []string
		for rest := text; len(rest) > 0; {
			k := min(n, len(rest))
			pieces, rest = append(pieces, rest[:k]), rest[k:]
		}
		got, valid, missing := collect(t, limit, pieces...)
		if missing == 0 && got != text {
			t.Fatalf("%q became %q and nothing is missing", text, got)
		}
		if least := max(0, int64(len(text))-limit/2*2); missing < least || missing > least+2*utf8.UTFMax || (least == 0 && missing > 0) {
			t.Fatalf("%d missing, want %d and what was cut of characters", missing, least)
		}
		if utf8.ValidString(text) && !valid {
			t.Fatalf("%q was valid and %q is not", text, got)
		}
	})
}

// TestOutputMemory is a command that prints far more than the limit.
func TestOutputMemory(t *testing.T) {
	const limit = 1 << 20
	o := api.NewOutput(limit)
	piece := bytes.Repeat([]byte("0123456789abcdef"), 2048)
	allocated := testing.AllocsPerRun(1, func() {
		for range 4096 { // 128 MiB
			if _, err := o.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocated > 100 {
		t.Errorf("%v allocations for output over the limit", allocated)
	}
	text, _ := o.Text()
	if len(text) > limit+100 {
		t.Errorf("kept %d bytes with a limit of %d", len(text), limit)
	}
}
