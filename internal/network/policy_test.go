package network

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

func compile(t *testing.T, p Policy, o Operator) *Rules {
	t.Helper()
	r, err := Compile(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOnlyListedNamesAreResolved(t *testing.T) {
	r := compile(t, Policy{Mode: Allow, Allow: []string{"good.test", "*.Wild.test.", "db.test:5432"}, Deny: []string{"bad.wild.test"}}, Operator{})
	for name, want := range map[string]bool{
		"good.test": true, "a.wild.test": true, "db.test": true,
		"xgood.test": false, "good.test.evil.test": false, "sub.good.test": false, "test": false,
		"wild.test": false, "a.b.wild.test": false, "bad.wild.test": false, "xwild.test": false,
	} {
		if got := r.Resolve(name); got.Allowed != want {
			t.Errorf("%s: %+v, want %t", name, got, want)
		}
	}
	for _, mode := range []Mode{None, ""} {
		if r := compile(t, Policy{Mode: mode}, Operator{}); r.Resolve("good.test").Allowed {
			t.Errorf("mode %q resolves", mode)
		}
	}
	if compile(t, Policy{Mode: Allow}, Operator{}).Resolve("good.test").Allowed {
		t.Error("an empty list allows a name")
	}
}

// Whatever looks like an allowed name to a careless reader is refused or is that name.
func TestNamesAreNormalised(t *testing.T) {
	if name, err := NormalName("GOOD.Test."); name != "good.test" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	for _, name := range []string{
		"", ".", "good.test..", "..good.test", "good..test", "evil.test#good.test", "good.test@evil.test", "evil.test\x00.good.test",
		"evil.test%00good.test", "gооd.test", "good.test\t", "good.test\r\n", " good.test", "good.test/", "\u212aelvin.test", `good\.test`, "*", "*.good.test", "good.test:22",
		strings.Repeat("a.", 2500) + "test", strings.Repeat("a", 64) + ".test",
		"127.1", "2130706433", "0x7f.1", "0177.1", "0x7f000001", "127.0.0.1", "1.2.3.4.",
	} {
		if got, err := NormalName(name); err == nil {
			t.Errorf("%q is taken for %q", name, got)
		}
	}
}

func TestBadEntriesAreRefused(t *testing.T) {
	for _, entry := range []string{
		"", "*", "*.", "*.com", ".", "a.*.test", "**.a.test", "good.test:", "good.test:0", "good.test:65536", "good.test:-1", "good.test:+80", "good.test:080",
		"good.test:90-80", "good.test:80-", "[::1", "[2001:db8::1]x", "[2001:db8::1]:", "fe80::1%eth0", "@nothing", "good.test:80:90",
		"10.0.0.0/8", "127.0.0.1", "169.254.169.254", "192.168.1.1:8080", "fd00:ec2::254", "::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "0.0.0.0/0",
	} {
		_, err := Compile(Policy{Mode: Allow, Allow: []string{entry}}, Operator{})
		if !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%q: %v", entry, err)
		}
	}
	for _, p := range []Policy{{Mode: "open"}, {Mode: Internet, Allow: []string{"good.test"}}, {Mode: Allow, MaxMbit: -1}, {MaxConnections: -1}, {MaxConnections: 4097}, {ConnectionsPerSecond: -1}, {ConnectionsPerSecond: 10001}, {MaxMB: -1}, {MaxMB: MostMB + 1}} {
		if _, err := Compile(p, Operator{}); !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if _, err := Compile(Policy{Mode: Full}, Operator{}); !errdefs.Is(err, errdefs.PermissionDenied) {
		t.Errorf("mode full without the operator: %v", err)
	}
	long := Policy{Mode: Allow, Allow: make([]string, MaxEntries+1)}
	if _, err := Compile(long, Operator{}); !errdefs.Is(err, errdefs.InvalidArgument) {
		t.Errorf("too many entries: %v", err)
	}
}

func TestLimitsAreThoseOfThePolicy(t *testing.T) {
	r := compile(t, Policy{MaxMbit: 1, MaxConnections: 4096, ConnectionsPerSecond: 10000, MaxMB: 4}, Operator{})
	if r.MaxMbit() != 1 || r.MaxConnections() != 4096 || r.ConnectionsPerSecond() != 10000 || r.MaxMB() != 4 {
		t.Errorf("%+v", r.limits)
	}
	_, err := Compile(Policy{MaxConnections: -1}, Operator{})
	if e, ok := errors.AsType[*errdefs.Error](err); !ok || e.Field != "network.max_connections" {
		t.Errorf("%v", err)
	}
}

// What a policy may ask for is bounded, connections by the operator too, and the bound is
// named in the refusal.
func TestPoliciesAskForNoMoreThanTheyMay(t *testing.T) {
	for about, c := range map[string]struct {
		policy   Policy
		operator Operator
		field    string // "" where it is allowed
		most     string
	}{
		"as many as the operator lets it":       {Policy{Mode: Internet, MaxConnections: 50}, Operator{MaxConnections: 50}, "", ""},
		"more than the operator lets it":        {Policy{Mode: Internet, MaxConnections: 51}, Operator{MaxConnections: 50}, "network.max_connections", "50"},
		"with a list of its own, too":           {Policy{Mode: Allow, Allow: []string{"good.test"}, MaxConnections: 4096}, Operator{MaxConnections: 50}, "network.max_connections", "50"},
		"the most that there can be":            {Policy{Mode: Internet, MaxConnections: MostConnections}, Operator{}, "", ""},
		"more than there can be":                {Policy{Mode: Internet, MaxConnections: MostConnections + 1}, Operator{}, "network.max_connections", "4096"},
		"more, whatever the operator says":      {Policy{Mode: Internet, MaxConnections: MostConnections + 1}, Operator{MaxConnections: 1 << 20}, "network.max_connections", "4096"},
		"more new ones in a second than may be": {Policy{Mode: Internet, ConnectionsPerSecond: MostConnectionsPerSecond + 1}, Operator{}, "network.connections_per_second", "10000"},
		"more bytes than can be counted":        {Policy{Mode: Internet, MaxMB: MostMB + 1}, Operator{}, "network.max_mb", "1099511627776"},
		"a negative rate":                       {Policy{Mode: Internet, MaxMbit: -1}, Operator{}, "network.max_mbit", "negative"},
	} {
		_, err := Compile(c.policy, c.operator)
		e, ok := errors.AsType[*errdefs.Error](err)
		if c.field == "" && err != nil || c.field != "" && (!ok || e.Code != errdefs.InvalidArgument || e.Field != c.field || !strings.Contains(e.Message, c.most)) {
			t.Errorf("%s: %v", about, err)
		}
	}
}

func TestConnections(t *testing.T) {
	private := Operator{AllowPrivate: true, Groups: map[string][]string{"team": {"wiki.test", "198.51.100.9:22"}}}
	for _, c := range []struct {
		about    string
		policy   Policy
		operator Operator
		addr     string
		port     uint16
		names    string // resolved to the address
		want     bool
	}{
		{"mode none", Policy{}, private, "198.51.100.1", 443, "good.test", false},
		{"a name that was resolved", Policy{Mode: Allow, Allow: []string{"good.test"}}, Operator{}, "198.51.100.1", 443, "good.test", true},
		{"plain HTTP", Policy{Mode: Allow, Allow: []string{"good.test"}}, Operator{}, "198.51.100.1", 80, "good.test", true},
		{"another port than a name's", Policy{Mode: Allow, Allow: []string{"good.test"}}, Operator{}, "198.51.100.1", 22, "good.test", false},
		{"a port of the entry", Policy{Mode: Allow, Allow: []string{"good.test:22"}}, Operator{}, "198.51.100.1", 22, "good.test", true},
		{"not the web beside it", Policy{Mode: Allow, Allow: []string{"good.test:22"}}, Operator{}, "198.51.100.1", 443, "good.test", false},
		{"a range of ports", Policy{Mode: Allow, Allow: []string{"good.test:8000-8010"}}, Operator{}, "198.51.100.1", 8010, "good.test", true},
		{"behind the range", Policy{Mode: Allow, Allow: []string{"good.test:8000-8010"}}, Operator{}, "198.51.100.1", 8011, "good.test", false},
		{"an address that nobody resolved", Policy{Mode: Allow, Allow: []string{"good.test"}}, Operator{}, "198.51.100.1", 443, "", false},
		{"another name's address", Policy{Mode: Allow, Allow: []string{"good.test"}}, Operator{}, "198.51.100.1", 443, "evil.test", false},
		{"an address entry", Policy{Mode: Allow, Allow: []string{"198.51.100.0/24"}}, Operator{}, "198.51.100.1", 5432, "", true},
		{"outside of it", Policy{Mode: Allow, Allow: []string{"198.51.100.0/24"}}, Operator{}, "198.51.101.1", 5432, "", false},
		{"another port of an address", Policy{Mode: Allow, Allow: []string{"198.51.100.1:53"}}, Operator{}, "198.51.100.1", 54, "", false},
		{"IPv6 with a port", Policy{Mode: Allow, Allow: []string{"[2001:db8::1]:443"}}, Operator{}, "2001:db8::1", 443, "", true},
		{"deny beats allow", Policy{Mode: Allow, Allow: []string{"198.51.100.0/24"}, Deny: []string{"198.51.100.1"}}, Operator{}, "198.51.100.1", 80, "", false},
		{"deny a name beats its address", Policy{Mode: Internet, Deny: []string{"evil.test"}}, Operator{}, "198.51.100.1", 8080, "evil.test", false},
		{"a group", Policy{Mode: Allow, Allow: []string{"@team"}}, private, "198.51.100.9", 22, "", true},
		{"the internet", Policy{Mode: Internet}, Operator{}, "198.51.100.1", 25, "", true},
		{"its IPv6", Policy{Mode: Internet}, Operator{}, "2001:db8::1", 25, "", true},
		{"deny a name beats an address that is allowed", Policy{Mode: Allow, Allow: []string{"198.51.100.0/24"}, Deny: []string{"evil.test"}}, Operator{}, "198.51.100.1", 8080, "evil.test", false},
		{"port 0", Policy{Mode: Internet}, Operator{}, "198.51.100.1", 0, "", false},
		{"mode full", Policy{Mode: Full}, private, "10.1.2.3", 22, "", true},
		{"mode internet is not mode full", Policy{Mode: Internet}, private, "10.1.2.3", 22, "", false},
		{"a private address that is listed", Policy{Mode: Allow, Allow: []string{"10.1.2.3"}}, private, "10.1.2.3", 22, "", true},
		{"a translator's prefix", Policy{Mode: Allow, Allow: []string{"64:ff9b:1::/96"}}, private, "64:ff9b:1::a00:1", 22, "", true},
		{"the host through it", Policy{Mode: Allow, Allow: []string{"64:ff9b:1::/96"}}, private, "64:ff9b:1::7f00:1", 22, "", false},
		{"a name that was rebound", Policy{Mode: Allow, Allow: []string{"good.test"}}, private, "10.1.2.3", 443, "good.test", false},
	} {
		got := compile(t, c.policy, c.operator).Connect(netip.MustParseAddr(c.addr), c.port, strings.Fields(c.names))
		if got.Allowed != c.want || got.Why == "" {
			t.Errorf("%s: %+v", c.about, got)
		}
	}
}

// No mode and no operator opens the host, its links and metadata services, in
// whatever way they are written.
func TestForbiddenAddressesAreNeverReached(t *testing.T) {
	own := netip.MustParseAddr("198.51.100.77")
	operator := Operator{AllowPrivate: true, Own: func(a netip.Addr) bool { return a == own }}
	for _, mode := range []Mode{Internet, Full, Allow} {
		r := compile(t, Policy{Mode: mode}, operator)
		for _, addr := range []string{
			"127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "224.0.0.251", "255.255.255.255", "240.0.0.1",
			"::1", "::", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "fe80::1", "ff02::fb",
			"fd00:ec2::254", "fd20:ce::254", "::127.0.0.1", "168.63.129.16", "198.51.100.77", "::ffff:198.51.100.77", "64:ff9b::c633:644d",
			// By a translator of the local network, with each length of its prefix.
			"64:ff9b:1::7f00:1", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:7f00:0:100::", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1:0:a9:fea9:fe00::",
			"64:ff9b:1:1234:1234:1234:7f00:1", "64:ff9b:1::c633:644d", "64:ff9b:1::",
		} {
			a := netip.MustParseAddr(addr)
			if r.Connect(a, 80, []string{"good.test"}).Allowed {
				t.Errorf("mode %s reaches %s", mode, addr)
			}
			if r.Answer(a) {
				t.Errorf("mode %s: %s may be an answer", mode, addr)
			}
		}
	}
	if listed := compile(t, Policy{Mode: Full}, operator); !listed.Connect(netip.MustParseAddr("64:ff9b:1::a00:1"), 80, nil).Allowed {
		t.Error("mode full does not reach what a translator leads to a private address")
	}
	for _, addr := range []string{"64:ff9b:1::a00:1", "10.0.0.1", "172.31.0.1", "192.168.0.1", "100.64.0.1", "fc00::1", "198.18.0.1", "64:ff9b::a00:1"} {
		if compile(t, Policy{Mode: Internet}, operator).Connect(netip.MustParseAddr(addr), 80, nil).Allowed {
			t.Errorf("mode internet reaches %s", addr)
		}
	}
}

// An address that nobody resolved may be of a name, where there are names at all.
func TestAddressesThatMayHaveNames(t *testing.T) {
	operator := Operator{AllowPrivate: true, Own: func(a netip.Addr) bool { return a.String() == "198.51.100.77" }}
	listed := Policy{Mode: Allow, Allow: []string{"good.test", "db.test:5432", "203.0.113.1"}, Deny: []string{"198.51.100.66"}}
	for _, c := range []struct {
		about  string
		policy Policy
		addr   string
		port   uint16
		want   bool
	}{
		{"the web", listed, "198.51.100.1", 443, true},
		{"IPv6", listed, "2001:db8::1", 80, true},
		{"a port of a name", listed, "198.51.100.1", 5432, true},
		{"a port of none", listed, "198.51.100.1", 22, false},
		{"port 0", listed, "198.51.100.1", 0, false},
		{"a private address", listed, "10.0.0.1", 443, false},
		{"one of the host", listed, "198.51.100.77", 443, false},
		{"one that is denied", listed, "198.51.100.66", 443, false},
		{"no names", Policy{Mode: Allow, Allow: []string{"203.0.113.1"}}, "198.51.100.1", 443, false},
		{"mode none", Policy{}, "198.51.100.1", 443, false},
		{"mode internet", Policy{Mode: Internet}, "198.51.100.1", 443, false},
	} {
		if got := compile(t, c.policy, operator).MayName(netip.MustParseAddr(c.addr), c.port); got != c.want {
			t.Errorf("%s: %t", c.about, got)
		}
	}
}

// What a connection says of itself counts as much as where it leads.
func TestNamesInsideConnections(t *testing.T) {
	r := compile(t, Policy{Mode: Allow, Allow: []string{"a.test", "b.test"}, Deny: []string{"*.b.test"}}, Operator{})
	for _, c := range []struct {
		name   string
		port   uint16
		pinned string
		want   bool
	}{
		{"a.test", 443, "a.test", true},
		{"b.test", 443, "a.test", false}, // allowed, and at another address
		{"b.test", 443, "a.test b.test", true},
		{"c.test", 443, "a.test c.test", false},
		{"a.test", 8443, "a.test", false},
	} {
		if got := r.Name(c.name, netip.MustParseAddr("198.51.100.1"), c.port, strings.Fields(c.pinned)); got.Allowed != c.want {
			t.Errorf("%s:%d at the address of %s: %+v", c.name, c.port, c.pinned, got)
		}
	}
	all := compile(t, Policy{Mode: Internet, Deny: []string{"evil.test"}}, Operator{})
	if all.Name("evil.test", netip.MustParseAddr("198.51.100.1"), 443, nil).Allowed || !all.Name("good.test", netip.MustParseAddr("198.51.100.1"), 443, nil).Allowed {
		t.Error("mode internet does not keep to its deny list")
	}
}

// Entries that look like addresses of pages, or like groups, say what belongs there.
func TestEntriesThatPeopleWrite(t *testing.T) {
	o := Operator{Groups: map[string][]string{"pip": {"pypi.org"}, "npm": {"registry.npmjs.org"}}}
	for entry, want := range map[string]string{
		"https://pypi.org/simple": "leave out https:// and the path, as pypi.org",
		"http://host.test:8080/":  "as host.test:8080",
		"pypi.org/simple":         "leave out the path, as pypi.org",
		"*":                       "mode internet",
		"@pypi":                   "only @npm, @pip; did you mean @pip?",
		"@maven":                  "only @npm, @pip",
	} {
		_, err := Compile(Policy{Mode: Allow, Allow: []string{entry}}, o)
		if !errdefs.Is(err, errdefs.InvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", entry, err, want)
		}
	}
	for _, entry := range []string{"192.0.2.0/24", "2001:db8::/32", "[2001:db8::1]:443"} {
		if _, err := ParseRule(entry, true); err != nil {
			t.Errorf("%s: %v", entry, err)
		}
	}
}

func FuzzRule(f *testing.F) {
	for _, seed := range []string{"good.test", "*.good.test:80-90", "[2001:db8::]:1", "10.0.0.0/8", "GOOD.test.", "0x7f.1"} {
		f.Add(seed, "good.test")
	}
	f.Fuzz(func(t *testing.T, entry, name string) {
		rule, err := ParseRule(entry, true)
		if err != nil {
			return
		}
		normal, err := NormalName(name)
		if err != nil {
			return
		}
		// A rule has the name that it is written as, and those one label below a wildcard.
		has := rule.hasName(normal)
		if want := !rule.prefix.IsValid() && (normal == rule.name && !rule.wildcard || rule.wildcard && strings.HasSuffix(normal, "."+rule.name) && strings.Count(normal, ".") == strings.Count(rule.name, ".")+1); has != want {
			t.Errorf("%q has %q: %t", entry, normal, has)
		}
	})
}
