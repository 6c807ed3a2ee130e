package preview

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
)

// host is the name of a target's own origin.
func (p *Previews) host(t Target) string {
	return fmt.Sprintf("%d-%s.%s", t.Port, t.Session, p.opts.Domain)
}

var label = regexp.MustCompile(`^([1-9][0-9]{0,4})-([a-z2-7]{26})$`)

// Site is api.Options.Site: it returns the route of a host that is a target's
// origin, and nil for every other host.
func (p *Previews) Site(host string) *api.Route {
	name, domain, _ := strings.Cut(host, ".")
	parts := label.FindStringSubmatch(name)
	if p.opts.Domain == "" || domain != p.opts.Domain || parts == nil {
		return nil
	}
	t, err := ParseTarget(parts[2], parts[1])
	if err != nil {
		return nil
	}
	return &api.Route{
		Class:   api.Long,
		Acts:    true,
		Pattern: "preview",
		Scope:   api.Key,
		Ticket:  func(r *http.Request) (auth.Principal, bool, error) { return p.Ticket(r, t) },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.Serve(w, r, t, "")
		}),
	}
}

// portSuffix is the ":8787" of a Host header, or nothing.
func portSuffix(hostport string) string {
	i := strings.LastIndexByte(hostport, ':')
	if i < 0 || strings.HasSuffix(hostport, "]") {
		return ""
	}
	return hostport[i:]
}
