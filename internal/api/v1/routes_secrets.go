package v1

import (
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
)

// secretRoutes are those of stored secrets. None answers with a value.
func (s *surface) secretRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "PUT /v1/secrets/{name}", Scope: api.Key,
		Doc: kit.Doc{
			ID: "set-secret", Summary: "Store a secret", Errors: []int{403, 415, 429, 501, 507},
			Description: "A credential that sessions of this key refer to by its name and never see: what a program sends in its place becomes the value on the way to the hosts. A secret of the same name is replaced; running sessions have the earlier value until their network is set, they are started or the daemon restarts. The value is kept encrypted, and no answer has it.",
		},
	}, s.setSecret)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/secrets", Scope: api.Key, Turn: true,
		Doc: kit.Doc{
			ID: "list-secrets", Summary: "List secrets", Errors: []int{501},
			Description: "The stored secrets of this key by name, without their values.",
		},
	}, s.listSecrets)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/secrets/{name}", Scope: api.Key,
		Doc: kit.Doc{
			ID: "get-secret", Summary: "Get a secret", Errors: []int{404, 501},
			Description: "Without its value.",
		},
	}, s.getSecret)
	kit.Route(s.kit, kit.Row{
		Pattern: "DELETE /v1/secrets/{name}", Scope: api.Key,
		Doc: kit.Doc{
			ID: "delete-secret", Summary: "Delete a secret", Errors: []int{404, 501},
			Description: "Running sessions have it until their network is set, they are started or the daemon restarts.",
		},
	}, s.deleteSecret)
}
