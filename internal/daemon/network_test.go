package daemon

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// The configuration that docs/network.md shows for a company's internal names opens them,
// also below alice's ceiling, and opens no other private address.
func TestInternalNamesOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/network.md")
	if err != nil {
		t.Fatal(err)
	}
	block := ""
	for _, found := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(found[1], "groups: {company:") {
			block = found[1]
		}
	}
	file := filepath.Join(t.TempDir(), "sandkasten.yaml")
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, nil, []string{runtime.Native})
	if err != nil {
		t.Fatal(err)
	}
	o := networkOptions(cfg, nil, nil, slog.New(slog.DiscardHandler))
	operator := network.Operator{AllowPrivate: o.AllowPrivate, Groups: map[string][]string{"pip": {"pypi.org"}, "company": o.Groups["company"]}}
	ceiling, ok := o.Ceilings["alice"]
	if !ok {
		t.Fatal("the example has no ceiling for alice")
	}
	rules, err := network.CompileWithin(network.Policy{Mode: network.Allow, Allow: []string{"@company"}}, &ceiling, operator)
	if err != nil {
		t.Fatal(err)
	}
	inside, outside := netip.MustParseAddr("10.20.0.7"), netip.MustParseAddr("10.21.0.7")
	for _, name := range []string{"git.example.org", "a.pkg.example.org"} {
		if !rules.Resolve(name).Allowed || !rules.Answer(inside) || !rules.Connect(inside, 443, []string{name}).Allowed {
			t.Errorf("%s at %s is not reached", name, inside)
		}
		if rules.Answer(outside) || rules.Connect(outside, 443, []string{name}).Allowed {
			t.Errorf("%s leads to %s", name, outside)
		}
	}
}
