package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func load(t *testing.T, text string, environ ...string) (Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sandkasten.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path, environ, drivers)
}

// drivers are those that there are.
var drivers = []string{"native", "docker"}

func mustLoad(t *testing.T, text string, environ ...string) Config {
	t.Helper()
	c, err := load(t, text, environ...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLoadWithoutFileIsDefault(t *testing.T) {
	got, err := Load("", nil, drivers)
	if err != nil {
		t.Fatal(err)
	}
	want := Default(drivers)
	want.Snapshots.Dir = "/var/lib/sandkasten/snapshots"
	want.DBPath = "/var/lib/sandkasten/sandkasten.db"
	want.Audit.Dir = "/var/lib/sandkasten/audit"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load(\"\") (-want +got):\n%s", diff)
	}
}

func TestLoadReadsEveryKindOfValue(t *testing.T) {
	c := mustLoad(t, `
listen: "[::1]:9000"
api_key: secret
data_dir: /srv/sand/../box
allowed_images: [python, "sha256:abc"]
session_ttl_seconds: 60
defaults:
  cpu_limit: 2
  max_exec_timeout_ms: 90000
  readonly_rootfs: true
workspace:
  # every key here is a comment
pool:
  images: {python: 2, node: 0, base: auto}
`)
	if c.Listen != "[::1]:9000" || c.APIKey != "secret" || c.DataDir != "/srv/box" {
		t.Errorf("texts: %+v", c)
	}
	if c.DBPath != "/srv/box/sandkasten.db" || c.KeyFile() != "/srv/box/api_key" {
		t.Errorf("DBPath = %q, KeyFile = %q, want both in data_dir", c.DBPath, c.KeyFile())
	}
	if c.SessionTTL != time.Minute || c.Defaults.MaxExecTimeout != 90*time.Second {
		t.Errorf("durations: %v, %v", c.SessionTTL, c.Defaults.MaxExecTimeout)
	}
	if c.Defaults.CPU != 2 || !c.Defaults.ReadonlyRootfs {
		t.Errorf("defaults: %+v", c.Defaults)
	}
	if diff := cmp.Diff([]string{"python", "sha256:abc"}, c.AllowedImages); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"python": 2, "node": 0, "base": Auto}, c.Pool.Images); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironmentOverridesTheFile(t *testing.T) {
	c := mustLoad(t, "listen: 127.0.0.1:1\ndefaults: {mem_limit_mb: 100}\n",
		"SANDKASTEN_LISTEN=127.0.0.1:2",
		"SANDKASTEN_DEFAULTS__MEM_LIMIT_MB=200",
		"SANDKASTEN_DEFAULTS__CPU_LIMIT=0.5",
		"SANDKASTEN_API_KEY=12345",
		"SANDKASTEN_ALLOWED_IMAGES=python, node",
		"SANDKASTEN_ALLOWED_HOSTS=[box.lan]",
		"SANDKASTEN_POOL__IMAGES={python: 3}",
		"SANDKASTEN_DB_PATH=",
		"SANDKASTEN_CONFIG=/elsewhere",
		"SANDKASTEN_URL=http://127.0.0.1:1",
		"SANDKASTEN_TEST_ROOT=1",
		"SANDKASTEN_FAILPOINT=create",
		"HOME=/root",
	)
	if c.Listen != "127.0.0.1:2" || c.Defaults.MemoryMB != 200 || c.Defaults.CPU != 0.5 || c.APIKey != "12345" {
		t.Errorf("got %+v", c)
	}
	if diff := cmp.Diff([]string{"python", "node"}, c.AllowedImages); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"box.lan"}, c.AllowedHosts); diff != "" {
		t.Error(diff)
	}
	if c.Pool.Images["python"] != 3 {
		t.Errorf("pool.images = %v", c.Pool.Images)
	}
}

func TestNetworkPolicies(t *testing.T) {
	c := mustLoad(t, `
defaults:
  network_mode: internet
network:
  groups: {company: [git.example.org, "*.pkg.example.org:443"]}
  images:
    python: {mode: allow, allow: ["@pip"], deny: ["@company"], max_mbit: 10}
api_keys:
  - {owner: alice, key: 0123456789abcdef, network: {mode: allow, allow: ["@company"]}}
`)
	if c.Defaults.Network.Mode != "internet" || c.MaxNetworkMode != "internet" || c.Network.AllowPrivate {
		t.Errorf("%+v, %+v", c.Defaults.Network, c.Network)
	}
	want := Network{
		TrustHostCAs: true,

		Groups: map[string][]string{"company": {"git.example.org", "*.pkg.example.org:443"}},
		Images: map[string]NetworkPolicy{"python": {Mode: "allow", Allow: []string{"@pip"}, Deny: []string{"@company"}, MaxMbit: 10}},
	}
	if diff := cmp.Diff(want, c.Network); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&NetworkPolicy{Mode: "allow", Allow: []string{"@company"}}, c.APIKeys[0].Network); diff != "" {
		t.Error(diff)
	}
}

func TestMistakesNameTheLineAndTheRemedy(t *testing.T) {
	tests := map[string]struct {
		text string
		want string
	}{
		"slip":            {"defaults:\n  cpu_limt: 1\n", "line 2: defaults.cpu_limt: unknown key, did you mean cpu_limit?"},
		"slip in section": {"default:\n  cpu_limit: 1\n", "line 1: default: unknown key, did you mean defaults?"},
		"wrong section":   {"cpu_limit: 1\n", "line 1: cpu_limit: unknown key, did you mean defaults.cpu_limit?"},
		"no idea":         {"workspace:\n  zebra: 1\n", "line 2: workspace.zebra: unknown key, the keys here are default_size_mb, enabled, max_count, max_size_mb, persist_by_default, retention_days"},
		"type":            {"listen: 127.0.0.1:1\nmax_sessions: many\n", `line 2: max_sessions: is "many": write a whole number from 1 to 30000`},
		"quoted number":   {"max_sessions: \"5\"\n", `line 1: max_sessions: is "5": write a whole number from 1 to 30000`},
		"number as text":  {"default_image: 5\n", `line 1: default_image: is "5": write a text in quotes`},
		"yes":             {"pool:\n  enabled: yes\n", `line 2: pool.enabled: is "yes": write true or false`},
		"range":           {"session_ttl_seconds: 0\n", `line 1: session_ttl_seconds: is "0": write a whole number of seconds from 1 to 31536000`},
		"overflow":        {"session_ttl_seconds: 9300000000\n", `line 1: session_ttl_seconds: is "9300000000": write a whole number of seconds from 1 to 31536000`},
		"not a number":    {"defaults: {cpu_limit: .nan}\n", `line 1: defaults.cpu_limit: is ".nan": write a number from 0.01 to 1024`},
		"choice":          {"security:\n  seccomp: strong\n", `line 2: security.seccomp: is "strong": write off, mvp or strict`},
		"network mode":    {"defaults: {network_mode: bridge}\n", `line 1: defaults.network_mode: is "bridge": write none, allow, internet or full`},
		"wide default":    {"defaults: {network_mode: full}\n", `line 1: defaults.network_mode: is wider than maximum.network_mode, which is internet: lower the one or raise the other`},
		"two defaults":    {"defaults:\n  network_mode: internet\n  network: {mode: allow}\n", `line 2: defaults.network_mode: is another mode than that of defaults.network, allow: remove one of the two`},
		"policy":          {"defaults:\n  network: {mode: allow, alow: []}\n", `line 2: defaults.network: write ` + policyWant},
		"policy twice":    {"network:\n  images: {a: {mode: none, mode: none}}\n", `line 2: network.images: write ` + imagesWant},
		"private maximum": {"maximum: {network_mode: full}\n", `line 1: maximum.network_mode: is full, which reaches private addresses: set network.allow_private, or write internet`},
		"address":         {"listen: localhost\n", `line 1: listen: is "localhost": write host:port, as 127.0.0.1:8787`},
		"port":            {"listen: 127.0.0.1:70000\n", `line 1: listen: is "127.0.0.1:70000": write host:port, as 127.0.0.1:8787`},
		"relative path":   {"data_dir: ./data\n", `line 1: data_dir: is "./data": write an absolute path`},
		"no value":        {"data_dir:\n", "line 1: data_dir: has no value: write an absolute path, or remove the key"},
		"scalar section":  {"defaults: 5\n", "line 1: defaults: is a section: write its keys below it, indented"},
		"list for text":   {"default_image: [a]\n", "line 1: default_image: write a text in quotes"},
		"text for list":   {"allowed_images: python\n", `line 1: allowed_images: is "python": write a list of texts, as [python, node]`},
		"no driver":       {"extra_drivers: [magic]\n", "line 1: extra_drivers: write a list of some of native, docker"},
		"user unquoted":   {"docker: {user: 1000}\n", `line 1: docker.user: is "1000": write a user in quotes, as "1000:1000" or "app", or image`},
		"no user":         {"docker: {user: \"a b\"}\n", `line 1: docker.user: is "a b": write a user in quotes, as "1000:1000" or "app", or image`},
		"half a user":     {"docker: {user: \"1000:\"}\n", `line 1: docker.user: is "1000:": write a user in quotes, as "1000:1000" or "app", or image`},
		"driver twice":    {"extra_drivers: [docker, docker]\n", "line 1: extra_drivers: write a list of some of native, docker"},
		"extra is driver": {"extra_drivers: [native]\n", "line 1: extra_drivers: has native, which is the driver already: remove it there"},
		"list of lists":   {"allowed_images: [[a]]\n", "line 1: allowed_images: write a list of texts, as [python, node]"},
		"bad count":       {"pool: {images: {python: -1}}\n", "line 1: pool.images: write up to 100 names with whole numbers from 0 to 1000 or auto, as {python: 2, node: auto}"},
		"twice":           {"max_sessions: 1\nmax_sessions: 2\n", "line 2: max_sessions: is set twice, first on line 1: remove one"},
		"section twice":   {"pool: {enabled: true}\npool: {}\n", "line 2: pool: is written twice, first on line 1: join the two"},
		"reachable":       {"listen: 0.0.0.0:80\n", "line 1: listen: other machines can reach 0.0.0.0:80, and there is no api_key: set api_key, or listen on 127.0.0.1"},
		"short key":       {"listen: \":80\"\napi_key: short\n", "line 2: api_key: is too short for an address that other machines can reach: write at least 16 characters"},
		"secret":          {"api_key: 123456\n", "line 1: api_key: write a text in quotes"},
		"an empty key":    {"api_key: \"\"\n", "line 1: api_key: is empty: write a text in quotes, or remove the key"},
		"an empty number": {"max_sessions: ''\n", "line 1: max_sessions: is empty: write a whole number from 1 to 30000, or remove the key"},
		"other secret":    {"snapshots: {s3_secret_key: 123456}\n", "line 1: snapshots.s3_secret_key: write a text in quotes"},
		"two keys":        {"snapshots:\n  encryption_key: a\n  encryption_key_file: /b\n", "line 3: snapshots.encryption_key_file: is set beside snapshots.encryption_key: remove one"},
		"other driver":    {"orchestrator: {modes: {docker: podman}}\n", "line 1: orchestrator.modes: write some of native and docker, each with a driver, as {docker: native}"},
		"no alias":        {"orchestrator: {image_aliases: {a: 1}}\n", `line 1: orchestrator.image_aliases: write up to 1000 names, each with another, as {"astraforge/codex-cli:latest": base}`},
		"no files":        {"orchestrator: {enabled: true}\nsnapshots: {enabled: false}\n", "line 1: orchestrator.enabled: needs snapshots.enabled, for its sessions come back with their files: set that too, or neither"},
		"absent mode":     {"orchestrator: {enabled: true, default_mode: docker}\n", "line 1: orchestrator.default_mode: is docker, which needs the driver docker: name it in driver or extra_drivers, or another in orchestrator.modes"},
		"absent driver":   {"orchestrator: {enabled: true, modes: {native: docker}}\n", "line 1: orchestrator.modes: has docker for native, which this daemon does not have: name it in driver or extra_drivers"},
		"idle for ever":   {"orchestrator: {enabled: true, idle_timeout_seconds: 90000, max_lifetime_seconds: 90000}\n", "line 1: orchestrator.idle_timeout_seconds: is more than max_session_ttl_seconds without two rounds of the reaper: lower the one or raise the other"},
		"lives for ever":  {"orchestrator: {enabled: true, max_lifetime_seconds: 900000}\n", "line 1: orchestrator.max_lifetime_seconds: is more than max_lifetime_seconds without two rounds of the reaper: lower the one or raise the other"},
		"no scheme":       {"snapshots: {s3_endpoint: s3.example.org}\n", `line 1: snapshots.s3_endpoint: is "s3.example.org": write an http or https address without a path, as https://s3.example.org`},
		"address's path":  {"snapshots: {s3_endpoint: https://s3.example.org/bucket}\n", `line 1: snapshots.s3_endpoint: is "https://s3.example.org/bucket": write an http or https address without a path, as https://s3.example.org`},
		"no host":         {"snapshots: {s3_endpoint: \"https://:80\"}\n", `line 1: snapshots.s3_endpoint: is "https://:80": write an http or https address without a path, as https://s3.example.org`},
		"bucket missing":  {"snapshots:\n  store: s3\n  s3_endpoint: http://127.0.0.1:9000/\n  s3_access_key: a\n  s3_secret_key: b\n", "line 2: snapshots.store: is s3, which needs snapshots.s3_bucket: set it"},
		"over maximum":    {"maximum: {pids_limit: 100}\ndefaults: {pids_limit: 200}\n", "line 2: defaults.pids_limit: is more than maximum.pids_limit (line 1): lower the one or raise the other"},
		"no mapping":      {"- a\n", "line 1: write keys with values, as listen: 127.0.0.1:8787"},
		"two documents":   {"max_sessions: 1\n---\nmax_sessions: 2\n", "the file: has a second document or text after the end: write one document"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, test.text)
			mistakes, ok := errors.AsType[*Error](err)
			if !ok || len(mistakes.Problems) != 1 {
				t.Fatalf("Load(%q) = %v, want one problem", test.text, err)
			}
			if got := mistakes.Problems[0].String(); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	_, err := load(t, "lissten: x\ndefaults:\n  cpu_limit: -1\n  mem: 5\n", "SANDKASTEN_MAX_SESIONS=1", "SANDKASTEN_LOG__LEVEL=loud", "SANDKASTEN_NOWHERE__KEY=1")
	if err == nil {
		t.Fatal("Load accepted six mistakes")
	}
	for _, want := range []string{
		"line 1: lissten: unknown key, did you mean listen?",
		`line 3: defaults.cpu_limit: is "-1": write a number from 0.01 to 1024`,
		"line 4: defaults.mem: unknown key",
		"SANDKASTEN_MAX_SESIONS: max_sesions: unknown key, did you mean max_sessions?",
		`SANDKASTEN_LOG__LEVEL: log.level: is "loud": write debug, info, warn or error`,
		"SANDKASTEN_NOWHERE__KEY: nowhere.key: unknown key, and there is no section nowhere",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
}

func TestSyntaxErrorNamesTheLine(t *testing.T) {
	_, err := load(t, "listen: 127.0.0.1:1\n\tdata_dir: /x\n")
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v, want line 2 named", err)
	}
}

func TestUnwrittenLimitGivesWay(t *testing.T) {
	c := mustLoad(t, "defaults: {mem_limit_mb: 100000, max_exec_timeout_ms: 1000}\nmaximum: {pids_limit: 100}\n")
	if c.Maximum.MemoryMB != 100000 {
		t.Errorf("maximum.mem_limit_mb = %d, want it raised to the written default", c.Maximum.MemoryMB)
	}
	if c.Defaults.ExecTimeout != time.Second {
		t.Errorf("exec_timeout = %v, want it lowered to the written maximum", c.Defaults.ExecTimeout)
	}
	if c.Defaults.Pids != 100 {
		t.Errorf("pids_limit = %d, want it lowered to the written maximum", c.Defaults.Pids)
	}
}

func TestSnapshotsInABucket(t *testing.T) {
	c := mustLoad(t, "data_dir: /d\nsnapshots:\n  store: s3\n  s3_endpoint: http://127.0.0.1:9000/\n  s3_bucket: b\n  s3_access_key: a\n",
		"SANDKASTEN_SNAPSHOTS__S3_SECRET_KEY=s", "SANDKASTEN_SNAPSHOTS__ENCRYPTION_KEY=k")
	want := Default(drivers).Snapshots
	want.Store, want.Dir, want.Key = "s3", "/d/snapshots", "k"
	want.S3 = S3{Endpoint: "http://127.0.0.1:9000", Bucket: "b", PathStyle: true, AccessKey: "a", SecretKey: "s"}
	if diff := cmp.Diff(want, c.Snapshots); diff != "" {
		t.Error(diff)
	}
}

func TestReachableAddressWithKey(t *testing.T) {
	c := mustLoad(t, "listen: 0.0.0.0:8080\n", "SANDKASTEN_API_KEY=sixteen-or-more-characters")
	if c.URL() != "http://127.0.0.1:8080" {
		t.Errorf("URL() = %s", c.URL())
	}
}

func TestPreviewDomain(t *testing.T) {
	for domain, ok := range map[string]bool{
		"preview.localhost": true, "a-b.c1.example.org": true,
		"localhost": false, "Preview.test": false, "preview.test.": false, ".test": false, "*.test": false, "a..b": false,
		"-a.test": false, "a-.test": false, "127.0.0.1": false, "preview.test:80": false, "http://preview.test": false,
		strings.Repeat("a.", 100) + "test": false, strings.Repeat("a", 64) + ".test": false,
	} {
		c, err := load(t, "preview: {domain: '"+domain+"', https: true, max_ttl_seconds: 60}\n")
		if (err == nil) != ok || ok && (c.Preview.Domain != domain || !c.Preview.HTTPS || c.Preview.MaxTTL != time.Minute) {
			t.Errorf("%q: %+v, %v", domain, c.Preview, err)
		}
	}
	for host, ok := range map[string]bool{"api.test": true, "preview.test": false, "API.preview.test": false, "notpreview.test": true} {
		if _, err := load(t, "preview: {domain: preview.test}\nallowed_hosts: ["+host+"]\n"); (err == nil) != ok {
			t.Errorf("beside %s: %v", host, err)
		}
	}
}

func TestLoopback(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.8.8:1": true, "[::1]:1": true, "localhost:1": true,
		"0.0.0.0:1": false, ":1": false, "[::]:1": false, "10.0.0.1:1": false, "box.lan:1": false, "[::ffff:10.0.0.1]:1": false, "nonsense": false,
	} {
		if got := Loopback(listen); got != want {
			t.Errorf("Loopback(%q) = %v, want %v", listen, got, want)
		}
	}
}

func TestFileErrors(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "absent.yaml"), nil, drivers); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	if _, err := load(t, strings.Repeat("#", maxFile+1)); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("huge file: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("listen: 127.0.0.1:1\n")
	f.Add("a: &a {a: *a}\n")
	f.Add("pool: {images: {x: 1}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, problems := parse([]byte(text), nil, drivers)
		if len(problems) == 0 && !Loopback(c.Listen) && c.APIKey == "" {
			t.Errorf("accepted %q: reachable without a key", text)
		}
	})
}

func TestOrigins(t *testing.T) {
	for origin, ok := range map[string]bool{
		"https://app.example.org": true, "http://localhost:5173": true, "http://[::1]:5173": true,
		"https://app.example.org/": false, "https://app.example.org/a": false, "app.example.org": false, "*": false,
		"https://App.example.org": false, "null": false, "file:///x": false, "https://": false,
		"https://app.example.org:8443": true, "https://app.example.org:443": false, "http://localhost:80": false,
		"http://localhost:443": true, "https://app.example.org:": false, "https://app.example.org:0443": false,
		"https://me@app.example.org": false, "https://*.example.org": false, "https://bücher.example": false,
		"https://xn--bcher-kva.example": true, "http://a b.test": false, "https://a.test,https://b.test": false,
	} {
		c, err := load(t, "cors_origins: [https://a.test, '"+origin+"']\n")
		if (err == nil) != ok || ok && len(c.CORSOrigins) != 2 {
			t.Errorf("%s: %v, %v", origin, c.CORSOrigins, err)
		}
	}
}
