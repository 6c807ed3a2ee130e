// Package v1 is Sandkasten's own HTTP API: sessions, commands, files and
// terminals over JSON. It turns requests into calls of the session manager and
// results into the shapes of the contract, of which openapi.json is the golden
// copy. It decides nothing about sessions. What other surfaces need too
// belongs in the package above.
package v1

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/accounts/inspections"
	"github.com/sandkasten/sandkasten/internal/accounts/oidc"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/sessionmetrics"
	"github.com/sandkasten/sandkasten/internal/api/v1/contexts"
	"github.com/sandkasten/sandkasten/internal/api/v1/files"
	"github.com/sandkasten/sandkasten/internal/api/v1/images"
	"github.com/sandkasten/sandkasten/internal/api/v1/networks"
	"github.com/sandkasten/sandkasten/internal/api/v1/operator"
	"github.com/sandkasten/sandkasten/internal/api/v1/snapshots"
	"github.com/sandkasten/sandkasten/internal/api/v1/users"
	"github.com/sandkasten/sandkasten/internal/audit"
	"github.com/sandkasten/sandkasten/internal/findings"
	"github.com/sandkasten/sandkasten/internal/history"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/preview"
	"github.com/sandkasten/sandkasten/internal/scope"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/usage"
)

// Options configures the surface. Only Manager is required.
type Options struct {
	Manager *session.Manager
	Version string // of the build, shown at /v1/info

	Previews *preview.Previews // of the same manager; nil has previews whose tokens end with the process

	Pool *pool.Pool // what keeps sandboxes ready for the manager; may be nil

	Images *jobs.Library // nil has none, and answers that it is not there

	Accounts    *accounts.Accounts       // nil has none, and answers so
	Usage       *usage.Meter             // nil meters nothing, and answers so
	Inspections *inspections.Inspections // of who looked into what owners have; nil has none, and answers so
	SignIns     *browser.SignIns         // of these accounts; nil has none, and answers so
	OIDC        *oidc.Provider           // signs users in; nil has none, and answers so
	History     *history.Recorder        // what sessions and the host used; nil has none, and answers so
	Findings    *findings.Examiner       // what is wrong with the host; nil has none, and answers so
	Home        string                   // path of the page for who has signed in with it; default /

	Scopes *scope.Service // nil has none, and answers so

	AgentFiles bool // agents' tools stage and publish files: definitions have these tools

	Audit *audit.Log // of what clients do; nil keeps none, and answers so

	OutputBytes int64  // of one command's output in an answer: 1 MiB
	WriteBytes  int64  // of a file in one fs/write: 4 MiB
	UploadBytes int64  // of one upload, all its files together: 1 GiB
	SpoolDir    string // for the files of an upload until their size is known; "" is the system's temporary directory

	// Writable returns why nothing can be written, which /readyz says, or nil.
	// Without it everything can. It is asked by anybody.
	Writable func() error
	// DiskFull reports whether there is no room for more, which /readyz says too.
	DiskFull func() bool

	Registry *prometheus.Registry    // what /metrics shows; nil has no /metrics
	Metrics  *sessionmetrics.Metrics // of the sessions that it makes and what they run; nil keeps none
}

// granted is what users may make images of. Owners of the configuration have no rights.
func granted(a *accounts.Accounts) func(owner string) images.Grant {
	return func(owner string) images.Grant {
		if a == nil {
			return images.Grant{}
		}
		u, _ := a.Known(owner)
		count, bytes := u.Quota.ImageRoom()
		right := u.Rights.Images
		return images.Grant{Pull: right != accounts.ImagesNone, Build: right == accounts.ImagesBuild, Images: count, Bytes: bytes}
	}
}

type surface struct {
	manager        *session.Manager
	previews       *preview.Previews
	files          *files.Handlers
	workspaceFiles *files.Handlers
	snapshots      *snapshots.Handlers
	networks       *networks.Handlers
	contexts       *contexts.Handlers
	images         *images.Handlers
	users          *users.Handlers
	host           *operator.Handlers
	opts           Options
	kit            *kit.Surface
	metrics        *sessionmetrics.Metrics
	openapi        func() []byte // the document as it is served
}

// New returns the surface. It panics if a route lacks its documentation, which
// any test that builds it finds.
func New(o Options) api.Surface {
	o.OutputBytes = cmp.Or(o.OutputBytes, 1<<20)
	o.WriteBytes = cmp.Or(o.WriteBytes, 4<<20)
	o.UploadBytes = cmp.Or(o.UploadBytes, 1<<30)
	if o.DiskFull == nil {
		o.DiskFull = func() bool { return false }
	}
	if o.Writable == nil {
		o.Writable = func() error { return nil }
	}
	if o.Previews == nil {
		o.Previews = preview.New(preview.Options{Manager: o.Manager})
	}
	s := &surface{manager: o.Manager, previews: o.Previews, opts: o, metrics: o.Metrics}
	s.files = &files.Handlers{
		Manager: o.Manager, Find: s.findKnown, WriteBytes: o.WriteBytes, UploadBytes: o.UploadBytes, SpoolDir: o.SpoolDir,
	}
	ofWorkspaces := *s.files
	ofWorkspaces.Find = s.findWorkspaceFiles
	s.workspaceFiles = &ofWorkspaces
	s.contexts = s.newContexts()
	s.snapshots = &snapshots.Handlers{Manager: o.Manager, Contexts: s.runningContexts, Find: s.find}
	s.networks = &networks.Handlers{Manager: o.Manager, Find: s.find}
	s.images = &images.Handlers{Manager: o.Manager, Library: o.Images, Find: s.find, Granted: granted(o.Accounts)}
	s.users = &users.Handlers{Accounts: o.Accounts, Meter: o.Usage, SignIns: o.SignIns, OIDC: o.OIDC, Looks: o.Inspections, Sessions: o.Manager.Sessions, Home: cmp.Or(o.Home, "/")}
	s.host = &operator.Handlers{History: o.History, Findings: o.Findings}
	s.kit = kit.New(kit.Options{Name: "v1", LargeBodies: "send files by PUT fs/raw"})
	s.table()
	s.openapi = kit.DocumentText(s.document())
	return s.kit.Surface()
}
