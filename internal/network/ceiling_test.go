package network

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

func TestPoliciesBeyondTheirCeilingAreRefused(t *testing.T) {
	private := Operator{AllowPrivate: true}
	for about, c := range map[string]struct {
		policy, ceiling Policy
		field, entry    string // "" where it is allowed
	}{
		"allow under none":       {Policy{Mode: Allow}, Policy{}, "network.mode", "none"},
		"internet under allow":   {Policy{Mode: Internet}, Policy{Mode: Allow}, "network.mode", "allow"},
		"full under internet":    {Policy{Mode: Full}, Policy{Mode: Internet}, "network.mode", "internet"},
		"none under none":        {Policy{}, Policy{}, "", ""},
		"internet under full":    {Policy{Mode: Internet}, Policy{Mode: Full}, "", ""},
		"allow under internet":   {Policy{Mode: Allow, Allow: []string{"good.test:22", "198.51.100.0/24"}}, Policy{Mode: Internet}, "", ""},
		"private under internet": {Policy{Mode: Allow, Allow: []string{"10.0.0.1"}}, Policy{Mode: Internet}, "network.allow", "10.0.0.1"},
		"private under full":     {Policy{Mode: Allow, Allow: []string{"10.0.0.1"}}, Policy{Mode: Full}, "", ""},

		"the same name":               {Policy{Mode: Allow, Allow: []string{"good.test"}}, Policy{Mode: Allow, Allow: []string{"GOOD.test."}}, "", ""},
		"another name":                {Policy{Mode: Allow, Allow: []string{"good.test", "evil.test"}}, Policy{Mode: Allow, Allow: []string{"good.test"}}, "network.allow", "evil.test"},
		"a name below a wildcard":     {Policy{Mode: Allow, Allow: []string{"a.good.test"}}, Policy{Mode: Allow, Allow: []string{"*.good.test"}}, "", ""},
		"two below a wildcard":        {Policy{Mode: Allow, Allow: []string{"a.b.good.test"}}, Policy{Mode: Allow, Allow: []string{"*.good.test"}}, "network.allow", "a.b.good.test"},
		"a wildcard under itself":     {Policy{Mode: Allow, Allow: []string{"*.good.test"}}, Policy{Mode: Allow, Allow: []string{"*.good.test"}}, "", ""},
		"a wildcard under a name":     {Policy{Mode: Allow, Allow: []string{"*.good.test"}}, Policy{Mode: Allow, Allow: []string{"a.good.test", "good.test"}}, "network.allow", "*.good.test"},
		"another port":                {Policy{Mode: Allow, Allow: []string{"good.test:22"}}, Policy{Mode: Allow, Allow: []string{"good.test"}}, "network.allow", "good.test:22"},
		"a port of the web":           {Policy{Mode: Allow, Allow: []string{"good.test:443"}}, Policy{Mode: Allow, Allow: []string{"good.test"}}, "", ""},
		"the web in a range":          {Policy{Mode: Allow, Allow: []string{"good.test"}}, Policy{Mode: Allow, Allow: []string{"good.test:1-100"}}, "", ""},
		"a range that overlaps":       {Policy{Mode: Allow, Allow: []string{"good.test:10-20"}}, Policy{Mode: Allow, Allow: []string{"good.test:20-30"}}, "", ""},
		"a range behind":              {Policy{Mode: Allow, Allow: []string{"good.test:10-20"}}, Policy{Mode: Allow, Allow: []string{"good.test:21-30"}}, "network.allow", "good.test:10-20"},
		"an address in a prefix":      {Policy{Mode: Allow, Allow: []string{"198.51.100.7:22"}}, Policy{Mode: Allow, Allow: []string{"198.51.100.0/24"}}, "", ""},
		"a prefix around":             {Policy{Mode: Allow, Allow: []string{"198.51.0.0/16"}}, Policy{Mode: Allow, Allow: []string{"198.51.100.0/24"}}, "network.allow", "198.51.0.0/16"},
		"a prefix beside":             {Policy{Mode: Allow, Allow: []string{"198.51.101.0/24"}}, Policy{Mode: Allow, Allow: []string{"198.51.100.0/24", "2001:db8::/32"}}, "network.allow", "198.51.101.0/24"},
		"an address under a name":     {Policy{Mode: Allow, Allow: []string{"198.51.100.7"}}, Policy{Mode: Allow, Allow: []string{"good.test"}}, "network.allow", "198.51.100.7"},
		"a name under an address":     {Policy{Mode: Allow, Allow: []string{"good.test"}}, Policy{Mode: Allow, Allow: []string{"198.51.100.7"}}, "network.allow", "good.test"},
		"a ceiling that is not valid": {Policy{}, Policy{Mode: "open"}, "none", "ceiling"},
	} {
		_, err := CompileWithin(c.policy, &c.ceiling, private)
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v", about, err)
			}
			continue
		}
		e, ok := errors.AsType[*errdefs.Error](err)
		if !ok || e.Code != errdefs.PermissionDenied || e.Field != strings.TrimPrefix(c.field, "none") || !strings.Contains(e.Message, c.entry) {
			t.Errorf("%s: %v", about, err)
		}
	}
	// What a policy may not have without a ceiling it may not have with one.
	if _, err := CompileWithin(Policy{Mode: Full}, &Policy{Mode: Full}, Operator{}); !errdefs.Is(err, errdefs.PermissionDenied) {
		t.Errorf("%v", err)
	}
	if r, err := CompileWithin(Policy{Mode: Internet}, nil, Operator{}); err != nil || r.ceiling != nil {
		t.Errorf("without a ceiling: %v", err)
	}
}

// within compiles a policy with a ceiling.
func within(t *testing.T, p, ceiling Policy, o Operator) *Rules {
	t.Helper()
	r, err := CompileWithin(p, &ceiling, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDecisionsNeedTheCeilingToo(t *testing.T) {
	addr := netip.MustParseAddr("198.51.100.1")
	const ceilings = "the key's ceiling: "
	r := within(t, Policy{Mode: Allow, Allow: []string{"good.test:1-500", "*.wild.test", "203.0.113.0/24"}}, Policy{
		Mode: Allow, Allow: []string{"good.test", "*.wild.test", "203.0.113.0/24"}, Deny: []string{"bad.wild.test", "203.0.113.7"},
	}, Operator{})
	good := []string{"good.test"}
	for about, c := range map[string]struct {
		got     Verdict
		allowed bool
		why     string
	}{
		"a name of both":            {r.Resolve("good.test"), true, "good.test:1-500"},
		"a name that is denied":     {r.Resolve("bad.wild.test"), false, ceilings + "denied by bad.wild.test"},
		"a name of neither":         {r.Resolve("evil.test"), false, "no entry of allow names evil.test"},
		"a connection":              {r.Connect(addr, 443, good), true, "good.test:1-500"},
		"another port":              {r.Connect(addr, 22, good), false, ceilings + "the entry good.test is not for this port"},
		"an address that is denied": {r.Connect(netip.MustParseAddr("203.0.113.7"), 22, nil), false, ceilings + "denied by 203.0.113.7"},
		"an address of both":        {r.Connect(netip.MustParseAddr("203.0.113.8"), 22, nil), true, "203.0.113.0/24"},
		"a host of both":            {r.Name("good.test", addr, 443, good), true, "good.test:1-500"},
		"a host that is denied":     {r.Name("bad.wild.test", addr, 443, []string{"bad.wild.test"}), false, ceilings + "denied by bad.wild.test"},
	} {
		if c.got.Allowed != c.allowed || !strings.HasPrefix(c.got.Why, strings.TrimSuffix(c.why, " names evil.test")) {
			t.Errorf("%s: %+v", about, c.got)
		}
	}
	// What one of both has to look at is looked at.
	open := within(t, Policy{Mode: Internet}, Policy{Mode: Internet, Deny: []string{"evil.test"}}, Operator{})
	if v := open.Connect(addr, 443, nil); !v.Allowed || !v.Inspect || v.Raw {
		t.Errorf("%+v", v)
	}
	if v := open.Name("evil.test", addr, 443, nil); v.Allowed {
		t.Errorf("%+v", v)
	}
	inside := netip.MustParseAddr("10.0.0.1")
	operator := Operator{AllowPrivate: true}
	for mode, want := range map[Mode]bool{Internet: false, Full: true} {
		own := compile(t, Policy{Mode: Full}, operator)
		own.ceiling = compile(t, Policy{Mode: mode}, operator)
		if own.Answer(inside) != want || own.Connect(inside, 22, nil).Allowed != want {
			t.Errorf("a private address under mode %s", mode)
		}
	}
}

func TestSmallerLimitHolds(t *testing.T) {
	for _, c := range []struct{ policy, ceiling, want Policy }{
		{Policy{}, Policy{}, Policy{}},
		{Policy{}, Policy{MaxMbit: 5, MaxConnections: 6, ConnectionsPerSecond: 7, MaxMB: 8}, Policy{MaxMbit: 5, MaxConnections: 6, ConnectionsPerSecond: 7, MaxMB: 8}},
		{Policy{MaxMbit: 5, MaxConnections: 6, ConnectionsPerSecond: 7, MaxMB: 8}, Policy{}, Policy{MaxMbit: 5, MaxConnections: 6, ConnectionsPerSecond: 7, MaxMB: 8}},
		{Policy{MaxMbit: 50, MaxConnections: 5, ConnectionsPerSecond: 70, MaxMB: 7}, Policy{MaxMbit: 5, MaxConnections: 6, ConnectionsPerSecond: 7, MaxMB: 8}, Policy{MaxMbit: 5, MaxConnections: 5, ConnectionsPerSecond: 7, MaxMB: 7}},
		// A ceiling above the default does not raise it.
		{Policy{}, Policy{MaxConnections: 4000}, Policy{MaxConnections: DefaultConnections}},
	} {
		r := within(t, c.policy, c.ceiling, Operator{})
		got := Policy{MaxMbit: r.MaxMbit(), MaxConnections: r.MaxConnections(), ConnectionsPerSecond: r.ConnectionsPerSecond(), MaxMB: r.MaxMB()}
		if got.MaxMbit != c.want.MaxMbit || got.MaxConnections != c.want.MaxConnections || got.ConnectionsPerSecond != c.want.ConnectionsPerSecond || got.MaxMB != c.want.MaxMB {
			t.Errorf("%+v under %+v: %+v", c.policy, c.ceiling, got)
		}
	}
}
