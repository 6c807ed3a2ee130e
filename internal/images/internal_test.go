package images

import (
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestHostMirrors(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	tests := map[string]struct {
		files fstest.MapFS
		want  []string
	}{
		"nothing": {fstest.MapFS{}, nil},
		"one line": {
			fstest.MapFS{"sources.list": file(
				"# deb http://commented/ bookworm main\ndeb [signed-by=/x arch=amd64] http://mirror/debian bookworm main contrib\n" +
					"deb-src http://mirror/debian bookworm main\ndeb http://mirror/security bookworm-security main\n" +
					"deb http://mirror/extra bookworm-backports main\ndeb cdrom:[x]/ bookworm main\n")},
			[]string{"deb http://mirror/debian bookworm main", "deb http://mirror/security bookworm-security main"},
		},
		"named list": {
			fstest.MapFS{"sources.list.d/a.list": file(
				"deb [signed-by=/x] http://mirror/debian bookworm main contrib\ndeb http://mirror/security bookworm-security main\ndeb file:/x bookworm main\n")},
			[]string{"deb http://mirror/debian bookworm main", "deb http://mirror/security bookworm-security main"},
		},
		"stanzas": {
			fstest.MapFS{"sources.list.d/debian.sources": file(
				"Types: deb\n# a remark\nURIs: https://mirror/debian\nSuites: bookworm bookworm-updates\nComponents: main\n\n" +
					"Types: deb-src\nURIs: http://src/\nSuites: bookworm\nComponents: main\n\n" +
					"Enabled: no\nTypes: deb\nURIs: http://off/\nSuites: bookworm\nComponents: main\n")},
			[]string{"deb https://mirror/debian bookworm main", "deb https://mirror/debian bookworm-updates main"},
		},
		"other suite": {fstest.MapFS{"sources.list.d/u.list": file("deb http://ubuntu/ noble main\ndeb http://x/ bookworm-security main\n")}, nil},
		"third party": {fstest.MapFS{"sources.list.d/x.list": file("deb http://x/ bookworm stable\n")}, nil},
		"not sources": {fstest.MapFS{"sources.list.d/x.save": file("deb http://x/ bookworm main\n")}, nil},
	}
	for name, tt := range tests {
		if got := hostMirrors(tt.files, "bookworm"); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestParseEnvironment(t *testing.T) {
	got := parseEnvironment([]byte("# a remark\n\nPATH=\"/a:/b\"\nexport LANG=de_DE.UTF-8\nQUOTED='it is'\nHALF=\"x\nEMPTY=\nnothing\n  INDENTED=1  \nA=b=c\r\n"))
	want := []string{"PATH=/a:/b", "LANG=de_DE.UTF-8", "QUOTED=it is", "HALF=\"x", "EMPTY=", "INDENTED=1", "A=b=c"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMergeEnv(t *testing.T) {
	got := mergeEnv([]string{"B=1", "A=1"}, nil, []string{"B=2", "bad name=x", "=x", "x", "NUL=a\x00b", "LONG=" + strings.Repeat("x", maxEnvValue+1), "1X=y"})
	if want := []string{"A=1", "B=2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var many []string
	for i := range maxEnvVars + 10 {
		many = append(many, "V"+strings.Repeat("x", i)+"=1")
	}
	if got := mergeEnv(many, []string{"V=2"}); len(got) != maxEnvVars || !slices.Contains(got, "V=2") {
		t.Errorf("%d variables, want %d and the first one changed", len(got), maxEnvVars)
	}
}

func FuzzParseEnvironment(f *testing.F) {
	f.Add([]byte("A=b\nexport C='d'\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, e := range mergeEnv(parseEnvironment(data)) {
			name, _, ok := strings.Cut(e, "=")
			if !ok || !envName.MatchString(name) || strings.ContainsRune(e, 0) {
				t.Errorf("%q came out of %q", e, data)
			}
		}
	})
}

// What a dial fails of is said in words.
func TestReasonsOfRegistries(t *testing.T) {
	for want, cause := range map[string]error{
		"there is no host registry.test":             &net.DNSError{Name: "registry.test", IsNotFound: true},
		"the name registry.test cannot be resolved":  &net.DNSError{Name: "registry.test", IsTimeout: true},
		"its certificate is for another host than x": x509.HostnameError{Host: "x"},
		"its certificate has expired":                x509.CertificateInvalidError{Reason: x509.Expired},
		"it does not speak TLS":                      http.ErrSchemeMismatch,
		"it does not answer in time":                 &net.OpError{Op: "dial", Err: timeoutError{}},
		"the connection failed; the daemon's log":    errors.New("x"),
	} {
		if got := whyUnreachable(cause); !strings.Contains(got, want) {
			t.Errorf("%v: %s; want %s", cause, got, want)
		}
	}
}

type timeoutError struct{}

func (timeoutError) Error() string { return "timeout" }
func (timeoutError) Timeout() bool { return true }
