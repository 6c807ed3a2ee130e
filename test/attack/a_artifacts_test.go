package attack

import (
	"net/url"
	"strings"
	"testing"
)

// A21: a link to an artifact opens that artifact, until it ends or what it was made with
// does: a key that is revoked, a user who signs out, is disabled or deleted.
func TestA21_LinksToArtifacts(t *testing.T) {
	t.Parallel()
	s := stage(t, anyDaemon+"\norchestrator: {enabled: true}")
	const sessions = "/api/sandbox/sessions"
	keyOf := func(name string) (id string, c *caller) {
		var made struct{ ID, Key string }
		s.admin(t).do(t, "POST", "/v1/keys", map[string]any{"user": name, "scope": "run"}).into(t, &made)
		return made.ID, as(t, s.d, made.Key)
	}
	stranger := as(t, s.d, "")
	for name, end := range map[string]func(name, keyID string){
		"revoked": func(_, keyID string) { s.admin(t).do(t, "DELETE", "/v1/keys/"+keyID, nil).refused(t, "revoke", 200) },
		"disabled": func(name, _ string) {
			s.admin(t).do(t, "PATCH", "/v1/users/"+name, `{"state":"disabled"}`).refused(t, "disable", 200)
		},
		"deleted": func(name, _ string) { s.admin(t).do(t, "DELETE", "/v1/users/"+name, nil).refused(t, "delete", 200) },
	} {
		name = "links-" + name
		s.newUser(t, name)
		keyID, a := keyOf(name)
		otherID, other := keyOf(name)
		var made struct {
			ID          string
			DownloadURL string `json:"download_url"`
		}
		a.do(t, "POST", sessions, `{}`).into(t, &made)
		path := sessions + "/" + made.ID
		a.do(t, "POST", path+"/exec", `{"command":"echo CANARY-OF-A21 > a"}`).refused(t, "write", 200)
		a.do(t, "POST", path+"/files/export", `{"path":"a"}`).into(t, &made)
		link, query, _ := strings.Cut(made.DownloadURL, "?")
		if got := stranger.do(t, "GET", made.DownloadURL, nil); !strings.Contains(got.body, "CANARY-OF-A21") {
			t.Fatalf("the link opens nothing: %d %s", got.status, got.body)
		}
		for what, changed := range map[string][2]string{"another key": {"key", otherID}, "no key": {"key", ""}, "a later end": {"expires", "9999999999"}, "the admin's": {"key", "api_key"}} {
			values, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			values.Set(changed[0], changed[1])
			stranger.do(t, "GET", link+"?"+values.Encode(), nil).refused(t, name+": a link with "+what, 403)
		}
		end(name, keyID)
		stranger.do(t, "GET", made.DownloadURL, nil).refused(t, name+": the link", 403)
		if strings.HasSuffix(name, "revoked") {
			if got := other.do(t, "GET", link, nil); !strings.Contains(got.body, "CANARY-OF-A21") {
				t.Errorf("the owner's other key: %d %s", got.status, got.body)
			}
		}
	}
}
