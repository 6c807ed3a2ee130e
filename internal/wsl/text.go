package wsl

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// decode makes UTF-8 of what wsl.exe printed: UTF-16LE where it speaks itself,
// and bytes as they are where a program in the distribution does.
func decode(out []byte) string {
	text := string(out)
	// No program prints NUL, and no UTF-16 of lines is without: it has their ends.
	if bytes.IndexByte(out, 0) >= 0 {
		units := make([]uint16, len(out)/2)
		for i := range units {
			units[i] = binary.LittleEndian.Uint16(out[2*i:])
		}
		text = string(utf16.Decode(units))
	}
	text = strings.TrimPrefix(text, "\ufeff")
	return strings.ReplaceAll(text, "\r\n", "\n")
}

// parseList reads `wsl.exe --list --verbose` in any language: a line ends in
// the version, which the line of headings does not, and an asterisk marks the
// default.
func parseList(text string) []Distribution {
	var all []Distribution
	for line := range strings.Lines(text) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "*"))
		last := len(fields) - 1
		if last < 2 || fields[last] != "1" && fields[last] != "2" {
			continue
		}
		all = append(all, Distribution{Name: fields[0], State: strings.Join(fields[1:last], " "), Version: fields[last]})
	}
	return all
}
