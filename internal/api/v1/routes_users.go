package v1

import (
	"net/http"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/api/v1/users"
)

// userRoutes are those of users and their keys. None answers with a password, and
// only create-key with a key.
func (s *surface) userRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/me", Scope: api.Key,
		Doc: kit.Doc{
			ID: "get-me", Summary: "Get who asks",
			Description: "Whose the key of the request is, and what it may.",
		},
	}, s.users.Me)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/me/usage", Scope: api.Key,
		Doc: kit.Doc{
			ID: "get-my-usage", Summary: "Get what the caller uses", Errors: []int{501},
			Description: "What the owner of the request's key used in a month, has now and may have.",
		},
	}, s.users.MyUsage)
	s.usageRoutes()
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/users", Scope: api.Key,
		Doc: kit.Doc{
			ID: "create-user", Summary: "Make a user", Status: http.StatusCreated, Errors: []int{403, 409, 415, 501, 507},
			Description: "Only for admins. The user has no key yet.",
		},
	}, s.users.Create)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/users", Scope: api.Key, Turn: true,
		Doc: kit.Doc{
			ID: "list-users", Summary: "List users", Errors: []int{501},
			Description: "By name: all for admins, and for others only themselves. Owners of the configuration are not among them.",
		},
	}, s.users.List)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/users/{name}", Scope: api.Key,
		Doc: kit.Doc{
			ID: "get-user", Summary: "Get a user", Errors: []int{404, 501},
			Description: "To all but admins other users do not exist.",
		},
	}, s.users.Get)
	kit.Route(s.kit, kit.Row{
		Pattern: "PATCH /v1/users/{name}", Scope: api.Key,
		Doc: kit.Doc{
			ID: "update-user", Summary: "Change a user", Errors: []int{403, 404, 409, 415, 501, 507},
			Description: "What is left out stays. Users change their own e-mail address and password, with the current password or a key that has no end, that no other key has made and whose scope is all that the user may; the rest is for admins, who do not change their own role and state. A key that ends sets no password, e-mail address or role admin, of anybody. An e-mail address of another user is 409, and with oidc.link_users only admins set addresses. A password for a user who has had a key or password before is given by the daemon's own key and by admins with the right inspect alone, and so is an e-mail address with oidc.link_users: it opens what the user has, who is told. inspect itself is the daemon's own key's to give, and goes with the role admin. A quota holds at the next use; null in it goes back to the limit of the configuration. A new role or state ends the user's requests that are under way.",
		},
	}, s.users.Update)
	kit.Route(s.kit, kit.Row{
		Pattern: "DELETE /v1/users/{name}", Scope: api.Key, Class: api.Long,
		Doc: kit.Doc{
			ID: "delete-user", Summary: "Delete a user", Errors: []int{403, 404, 409, 501},
			Answers:     map[int]kit.Answer{202: {Means: "Something of the user is left. The daemon goes on removing it.", Content: []kit.Media{kit.JSON[contract.OK](nil)}}},
			Description: "Only for admins. Ends the user's keys and requests at once and then removes the user's sessions, snapshots, workspaces and stored secrets. The answer is 200 when all is gone. It comes after a second at the latest: 202 if something is left then. The user is there in state deleting until all is removed, and the name is not free. What cannot be removed is 503 if that shows within the second. The daemon goes on by itself after both.",
		},
	}, s.users.Delete)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/users/{name}/usage", Scope: api.Key,
		Doc: kit.Doc{
			ID: "get-user-usage", Summary: "Get what a user uses", Errors: []int{404, 501},
			Description: "As of /v1/me/usage. Admins get that of all users and of the owners of the configuration; to all others only they themselves exist.",
		},
	}, s.users.Usage)
	s.keyRoutes()
	s.signInRoutes()
}

// usageRoutes are those of what owners use, and of who looked into what they have.
func (s *surface) usageRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/me/inspections", Scope: api.Key, Turn: true,
		Doc: kit.Doc{
			ID: "list-my-inspections", Summary: "List who looked into what is the caller's", Errors: []int{501},
			Description: "Admins who used the right to look into what others have, and whoever made a key or set a password of the caller's. An inspection is written before it begins.",
		},
	}, s.users.Inspections)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/usage", Scope: api.Admin,
		Doc: kit.Doc{
			ID: "get-usage", Summary: "Get what all owners use", Errors: []int{403, 501},
			Description: "Only for admins. What each owner used in a month, has now and may have, with the memory that the owner's sessions use now.",
		},
	}, s.users.AllUsage)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/usage/days", Scope: api.Key,
		Doc: kit.Doc{
			ID: "get-usage-days", Summary: "Get what was used by day", Errors: []int{404, 501},
			Answers:     map[int]kit.Answer{200: {Content: []kit.Media{kit.JSON[users.UsageDays](nil), kit.Bytes(users.CSV)}}},
			Description: "Of the caller, and to admins of one owner or of all. To all others other owners do not exist.",
		},
	}, s.users.Days)
}

// signInRoutes are those of browsers. What else a cookie opens are the routes that a
// key opens.
func (s *surface) signInRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/auth/sign-in", Scope: api.Open, MaxBody: 16 << 10,
		Doc: kit.Doc{
			ID: "sign-in", Summary: "Sign a browser in", Errors: []int{401, 415, 501},
			Description: "With a name and a password, or with an API key. Sets a cookie that no script reads and that browsers send to this daemon's own pages only. It ends after signin.idle_hours without a request, with the user's password, role and state, and with the key. After failures further attempts have to wait: 429, with Retry-After. Needs no key.",
		},
	}, s.users.SignIn)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/auth/session", Scope: api.Open,
		Doc: kit.Doc{
			ID: "get-sign-in", Summary: "Get who has signed in, and how to", Errors: []int{501},
			Description: "Tells a page the token that its requests send beside the cookie. Needs no key, and takes none.",
		},
	}, s.users.Session)
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/auth/sign-out", Scope: api.SignedIn,
		Doc: kit.Doc{
			ID: "sign-out", Summary: "Sign a browser out", Errors: []int{403, 501},
			Description: "Ends the sign-in of the request's cookie and what is under way with it, at once. Takes the cookie with its token, and no key.",
		},
	}, s.users.SignOut)
	// A provider's query is its own, and browsers follow what answers: no part of the
	// document.
	s.kit.Plain(api.Route{Pattern: "GET " + users.OIDCStart, Scope: api.Open, Acts: true, Handler: http.HandlerFunc(s.users.StartOIDC)})
	s.kit.Plain(api.Route{Pattern: "GET " + users.OIDCCallback, Scope: api.Open, Acts: true, Handler: http.HandlerFunc(s.users.FinishOIDC)})
}

func (s *surface) keyRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/keys", Scope: api.Key,
		Doc: kit.Doc{
			ID: "create-key", Summary: "Make an API key", Status: http.StatusCreated, Errors: []int{403, 404, 409, 415, 501, 507},
			Description: "Shown in this answer and never again. A key that a key makes for its own user is its child: it has at most its scope and life, and is revoked with it. Keys of other users are made by admins, and are nobody's children, unless the admin's key ends. An admin makes the first key of a user who has had no key or password, and further ones with the right inspect, for a key opens what the user has; the daemon's own key makes any. The user is told (list-my-inspections).",
		},
	}, s.users.CreateKey)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/keys", Scope: api.Key, Turn: true,
		Doc: kit.Doc{
			ID: "list-keys", Summary: "List API keys", Errors: []int{404, 501},
			Description: "Oldest first, with those that are revoked or have expired. Admins see all, a key that no other has made those of its user, and a child itself and its own children. Keys of the configuration are not among them.",
		},
	}, s.users.ListKeys)
	kit.Route(s.kit, kit.Row{
		Pattern: "DELETE /v1/keys/{id}", Scope: api.Key,
		Doc: kit.Doc{
			ID: "revoke-key", Summary: "Revoke an API key", Errors: []int{403, 404, 501, 507},
			Description: "With its children. Requests and streams under way in their names end.",
		},
	}, s.users.RevokeKey)
}
