package network

import (
	"slices"
	"strings"
)

// width orders the modes: each reaches what those before it reach.
var width = []Mode{None, Allow, Internet, Full}

// Wider reports whether m reaches more than other does.
func (m Mode) Wider(other Mode) bool { return slices.Index(width, m) > slices.Index(width, other) }

// Opens reports whether the policy opens anything at all.
func (p Policy) Opens() bool { return p.Mode != "" && p.Mode != None }

// NamesGroups reports whether an entry of the policy is a group.
func (p Policy) NamesGroups() bool {
	isGroup := func(entry string) bool { return strings.HasPrefix(entry, "@") }
	return slices.ContainsFunc(p.Allow, isGroup) || slices.ContainsFunc(p.Deny, isGroup)
}

// Empty reports whether the policy says nothing beside its mode.
func (p Policy) Empty() bool {
	return len(p.Allow) == 0 && len(p.Deny) == 0 && p.MaxMbit == 0 && p.MaxConnections == 0 && p.ConnectionsPerSecond == 0 && p.MaxMB == 0
}
