package network

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// Which secrets a host gets is what their entries say, and costs no more with thousands of
// them.
func TestSecretsByHost(t *testing.T) {
	var all []Secret
	for i := range 32 {
		s := Secret{Name: fmt.Sprint("S", i), Value: fmt.Sprint("value-of-secret-", i), Placeholder: NewPlaceholder(), Header: "Authorization"}
		for n := range 62 {
			s.Hosts = append(s.Hosts, fmt.Sprintf("h%d.s%d.test", n, i))
		}
		all = append(all, s)
	}
	all[3].Hosts = append(all[3].Hosts, "*.shared.test", "api.shared.test")
	all[1].Hosts = append(all[1].Hosts, "api.shared.test", "API.shared.test.")
	compiled := CompileSecrets(all)
	for host, want := range map[string][]string{
		"h0.s5.test": {"S5"}, "h61.s31.test": {"S31"}, "api.shared.test": {"S1", "S3"}, "other.shared.test": {"S3"},
		"shared.test": nil, "a.b.shared.test": nil, "xapi.shared.test": {"S3"}, ".shared.test": nil, "evil.test": nil, "": nil,
	} {
		var got []string
		for _, s := range compiled.For(host) {
			got = append(got, s.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", host, diff)
		}
	}
	if n := testing.AllocsPerRun(100, func() { compiled.For("evil.test") }); n > 0 {
		t.Errorf("a host without secrets costs %v allocations", n)
	}
}

// Whatever comes in one read, a value is found, and nothing else is changed.
func TestHideInPieces(t *testing.T) {
	secrets := CompileSecrets([]Secret{
		{Name: "A", Hosts: []string{"x.test"}, Header: "A", Value: "aaaaaaab", Placeholder: "PLACEHOLDER-A"},
		{Name: "B", Hosts: []string{"x.test"}, Header: "B", Value: `quo"ted/value`, Placeholder: "PLACEHOLDER-B"},
	}).For("x.test")
	const text = `aaaaaaaaaaab aaaaaaa quo"ted/value quo\"ted\/value quo"ted/valu xaaaaaaab`
	const want = `aaaaPLACEHOLDER-A aaaaaaa PLACEHOLDER-B PLACEHOLDER-B quo"ted/valu xPLACEHOLDER-A`
	for name, from := range map[string]io.Reader{"whole": strings.NewReader(text), "by byte": iotest.OneByteReader(strings.NewReader(text)), "by half": iotest.HalfReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text))} {
		got, err := io.ReadAll(HideIn(from, secrets))
		if string(got) != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
