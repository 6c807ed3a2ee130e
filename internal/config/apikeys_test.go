package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAPIKeys(t *testing.T) {
	want := []APIKey{
		{Owner: "alice", Key: "sk_alice_key_of_16"},
		{Owner: "bob.2", KeyFile: "/etc/keys/bob", MaxSessions: 5, RequestsPerSecond: 1.5, Burst: 9, MaxConcurrent: 3},
		{Owner: "admin", Key: "sk_second_key_of_16"},
		{Owner: "alice", Key: "sk_alice_next_of_16"},
	}
	const flow = `[{owner: alice, key: sk_alice_key_of_16}, {owner: bob.2, key_file: /etc/keys/bob, max_sessions: 5, requests_per_second: 1.5, burst: 9, max_concurrent: 3},
  {owner: admin, key: sk_second_key_of_16}, {owner: alice, key: sk_alice_next_of_16}]`
	const block = `- {owner: alice, key: sk_alice_key_of_16}
- owner: bob.2
  key_file: /etc/keys/../keys/bob
  max_sessions: 5
  requests_per_second: 1.5
  burst: 9
  max_concurrent: 3
- {owner: admin, key: sk_second_key_of_16}
- {owner: alice, key: sk_alice_next_of_16}
`
	for name, c := range map[string]Config{
		"flow":     mustLoad(t, "api_keys: "+flow+"\n"),
		"block":    mustLoad(t, "api_keys:\n"+block),
		"variable": mustLoad(t, "api_keys: [{owner: carol, key: sk_c_key_of_16_char}]\n", "SANDKASTEN_API_KEYS="+block),
		"one line": mustLoad(t, "", "SANDKASTEN_API_KEYS="+flow),
	} {
		if diff := cmp.Diff(want, c.APIKeys); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if c := mustLoad(t, "api_keys: []\n"); len(c.APIKeys) != 0 {
		t.Errorf("an empty list: %+v", c.APIKeys)
	}
	if c := mustLoad(t, "listen: 0.0.0.0:80\napi_keys: [{owner: a, key: sixteen-characters}]\n"); len(c.APIKeys) != 1 {
		t.Errorf("reachable with a key: %+v", c.APIKeys)
	}
}

func TestAPIKeyMistakes(t *testing.T) {
	const secret = "sk_not_to_be_seen"
	const fields = "the keys here are owner, key, key_file, max_sessions, requests_per_second, burst, max_concurrent"
	for text, want := range map[string]string{
		"api_keys: " + secret:                       "line 1: api_keys: write a list of entries",
		"api_keys: {owner: a, key: " + secret + "}": "line 1: api_keys: write a list of entries",
		"api_keys: [" + secret + "]":                "line 1: api_keys[0]: write an entry with owner and key",
		"api_keys:\n- owner: a\n  key: " + secret + "\n- key: sk_b_key_of_16_char": "line 4: api_keys[1]: has no owner",
		"api_keys: [{owner: a}]":                                                                                       "api_keys[0]: needs either key or key_file",
		"api_keys: [{owner: a, key: " + secret + ", key_file: /a}]":                                                    "api_keys[0]: needs either key or key_file",
		"api_keys: [{owner: A, key: " + secret + "}]":                                                                  "api_keys[0].owner: write a name of up to 63",
		"api_keys: [{owner: -a, key: " + secret + "}]":                                                                 "api_keys[0].owner: write a name of up to 63",
		"api_keys: [{owner: " + strings.Repeat("a", 64) + ", key: sk_a_key_of_16_char}]":                               "api_keys[0].owner: write a name of up to 63",
		"api_keys: [{owner: \"\", key: " + secret + "}]":                                                               "api_keys[0].owner: is empty: write a name",
		"api_keys: [{owner: a, key: 12345}]":                                                                           "api_keys[0].key: write a text in quotes",
		"api_keys: [{owner: a, key: }]":                                                                                "api_keys[0].key: has no value",
		"api_keys: [{owner: a, key_file: " + secret + "}]":                                                             "api_keys[0].key_file: write an absolute path",
		"api_keys: [{owner: " + strings.ToUpper(secret) + ", key: sk_a_key_of_16_char}]":                               "api_keys[0].owner: write a name of up to 63",
		"api_keys: [{owner: a, " + secret + ": 1}]":                                                                    "api_keys[0]: has an unknown key, " + fields,
		"api_keys: [{owner: a, key: " + secret + ", owner: b}]":                                                        "api_keys[0].owner: is set twice",
		"api_keys: [{owner: a, key: " + secret + ", max_sessions: -1}]":                                                `api_keys[0].max_sessions: is "-1": write a whole number from 0 to 30000`,
		"api_keys: [{owner: a, key: " + secret + ", requests_per_second: x}]":                                          "api_keys[0].requests_per_second: is \"x\": write a number",
		"api_keys: [{owner: a, key: " + secret + "}, {owner: b, key: " + secret + "}]":                                 "api_keys[1]: has the key of api_keys[0]",
		"api_keys: [{owner: a, key_file: /k}, {owner: b, key_file: /k}]":                                               "api_keys[1]: has the key of api_keys[0]",
		"api_keys: [{owner: a, key: " + secret + ", burst: 1}, {owner: a, key: sk_b_key_of_16_char, max_sessions: 1}]": "api_keys[1]: has limits beside those of api_keys[0]",
		"api_key: " + secret + "\napi_keys: [{owner: a, key: " + secret + "}]":                                         "line 2: api_keys: has the key of api_key in entry 0",
		"listen: 127.0.0.1:80\napi_keys: [{owner: a, key: " + secret[:15] + "}]":                                       "line 2: api_keys[0].key: is too short to keep other owners out: write at least 16 characters",
		"api_keys: [&x {owner: a, key: " + secret + "}, *x]":                                                           "api_keys[1]: has the key of api_keys[0]",
	} {
		_, err := load(t, text+"\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
		if err != nil && strings.Contains(strings.ToLower(err.Error()), secret[:9]) {
			t.Errorf("the key is told: %v", err)
		}
		// The same from the environment, where there are no lines.
		list, ok := strings.CutPrefix(text, "api_keys:")
		if !ok {
			continue
		}
		_, err = load(t, "", "SANDKASTEN_API_KEYS="+strings.TrimSpace(list))
		if err == nil || !strings.Contains(err.Error(), "SANDKASTEN_API_KEYS: api_keys") || strings.Contains(strings.ToLower(err.Error()), secret[:9]) {
			t.Errorf("%s\n from the environment: %v", text, err)
		}
	}
}
