package networks_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/networks"
)

// rows is a Store in memory.
type rows struct {
	mu     sync.Mutex
	public map[string][]byte // guarded by mu
	sealed map[string][]byte // guarded by mu
}

func newRows() *rows { return &rows{public: map[string][]byte{}, sealed: map[string][]byte{}} }

func (r *rows) PutNetwork(_ context.Context, session string, public, sealed []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.public[session], r.sealed[session] = public, sealed
	return nil
}

func (r *rows) SealedNetwork(_ context.Context, session string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sealed[session], nil
}

// rot seals by turning bits, and knows what it sealed it about.
type rot struct{}

func (rot) Seal(plain, about []byte) []byte { return append(flipped(plain), about...) }

func (rot) Open(sealed, about []byte) ([]byte, error) {
	if !bytes.HasSuffix(sealed, about) {
		return nil, errors.New("it is of another place")
	}
	return flipped(bytes.TrimSuffix(sealed, about)), nil
}

func flipped(b []byte) []byte {
	turned := make([]byte, len(b))
	for i, c := range b {
		turned[i] = ^c
	}
	return turned
}

func newKeeper(t *testing.T, o networks.Options) *networks.Keeper {
	t.Helper()
	k := networks.New(o)
	t.Cleanup(k.Close)
	return k
}

func TestPlanRefuses(t *testing.T) {
	secret := networks.AskedSecret{Name: "TOKEN", Hosts: []string{"api.test"}, Header: "Authorization", Value: "the-real-one"}
	with := func(change func(*networks.AskedSecret)) *networks.Asked {
		s := secret
		change(&s)
		return &networks.Asked{Policy: network.Policy{Mode: network.Allow, Allow: []string{"api.test"}}, Secrets: []networks.AskedSecret{s}}
	}
	k := newKeeper(t, networks.Options{
		Store: newRows(), Seal: rot{}, Most: network.Internet, Groups: map[string][]string{"company": {"git.test"}},
		Ceilings: map[string]network.Policy{"alice": {Mode: network.Allow, Allow: []string{"@company"}}},
		Stored: func(context.Context, string, string) (network.Secret, error) {
			return network.Secret{}, errdefs.New(errdefs.NotFound, "no such secret")
		},
	})
	for about, c := range map[string]struct {
		owner string
		asked *networks.Asked
		code  errdefs.Code
		field string
	}{
		"a mode that there is not":    {"bob", &networks.Asked{Policy: network.Policy{Mode: "bridge"}}, errdefs.InvalidArgument, "network.mode"},
		"a mode beyond the daemon's":  {"bob", &networks.Asked{Policy: network.Policy{Mode: network.Full}}, errdefs.PermissionDenied, "network.mode"},
		"a mode beyond the key's":     {"alice", &networks.Asked{Policy: network.Policy{Mode: network.Internet}}, errdefs.PermissionDenied, "network.mode"},
		"an entry beyond the key's":   {"alice", &networks.Asked{Policy: network.Policy{Mode: network.Allow, Allow: []string{"other.test"}}}, errdefs.PermissionDenied, "network.allow"},
		"a group that there is not":   {"bob", &networks.Asked{Policy: network.Policy{Mode: network.Allow, Allow: []string{"@nobody"}}}, errdefs.InvalidArgument, "network.allow"},
		"a secret without a value":    {"bob", with(func(s *networks.AskedSecret) { s.Value = "" }), errdefs.InvalidArgument, "network.secrets[0]"},
		"a secret without a variable": {"bob", with(func(s *networks.AskedSecret) { s.Name = "A-B" }), errdefs.InvalidArgument, "network.secrets[0].name"},
		"a stored secret and more":    {"bob", with(func(s *networks.AskedSecret) { s.Stored = "github" }), errdefs.InvalidArgument, "network.secrets[0].stored"},
		"a stored secret that is not": {"bob", with(func(s *networks.AskedSecret) { *s = networks.AskedSecret{Name: "A", Stored: "github"} }), errdefs.InvalidArgument, "network.secrets[0].stored"},
	} {
		_, err := k.Plan(t.Context(), networks.Subject{ID: "s", Owner: c.owner}, c.asked)
		known, ok := errors.AsType[*errdefs.Error](err)
		if !ok || known.Code != c.code || !strings.HasPrefix(known.Field, c.field) {
			t.Errorf("%s: %v, code %s, field %q", about, err, errdefs.CodeOf(err), known.Field)
		}
		if err != nil && strings.Contains(err.Error(), secret.Value) {
			t.Errorf("%s: the error tells the value: %v", about, err)
		}
	}
	if _, err := k.Plan(t.Context(), networks.Subject{Owner: "alice"}, &networks.Asked{Policy: network.Policy{Mode: network.Allow, Allow: []string{"git.test"}}}); err != nil {
		t.Errorf("what the key may reach: %v", err)
	}
}

func TestEngineNetworkTakesNoPolicy(t *testing.T) {
	k := newKeeper(t, networks.Options{Store: newRows(), Engine: func(driver string) string { return map[string]string{"docker": "agents"}[driver] }})
	if k.Made("native").Mode != runtime.NetworkNone || k.Made("docker").Mode != runtime.NetworkEngine {
		t.Errorf("native %v, docker %v", k.Made("native"), k.Made("docker"))
	}
	s := networks.Subject{ID: "s", Network: k.Made("docker")}
	planned, err := k.Plan(t.Context(), s, nil)
	if err != nil || !planned.Policy.Engine || planned.Policy.Opens() || planned.Policy.Plain() {
		t.Errorf("%+v, %v", planned.Policy, err)
	}
	_, err = k.Plan(t.Context(), s, &networks.Asked{Policy: network.Policy{Mode: network.None}})
	if !errdefs.Is(err, errdefs.Unimplemented) {
		t.Errorf("a policy: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	k := newKeeper(t, networks.Options{
		Store: newRows(), Default: network.Policy{Mode: network.Internet}, Images: map[string]network.Policy{"python": {Mode: network.Allow, Allow: []string{"pip.test"}}},
	})
	for image, want := range map[string]network.Mode{"base": network.Internet, "python": network.Allow} {
		planned, err := k.Plan(t.Context(), networks.Subject{Image: image}, nil)
		if err != nil || planned.Policy.Mode != want {
			t.Errorf("%s: %+v, %v", image, planned.Policy, err)
		}
	}
	bounded := newKeeper(t, networks.Options{
		Store: newRows(), Default: network.Policy{Mode: network.Internet}, Ceilings: map[string]network.Policy{"alice": {Mode: network.Allow, Allow: []string{"git.test"}}},
	})
	for owner, want := range map[string]network.Mode{"alice": network.Allow, "bob": network.Internet} {
		planned, err := bounded.Plan(t.Context(), networks.Subject{Owner: owner}, nil)
		if err != nil || planned.Policy.Mode != want {
			t.Errorf("%s, whose ceiling may be lower: %+v, %v", owner, planned.Policy, err)
		}
	}
	none := newKeeper(t, networks.Options{})
	if planned, err := none.Plan(t.Context(), networks.Subject{}, nil); err != nil || planned.Policy.Mode != network.None {
		t.Errorf("without a store: %+v, %v", planned.Policy, err)
	}
	_, err := none.Plan(t.Context(), networks.Subject{}, &networks.Asked{Policy: network.Policy{Mode: network.Internet}})
	if !errdefs.Is(err, errdefs.Unimplemented) {
		t.Errorf("without a store: %v", err)
	}
}

// Values are kept sealed, come back for the session that they are of, and are not lost
// by a change that does not name them.
func TestSecretsAreKept(t *testing.T) {
	const value = "the-real-one"
	store := newRows()
	k := newKeeper(t, networks.Options{Store: store, Seal: rot{}})
	asked := &networks.Asked{
		Policy:  network.Policy{Mode: network.Allow, Allow: []string{"api.test"}},
		Secrets: []networks.AskedSecret{{Name: "TOKEN", Hosts: []string{"api.test"}, Header: "Authorization", Value: value}},
	}
	planned, err := k.Plan(t.Context(), networks.Subject{ID: "s"}, asked)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Keep(t.Context(), "s", planned); err != nil {
		t.Fatal(err)
	}
	if text := string(store.public["s"]); strings.Contains(text, value) || !strings.Contains(text, planned.Policy.Secrets[0].Placeholder) {
		t.Errorf("what is shown: %s", text)
	}
	if bytes.Contains(store.sealed["s"], []byte(value)) || !bytes.Contains(flipped(store.sealed["s"]), []byte(value)) {
		t.Errorf("what is sealed: %q", store.sealed["s"])
	}
	policy, err := networks.Parse(store.public["s"])
	if err != nil {
		t.Fatal(err)
	}
	subject := networks.Subject{ID: "s", Policy: policy}
	for about, secrets := range map[string][]networks.AskedSecret{"without secrets": nil, "with its name": {{Name: "TOKEN"}}} {
		again, err := k.Plan(t.Context(), subject, &networks.Asked{Policy: network.Policy{Mode: network.Internet}, Secrets: secrets})
		if err != nil || len(again.Policy.Secrets) != 1 || again.Policy.Secrets[0].Placeholder != policy.Secrets[0].Placeholder {
			t.Fatalf("%s: %+v, %v", about, again.Policy, err)
		}
		if err := k.Keep(t.Context(), "s", again); err != nil || !bytes.Contains(flipped(store.sealed["s"]), []byte(value)) {
			t.Errorf("%s: the value is lost: %v", about, err)
		}
	}
	copied, err := k.Copy(t.Context(), subject)
	if err != nil || copied.Policy.Secrets[0].Placeholder != policy.Secrets[0].Placeholder {
		t.Errorf("%+v, %v", copied.Policy, err)
	}
	store.sealed["other"] = store.sealed["s"]
	if _, err := k.Copy(t.Context(), networks.Subject{ID: "other", Policy: policy}); err == nil {
		t.Error("the secrets of a session open for another one")
	}
	if gone, err := k.Plan(t.Context(), subject, &networks.Asked{Policy: network.Policy{Mode: network.Internet}, Secrets: []networks.AskedSecret{}}); err != nil || len(gone.Policy.Secrets) > 0 {
		t.Errorf("an empty list removes none: %+v, %v", gone.Policy, err)
	}
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{"A": "1", "SSL_CERT_FILE": "/mine"}
	plain, behind := networks.New(networks.Options{}), networks.New(networks.Options{Authorities: [][]byte{[]byte("PEM")}})
	t.Cleanup(plain.Close)
	t.Cleanup(behind.Close)
	open := networks.Policy{Policy: network.Policy{Mode: network.Internet}}
	if got := plain.Environment(env, open); len(got) != len(env) {
		t.Errorf("without secrets: %v", got)
	}
	if got := behind.Environment(env, networks.Policy{}); len(got) != len(env) {
		t.Errorf("without a network: %v", got)
	}
	if got := behind.Environment(env, open); got["SSL_CERT_FILE"] != "/mine" || got["PIP_CERT"] == "" || got["NODE_EXTRA_CA_CERTS"] == "" {
		t.Errorf("with authorities of the host: %v", got)
	}
	got := plain.Environment(env, networks.Policy{Secrets: []networks.Secret{{Name: "TOKEN", Placeholder: "placeholder-1"}}})
	if got["TOKEN"] != "placeholder-1" || got["A"] != "1" || got["SSL_CERT_FILE"] != "/mine" || got["NODE_EXTRA_CA_CERTS"] == "" {
		t.Errorf("%v", got)
	}
	if env["TOKEN"] != "" {
		t.Error("the client's variables were changed")
	}
}
