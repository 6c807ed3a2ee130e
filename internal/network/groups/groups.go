// Package groups finds the hosts that the package clients of an image download from,
// by what the clients say themselves. A policy names them as @pip, @npm and so on, so
// that no list of hosts is kept here and a company's mirror works. Running the script
// and storing its answer belong to others.
package groups

import (
	_ "embed" // for the script
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sandkasten/sandkasten/internal/network"
)

// Names are the groups that an image can have.
var Names = []string{"apt", "cargo", "git", "go", "npm", "pip"}

// MaxOutput bounds what the script may print.
const MaxOutput = 256 << 10

// maxEntries bounds one group. An image is a stranger's, and so is its answer.
const maxEntries = 64

//go:embed ask.sh
var script string

// Script is a program for /bin/sh that asks the package clients around it and prints
// what Parse reads. It needs no network and changes nothing outside /tmp.
func Script() string { return script }

// Parse returns the entries of each group, sorted. A group without entries is of a
// client that is there and names no host; a group that is missing has no client.
// What is no host that a policy could name is left out, and so is everything of a
// URL but its host and port.
func Parse(output []byte) (map[string][]string, error) {
	if len(output) > MaxOutput {
		return nil, fmt.Errorf("the package clients of the image said more than %d bytes", MaxOutput)
	}
	found := map[string][]string{}
	for line := range strings.Lines(string(output)) {
		group, text, cut := strings.Cut(strings.TrimRight(line, "\r\n"), "\t")
		if !cut || !slices.Contains(Names, group) {
			continue
		}
		if found[group] == nil {
			found[group] = []string{}
		}
		entry, ok := entryOf(strings.TrimSpace(text))
		if ok && len(found[group]) < maxEntries && !slices.Contains(found[group], entry) {
			found[group] = append(found[group], entry)
		}
	}
	for _, entries := range found {
		slices.Sort(entries)
	}
	return found, nil
}

// schemes are those by which clients download, with the port of each.
var schemes = map[string]uint16{"http": 80, "https": 443, "mirror": 80, "ssh": 22, "git": 9418}

// entryOf is the host of a URL, or of host[:port], as an entry of a policy.
func entryOf(text string) (entry string, ok bool) {
	host, port, ok := splitURL(text)
	if !ok {
		return "", false
	}
	entry, ok = joinEntry(host, port)
	if !ok {
		return "", false
	}
	_, err := network.ParseRule(entry, true)
	return entry, err == nil
}

// splitURL cuts host and port out of a URL. It takes the way of git and ssh to write
// one too: user@host:path.
func splitURL(text string) (host string, port uint16, ok bool) {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		if user, path, cut := strings.Cut(text, "@"); cut && !strings.ContainsAny(user, "/:") {
			host, _, ok = strings.Cut(path, ":")
			return host, schemes["ssh"], ok
		}
		scheme, rest = "https", text
	}
	// A client may put its own way in front: sparse+https, tor+http.
	scheme = strings.ToLower(scheme[strings.LastIndexByte(scheme, '+')+1:])
	if port, ok = schemes[scheme]; !ok {
		return "", 0, false
	}
	if end := strings.IndexAny(rest, "/?#\\"); end >= 0 {
		rest = rest[:end]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:] // without a password
	return splitHost(rest, port)
}

// splitHost cuts a port off a host; an IPv6 address stands in brackets.
func splitHost(text string, standard uint16) (host string, port uint16, ok bool) {
	host, portText, cut := text, "", false
	if inner, bracket := strings.CutPrefix(text, "["); bracket {
		var after string
		if host, after, ok = strings.Cut(inner, "]"); !ok {
			return "", 0, false
		}
		portText, cut = strings.CutPrefix(after, ":")
		if !cut && after != "" {
			return "", 0, false
		}
	} else {
		host, portText, cut = strings.Cut(text, ":")
	}
	if !cut || portText == "" {
		return host, standard, host != ""
	}
	n, err := strconv.ParseUint(portText, 10, 16)
	return host, uint16(n), err == nil && n > 0 && host != ""
}

// joinEntry writes one host as an entry. Names have no port where a policy means the
// right ones without; addresses always have one.
func joinEntry(host string, port uint16) (entry string, ok bool) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return netip.AddrPortFrom(addr.WithZone("").Unmap(), port).String(), true
	}
	// No wildcard and no range: those are a policy's own to open.
	name, err := network.NormalName(host)
	if err != nil {
		return "", false
	}
	if port == 80 || port == 443 {
		return name, true
	}
	return name + ":" + strconv.Itoa(int(port)), true
}
