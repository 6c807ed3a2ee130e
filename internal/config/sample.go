package config

import (
	"fmt"
	"strings"
)

// Sample is a file with every key, its meaning and its default. It changes
// nothing as it is. Drivers are as for Load.
func Sample(drivers []string) string {
	c := Default(drivers)
	var b strings.Builder
	b.WriteString("# Sandkasten's configuration. Every key is here with its default: copy the file\n" +
		"# and keep what you change. docs/configuration.md tells more.\n")
	in := ""
	for _, o := range c.options(drivers) {
		section, name, nested := cutLast(o.key)
		indent := ""
		if nested {
			indent = "  "
		}
		b.WriteString("\n")
		if section != in {
			fmt.Fprintf(&b, "%s:\n", section)
			in = section
		}
		for _, text := range wrapped(o.doc, 90) {
			fmt.Fprintf(&b, "%s# %s\n", indent, text)
		}
		shown := o.value.show()
		if shown == "" { // no default: shown as a comment
			fmt.Fprintf(&b, "%s# %s:\n", indent, name)
			continue
		}
		fmt.Fprintf(&b, "%s%s: %s\n", indent, name, shown)
	}
	return b.String()
}

func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
