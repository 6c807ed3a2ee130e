package networks

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func specOf(t *testing.T, text string) SecretSpec {
	t.Helper()
	var s SecretSpec
	if err := s.UnmarshalText([]byte(text)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func TestSecretSpec(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("Bearer of-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &cli.App{Environ: []string{"KEY=old", "KEY=of-a-variable", "KEYS=other"}}
	for text, want := range map[string]sandkasten.NetworkSecret{
		"TOKEN,host=a.example.org,host=*.b.example.org,header=Authorization,file=" + file: {
			Name: "TOKEN", Hosts: []string{"a.example.org", "*.b.example.org"}, Header: "Authorization", Value: "Bearer of-a-file",
		},
		"TOKEN,env=KEY,query=key,host=a.example.org": {Name: "TOKEN", Hosts: []string{"a.example.org"}, Query: "key", Value: "of-a-variable"},
		"TOKEN,stored=github":                        {Name: "TOKEN", Stored: "github"},
		"TOKEN,host=a.example.org,header=X-Key":      {Name: "TOKEN", Hosts: []string{"a.example.org"}, Header: "X-Key"},
	} {
		s := specOf(t, text)
		if got, err := s.secret(a); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"T,host=a,header=b,env=UNSET", "T,host=a,header=b,file=" + file + ".absent", "T,host=a,header=b,file=" + os.DevNull} {
		s := specOf(t, text)
		if got, err := s.secret(a); err == nil || !strings.Contains(err.Error(), "--secret T: ") {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
}

// What is wrong is said without what was written: it may be a value.
func TestSecretSpecsThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "begin with a name",
		"TOKEN=hunter22":                         "begin with a name",
		"TOKEN,value=hunter22":                   "other users can see flags: name its file with file=PATH",
		"TOKEN,hunter22":                         "not known",
		"TOKEN,hunter22=x":                       "not known",
		"TOKEN,host=":                            "host= says nothing",
		"TOKEN,header":                           "header= says nothing",
		"TOKEN,file=a,file=hunter22":             "file= twice",
		"TOKEN,stored=a,file=b":                  "stands alone",
		"TOKEN,stored=a,host=b":                  "stands alone",
		"TOKEN,host=h,header=a,query=b,file=c":   "both header= and query=",
		"TOKEN,host=h,header=a,file=b,env=c":     "both file= and env=",
		"TOKEN,header=a,file=hunter22":           "who gets the value, or where",
		"TOKEN,host=a.example.org,file=hunter22": "who gets the value, or where",
	} {
		var s SecretSpec
		if err := s.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFlagsOfANewSession(t *testing.T) {
	ten := 10
	for _, tt := range []struct {
		name  string
		flags Flags
		want  *sandkasten.NetworkPolicy
		err   string
	}{
		{"none", Flags{}, nil, ""},
		{"allow alone", Flags{Allow: []string{"@pip", "a.example.org"}}, &sandkasten.NetworkPolicy{Mode: "allow", Allow: []string{"@pip", "a.example.org"}}, ""},
		{
			"a mode with limits",
			Flags{Network: "internet", Deny: []string{"b.example.org"}, MaxMbit: &ten},
			&sandkasten.NetworkPolicy{Mode: "internet", Deny: []string{"b.example.org"}, MaxMbit: 10}, "",
		},
		{"none after all", Flags{Network: "none"}, &sandkasten.NetworkPolicy{Mode: "none"}, ""},
		{
			"a stored secret",
			Flags{Allow: []string{"a"}, Secret: []SecretSpec{specOf(t, "T,stored=s")}},
			&sandkasten.NetworkPolicy{Mode: "allow", Allow: []string{"a"}, Secrets: []sandkasten.NetworkSecret{{Name: "T", Stored: "s"}}}, "",
		},
		{"deny alone", Flags{Deny: []string{"a"}}, nil, "name a mode with --network"},
		{"an empty list", Flags{Allow: []string{""}}, nil, "name a mode with --network"},
		{"a secret without a value", Flags{Network: "allow", Secret: []SecretSpec{specOf(t, "T,host=a,header=b")}}, nil, "--secret T has no value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.flags.Policy(&cli.App{})
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestFlagsChangeOnlyWhatTheySay(t *testing.T) {
	now := sandkasten.NetworkPolicy{Mode: "allow", Allow: []string{"a"}, Deny: []string{"b"}, MaxMbit: 5, MaxConnections: 7}
	zero := 0
	for _, tt := range []struct {
		name  string
		flags Flags
		want  sandkasten.NetworkPolicy
	}{
		{"deny", Flags{Deny: []string{"x"}}, sandkasten.NetworkPolicy{Mode: "allow", Allow: []string{"a"}, Deny: []string{"x"}, MaxMbit: 5, MaxConnections: 7}},
		{"a limit away", Flags{MaxMbit: &zero}, sandkasten.NetworkPolicy{Mode: "allow", Allow: []string{"a"}, Deny: []string{"b"}, MaxConnections: 7}},
		{
			"empty lists",
			Flags{Allow: []string{""}, Deny: []string{""}},
			sandkasten.NetworkPolicy{Mode: "allow", Allow: []string{}, Deny: []string{}, MaxMbit: 5, MaxConnections: 7},
		},
		{"a mode without a list", Flags{Network: "internet"}, sandkasten.NetworkPolicy{Mode: "internet", Deny: []string{"b"}, MaxMbit: 5, MaxConnections: 7}},
		{
			"a mode with a list",
			Flags{Network: "allow", Allow: []string{"x"}},
			sandkasten.NetworkPolicy{Mode: "allow", Allow: []string{"x"}, Deny: []string{"b"}, MaxMbit: 5, MaxConnections: 7},
		},
	} {
		if got := tt.flags.change(now); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	if got := (Flags{Allow: []string{"a"}}).change(sandkasten.NetworkPolicy{Mode: "none"}); got.Mode != "allow" {
		t.Errorf("a list alone leaves the mode %s", got.Mode)
	}
}

func TestLinesCanBePasted(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.Local)
	for _, tt := range []struct {
		event sandkasten.NetworkEvent
		want  string
	}{
		{
			sandkasten.NetworkEvent{Op: "resolve", Name: "pypi.example.org", Why: "no entry", Entry: "pypi.example.org", Count: 3},
			"refused  resolve    pypi.example.org              no entry  (3 times)  sandkasten network allow s1 pypi.example.org",
		},
		{
			sandkasten.NetworkEvent{Op: "connect", Name: "git.example.org", Address: "198.51.100.7", Port: 22, Why: "no entry", Entry: "git.example.org:22", Count: 1},
			"refused  connect    git.example.org:22            no entry  sandkasten network allow s1 git.example.org:22",
		},
		{
			sandkasten.NetworkEvent{Op: "connect", Address: "2001:db8::7", Port: 443, Why: "no entry", Entry: "[2001:db8::7]:443", Count: 1},
			"refused  connect    [2001:db8::7]:443             no entry  sandkasten network allow s1 [2001:db8::7]:443",
		},
		{
			sandkasten.NetworkEvent{Op: "resolve", Name: "git.corp.example", Address: "10.20.0.7", Why: "it is private", Entry: "@company", Count: 1},
			"refused  resolve    git.corp.example              it is private  sandkasten network allow s1 @company",
		},
		{
			sandkasten.NetworkEvent{Op: "connect", Name: "a.example.org", Port: 443, Why: "denied by a.example.org", Count: 1},
			"refused  connect    a.example.org:443             denied by a.example.org",
		},
		{
			sandkasten.NetworkEvent{Op: "close", Name: "a.example.org", Port: 443, Allowed: true, Count: 1, Sent: 100, Got: 2048},
			"allowed  close      a.example.org:443               100 B sent, 2.0 KiB received",
		},
		{
			sandkasten.NetworkEvent{Op: "connect", Name: "a.example.org", Port: 443, Allowed: true, Why: "@pip", Count: 1},
			"allowed  connect    a.example.org:443             @pip",
		},
	} {
		tt.event.Time = at
		if got := line(tt.event, AllowCommand("s1")); got != "2026-11-21 09:00:00  "+tt.want {
			t.Errorf("%s", got)
		}
	}
}

// A sandbox chooses the names that it asks for.
func TestNamesThatAreNotForAShell(t *testing.T) {
	for _, entry := range []string{"", "$(reboot).example.org", "a;reboot", "`reboot`", "a b", "a\nb", "--network=full", "a'b", "*.example.org", "é.example.org", "fe80::1%$(reboot)"} {
		if isPlain(entry) {
			t.Errorf("%q is to be pasted", entry)
		}
	}
	var said bytes.Buffer
	Explain(&cli.App{Err: &said}, []sandkasten.NetworkDenial{{Name: "b.example.org", Port: 443, Why: "no entry", Entry: "b.example.org"}, {Name: "\x1b[2J$(x)", Why: "it is no host name"}}, AllowCommand("s1"))
	const want = `sandkasten: the network refused \x1b[2J$(x) (it is no host name)` + "\n" +
		"sandkasten: the network refused b.example.org:443 (no entry); sandkasten network allow s1 b.example.org\n"
	if said.String() != want {
		t.Errorf("%s", said.String())
	}
}
