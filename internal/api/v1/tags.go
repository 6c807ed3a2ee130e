package v1

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// tags group the operations of the document by their paths: the longest prefix of a
// path decides. The reference shows the groups in this order.
var tags = []struct {
	name, description string
	prefixes          []string
}{
	{"Sessions", "Machines of agents, from their creation to their end.", []string{"/v1/sessions", "/v1/scopes"}},
	{"Commands", "Commands in the shells of a session, and what they printed.", []string{"/v1/sessions/{id}/exec", "/v1/sessions/{id}/shells", "/v1/sessions/{id}/terminal"}},
	{"Processes", "Programs beside the shell.", []string{"/v1/sessions/{id}/processes"}},
	{"Contexts", "Code in kernels that remember, with results as data.", []string{"/v1/sessions/{id}/contexts", "/v1/sessions/{id}/run-code"}},
	{"Files", "Files of sessions and of workspaces.", []string{"/v1/sessions/{id}/fs", "/v1/workspaces/{id}/fs"}},
	{"Ports", "Servers in a session, and previews of them.", []string{"/v1/sessions/{id}/ports", "/v1/sessions/{id}/previews", "/v1/sessions/{id}/tunnel"}},
	{"Networks", "What a session may reach, and what it tried.", []string{"/v1/sessions/{id}/network"}},
	{"Snapshots", "Saved states of sessions.", []string{"/v1/sessions/{id}/snapshots", "/v1/snapshots"}},
	{"Workspaces", "Directories that outlive sessions.", []string{"/v1/workspaces"}},
	{"Images", "What sessions start from.", []string{"/v1/image"}},
	{"Secrets", "Texts that sessions use and never see.", []string{"/v1/secrets"}},
	{"Users and keys", "Who may use the daemon, and how much of it was used.", []string{"/v1/me", "/v1/users", "/v1/keys", "/v1/auth"}},
	{"Daemon", "What happens in the daemon, and whether it is well.", []string{"/"}},
}

// documentTags gives each operation its group.
func documentTags(doc *huma.OpenAPI) {
	for _, tag := range tags {
		doc.Tags = append(doc.Tags, &huma.Tag{Name: tag.name, Description: tag.description})
	}
	for path, item := range doc.Paths {
		name := tagOf(path)
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op != nil {
				op.Tags = []string{name}
			}
		}
	}
}

func tagOf(path string) (name string) {
	longest := 0
	for _, tag := range tags {
		for _, prefix := range tag.prefixes {
			if len(prefix) > longest && strings.HasPrefix(path, prefix) {
				name, longest = tag.name, len(prefix)
			}
		}
	}
	return name
}
