package networks

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Flags say what a session may reach.
type Flags struct {
	Network string       `placeholder:"MODE" enum:"none,allow,internet,full," default:"" help:"What it may reach: none, allow (what --allow names), internet, or full, with private addresses."`
	Allow   []string     `sep:"none" placeholder:"ENTRY" help:"Allow this host, *.domain, address, CIDR or group such as @pip, with :PORT if wanted. Means --network allow. Repeatable."`
	Deny    []string     `sep:"none" placeholder:"ENTRY" help:"Refuse this, whatever allows it. Repeatable."`
	MaxMbit *int         `placeholder:"N" help:"Megabits per second in each direction; 0 is no limit."`
	Secret  []SecretSpec `sep:"none" placeholder:"SPEC" help:"Credential that stays outside: NAME,host=HOST,header=HEADER,file=PATH; or query=KEY, and env=VARIABLE; or NAME,stored=SECRET. Repeatable."`
}

const (
	modeNone  = "none"
	modeAllow = "allow"
)

// Policy is what a new session is to reach, or nil if no flag says so. What the
// secrets' files and variables say is read.
func (f Flags) Policy(a *cli.App) (*sandkasten.NetworkPolicy, error) {
	if !f.given() {
		return nil, nil
	}
	p := f.change(sandkasten.NetworkPolicy{})
	if p.Mode == "" {
		return nil, cli.Wrong("name a mode with --network, or what may be reached with --allow: the other flags alone open nothing")
	}
	for _, spec := range f.Secret {
		if !spec.hasValue() {
			return nil, spec.lacksValue()
		}
		secret, err := spec.secret(a)
		if err != nil {
			return nil, err
		}
		p.Secrets = append(p.Secrets, secret)
	}
	return &p, nil
}

// given reports whether any flag is.
func (f Flags) given() bool {
	return f.Network != "" || f.Allow != nil || f.Deny != nil || f.MaxMbit != nil || f.Secret != nil
}

// change is a policy with what the flags say, but for secrets. A list replaces the
// policy's; an empty entry leaves an empty list.
func (f Flags) change(p sandkasten.NetworkPolicy) sandkasten.NetworkPolicy {
	if f.Allow != nil {
		p.Allow = entries(f.Allow)
		if len(p.Allow) > 0 {
			p.Mode = modeAllow
		}
	}
	if f.Network != "" {
		p.Mode = f.Network
		if f.Allow == nil && p.Mode != modeAllow {
			p.Allow = nil // other modes take no list
		}
	}
	if f.Deny != nil {
		p.Deny = entries(f.Deny)
	}
	if f.MaxMbit != nil {
		p.MaxMbit = *f.MaxMbit
	}
	return p
}

// entries are those that are not empty.
func entries(given []string) []string {
	return slices.DeleteFunc(slices.Clone(given), func(entry string) bool { return entry == "" })
}

// SecretSpec is a secret in a flag. Its value is in a file, in a variable, or stored
// with the daemon: other users can see flags.
type SecretSpec struct {
	shape          sandkasten.NetworkSecret
	file, variable string
}

const specForm = "write it as NAME,host=HOST,header=HEADER,file=PATH, with query=KEY instead of the header and env=VARIABLE instead of the file if wanted, or as NAME,stored=SECRET"

// UnmarshalText reads a specification. No error repeats what is written, which may
// be a value all the same.
func (s *SecretSpec) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ",")
	*s = SecretSpec{shape: sandkasten.NetworkSecret{Name: parts[0]}}
	if parts[0] == "" || strings.Contains(parts[0], "=") {
		return errors.New("it does not begin with a name: " + specForm)
	}
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		if err := s.set(key, value); err != nil {
			return err
		}
	}
	return s.check()
}

func (s *SecretSpec) set(key, value string) error {
	to := map[string]*string{"header": &s.shape.Header, "query": &s.shape.Query, "stored": &s.shape.Stored, "file": &s.file, "env": &s.variable}[key]
	switch {
	case key == "value":
		return errors.New("the value is no part of it, because other users can see flags: name its file with file=PATH or its variable with env=VARIABLE")
	case key != "host" && to == nil:
		return errors.New("it has a part that is not known: " + specForm)
	case value == "":
		return fmt.Errorf("%s= says nothing: %s", key, specForm)
	case key == "host":
		s.shape.Hosts = append(s.shape.Hosts, value)
	case *to != "":
		return fmt.Errorf("it has %s= twice: %s", key, specForm)
	default:
		*to = value
	}
	return nil
}

func (s *SecretSpec) check() error {
	one := s.shape
	switch {
	case one.Stored != "" && (one.Header != "" || one.Query != "" || len(one.Hosts) > 0 || s.file != "" || s.variable != ""):
		return errors.New("stored= stands alone with the name: the stored secret has the rest")
	case one.Header != "" && one.Query != "":
		return errors.New("it has both header= and query=: the value goes to one place")
	case s.file != "" && s.variable != "":
		return errors.New("it has both file= and env=: the value is in one place")
	case s.hasValue() && one.Stored == "" && (len(one.Hosts) == 0 || one.Header == "" && one.Query == ""):
		return errors.New("it says nothing of who gets the value, or where: " + specForm)
	}
	return nil
}

func (s *SecretSpec) hasValue() bool { return s.file != "" || s.variable != "" || s.shape.Stored != "" }

func (s *SecretSpec) lacksValue() error {
	return cli.Wrong("--secret %s has no value: add file=PATH or env=VARIABLE, or write it as NAME,stored=SECRET", show.Printable(s.shape.Name))
}

// maxValue is more than a value may have.
const maxValue = 64 << 10

// secret is what is meant, with its value.
func (s *SecretSpec) secret(a *cli.App) (sandkasten.NetworkSecret, error) {
	full := s.shape
	var err error
	switch {
	case s.file != "":
		full.Value, err = readValue(s.file)
	case s.variable != "":
		full.Value = lookUp(a.Environ, s.variable)
		if full.Value == "" {
			err = cli.Wrong("the variable %s is not set, or empty", show.Printable(s.variable))
		}
	}
	if err != nil {
		return full, fmt.Errorf("--secret %s: %w", show.Printable(full.Name), err)
	}
	return full, nil
}

// readValue reads a file without the newline at its end.
func readValue(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxValue+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case len(text) > maxValue:
		return "", fmt.Errorf("%s has more than %d bytes", path, maxValue)
	case value == "":
		return "", fmt.Errorf("%s is empty", path)
	}
	return value, nil
}

// lookUp is a variable of an environment; of several, the last counts.
func lookUp(environ []string, name string) string {
	for _, variable := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}
