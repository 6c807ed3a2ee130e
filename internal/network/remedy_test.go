package network

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// Each refusal names the entry that opens it, and whoever follows that gets another
// answer. Where none is named, none of those that one would think of opens it.
func TestRemediesChangeTheAnswer(t *testing.T) {
	operator := Operator{
		AllowPrivate: true, Groups: map[string][]string{"company": {"git.corp.test", "10.20.0.0/16"}, "other": {"wiki.corp.test"}},
		Own: func(a netip.Addr) bool { return a.String() == "203.0.113.9" },
	}
	list := func(entries ...string) Policy { return Policy{Mode: Allow, Allow: entries} }
	denying := list("good.test")
	denying.Deny = []string{"evil.test", "198.51.100.0/24"}
	careful := list()
	careful.Deny = []string{"bad.test"}
	for about, c := range map[string]struct {
		policy   Policy
		ceiling  *Policy
		operator Operator
		name     string
		addr     string
		port     uint16
		shows    Shown
		want     string
	}{
		"a name":                         {policy: list("good.test"), operator: operator, name: "new.test", want: "new.test"},
		"a name in mode none":            {operator: operator, name: "new.test", want: "new.test"},
		"a name that is denied":          {policy: denying, operator: operator, name: "evil.test"},
		"a name in mode internet":        {policy: Policy{Mode: Internet, Deny: []string{"evil.test"}}, operator: operator, name: "evil.test"},
		"a name beyond the ceiling":      {policy: list("good.test"), ceiling: &Policy{Mode: Allow, Allow: []string{"good.test"}}, operator: operator, name: "new.test"},
		"a name below the ceiling":       {policy: list(), ceiling: &Policy{Mode: Allow, Allow: []string{"*.good.test"}}, operator: operator, name: "new.good.test", want: "new.good.test"},
		"a name with a private address":  {policy: list("git.corp.test"), operator: operator, name: "git.corp.test", addr: "10.20.0.7", want: "@company"},
		"one that no group has":          {policy: list("git.corp.test"), operator: operator, name: "git.corp.test", addr: "10.99.0.7", want: "10.99.0.7"},
		"of IPv6":                        {policy: list("git.corp.test"), operator: operator, name: "git.corp.test", addr: "fd00:1::7", want: "fd00:1::7"},
		"one that the operator closes":   {policy: list("git.corp.test"), name: "git.corp.test", addr: "10.20.0.7"},
		"one in mode internet":           {policy: Policy{Mode: Internet}, operator: operator, name: "git.corp.test", addr: "10.20.0.7"},
		"one beyond the ceiling":         {policy: list("git.corp.test"), ceiling: &Policy{Mode: Internet}, operator: operator, name: "git.corp.test", addr: "10.20.0.7"},
		"one that is denied":             {policy: Policy{Mode: Allow, Allow: []string{"git.corp.test"}, Deny: []string{"10.0.0.0/8"}}, operator: operator, name: "git.corp.test", addr: "10.20.0.7", port: 443},
		"a name with the host's address": {policy: list("git.corp.test"), operator: operator, name: "git.corp.test", addr: "203.0.113.9"},
		"a name at a link":               {policy: list("git.corp.test"), operator: operator, name: "git.corp.test", addr: "169.254.169.254"},
		"a private address":              {policy: list("git.corp.test"), operator: operator, addr: "10.20.0.7", port: 22, want: "@company"},
		"another private address":        {policy: list("git.corp.test"), operator: operator, addr: "10.99.0.7", port: 22, want: "10.99.0.7:22"},
		"a port of a name":               {policy: list("good.test"), operator: operator, name: "good.test", addr: "198.51.100.1", port: 22, want: "good.test:22"},
		"another name at an address":     {policy: list("good.test"), operator: operator, name: "new.test", addr: "198.51.100.1", port: 443, want: "new.test"},
		"an address":                     {policy: list("good.test"), operator: operator, addr: "198.51.100.1", port: 443, want: "198.51.100.1:443"},
		"an address of IPv6":             {policy: list("good.test"), operator: operator, addr: "2001:db8::1", port: 5432, want: "[2001:db8::1]:5432"},
		"an address that is denied":      {policy: denying, operator: operator, addr: "198.51.100.1", port: 443},
		"TLS without a host":             {policy: list("good.test"), operator: operator, name: "good.test", addr: "198.51.100.1", port: 443, shows: ShowsNone, want: "198.51.100.1:443"},
		"where some names are denied":    {policy: careful, operator: operator, name: "good.test", addr: "198.51.100.1", port: 443, shows: ShowsNone},
		"other protocols":                {policy: list("db.test"), operator: operator, name: "db.test", addr: "198.51.100.1", port: 5432, shows: ShowsRaw, want: "db.test:5432"},
		"other protocols at web ports":   {policy: list("db.test"), operator: operator, name: "db.test", addr: "198.51.100.1", port: 443, shows: ShowsRaw, want: "198.51.100.1:443"},
		"what a limit refused":           {policy: list("good.test"), operator: operator, name: "good.test", addr: "198.51.100.1", port: 443},
	} {
		t.Run(about, func(t *testing.T) {
			attempt := Attempt{Name: c.name, Port: c.port, Shows: c.shows}
			if c.addr != "" {
				attempt.Addr = netip.MustParseAddr(c.addr)
			}
			rules, err := CompileWithin(c.policy, c.ceiling, c.operator)
			if err != nil {
				t.Fatal(err)
			}
			if entry := rules.Remedy(attempt); entry != c.want {
				t.Errorf("the remedy is %q, want %q", entry, c.want)
			}
			if about == "what a limit refused" {
				return
			}
			if rules.opens(attempt) {
				t.Fatal("it is not refused")
			}
			tried := []string{c.want}
			if c.want == "" {
				tried = slices.DeleteFunc([]string{c.name, c.addr}, func(entry string) bool { return entry == "" })
			}
			more := c.policy
			more.Allow = append(slices.Clone(more.Allow), tried...)
			if more.Mode == "" {
				more.Mode = Allow
			}
			wider, err := CompileWithin(more, c.ceiling, c.operator)
			if opened := err == nil && wider.opens(attempt); opened != (c.want != "") {
				t.Errorf("with %q it is opened: %t, %v", tried, opened, err)
			}
		})
	}
}

// A private address of an allowed name says whose the mend is, and that mends it.
func TestPrivateAddressesSayWhoOpensThem(t *testing.T) {
	addr := netip.MustParseAddr("10.20.0.7")
	policy := Policy{Mode: Allow, Allow: []string{"git.corp.test"}}
	closed := compile(t, policy, Operator{})
	if why := closed.WhyNoAnswer(addr); !strings.Contains(why, "10.20.0.7") || !strings.Contains(why, "network.allow_private") {
		t.Errorf("%s", why)
	}
	if why := closed.Connect(addr, 22, nil).Why; !strings.Contains(why, "network.allow_private") {
		t.Errorf("%s", why)
	}
	open := compile(t, policy, Operator{AllowPrivate: true})
	if why := open.WhyNoAnswer(addr); !strings.HasSuffix(why, "10.20.0.7 is private, which no name opens") {
		t.Errorf("%s", why)
	}
	if entry := open.Remedy(Attempt{Name: "git.corp.test", Addr: addr}); entry != "10.20.0.7" {
		t.Errorf("%q", entry)
	}
	ceiling := Policy{Mode: Internet}
	within, err := CompileWithin(Policy{Mode: Full}, nil, Operator{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	within.ceiling = compile(t, ceiling, Operator{AllowPrivate: true})
	if why := within.WhyNoAnswer(addr); !strings.HasPrefix(why, "the key's ceiling: its address 10.20.0.7 is private, which mode internet") {
		t.Errorf("%s", why)
	}
	own := compile(t, policy, Operator{AllowPrivate: true, Own: func(a netip.Addr) bool { return a == addr }})
	if why := own.WhyNoAnswer(addr); !strings.Contains(why, "the host's") {
		t.Errorf("%s", why)
	}
}
