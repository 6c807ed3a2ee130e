package images

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// hostMirrors returns the lines by which the host's apt gets the suite and its
// updates, so that a host with a mirror of its own builds from that. It returns
// none if the host has another suite: the builder's defaults are then right.
func hostMirrors(etcApt fs.FS, suite string) []string {
	var lines []string
	suites := []string{suite, suite + "-updates", suite + "-security"}
	for _, src := range aptSources(etcApt) {
		if slices.Contains(suites, src.suite) && slices.Contains(src.components, "main") &&
			(strings.HasPrefix(src.uri, "http://") || strings.HasPrefix(src.uri, "https://")) {
			lines = append(lines, "deb "+src.uri+" "+src.suite+" main")
		}
	}
	own := func(l string) bool { return strings.HasSuffix(l, " "+suite+" main") }
	if !slices.ContainsFunc(lines, own) {
		return nil
	}
	return slices.Compact(lines)
}

type aptSource struct {
	uri, suite string
	components []string
}

// aptSources reads both formats of sources; what it cannot read it leaves out.
func aptSources(etcApt fs.FS) []aptSource {
	files, err := fs.Glob(etcApt, "sources.list.d/*")
	if err != nil {
		return nil
	}
	var all []aptSource
	for _, name := range append([]string{"sources.list"}, files...) {
		data, err := fs.ReadFile(etcApt, name)
		if errors.Is(err, fs.ErrNotExist) || err != nil {
			continue
		}
		switch path.Ext(name) {
		case ".list":
			all = append(all, oneLineSources(string(data))...)
		case ".sources":
			all = append(all, stanzaSources(string(data))...)
		}
	}
	return all
}

// oneLineSources reads "deb [options] uri suite component...".
func oneLineSources(text string) []aptSource {
	var list []aptSource
	for line := range strings.Lines(text) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "deb ")
		if !ok {
			continue
		}
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			_, line, _ = strings.Cut(line, "]")
		}
		if f := strings.Fields(line); len(f) >= 3 {
			list = append(list, aptSource{uri: f[0], suite: f[1], components: f[2:]})
		}
	}
	return list
}

// stanzaSources reads the deb822 format.
func stanzaSources(text string) []aptSource {
	var list []aptSource
	for stanza := range strings.SplitSeq(text, "\n\n") {
		field := map[string][]string{}
		for line := range strings.Lines(stanza) {
			name, value, ok := strings.Cut(line, ":")
			if ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, " ") {
				field[strings.ToLower(name)] = strings.Fields(value)
			}
		}
		if !slices.Contains(field["types"], "deb") || slices.Contains(field["enabled"], "no") {
			continue
		}
		for _, uri := range field["uris"] {
			for _, suite := range field["suites"] {
				list = append(list, aptSource{uri: uri, suite: suite, components: field["components"]})
			}
		}
	}
	return list
}
