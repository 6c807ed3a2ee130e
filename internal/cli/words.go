package cli

import (
	"strings"
	"unicode/utf8"
)

// RefuseBytes refuses a command that the API cannot be told: it is text.
func RefuseBytes(words []string) error {
	for _, word := range words {
		if !utf8.ValidString(word) {
			return Wrong(`a command is text, and %q has bytes that are not UTF-8: write the command as one line, and such bytes in it as $'caf\xe9'`, word)
		}
	}
	return nil
}

// Quote writes a word so that a shell reads exactly it.
func Quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
