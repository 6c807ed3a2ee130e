package snapshots

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/snapshot"
	"github.com/sandkasten/sandkasten/protocol"
)

const (
	workspaceDir = "/workspace"
	maxPaths     = 256
	maxPathBytes = 64 << 10 // of all of them together
	maxText      = 256      // of a label
)

// partPlan is what is packed for one part.
type partPlan struct {
	name             snapshot.PartName
	how              protocol.Snapshot
	include, exclude []string       // from the workspace or the root
	fallback         snapshot.Scope // of the snapshot where the driver cannot tell this part; "" is an error then
}

// plan checks a request, fills in its defaults and makes its paths absolute. It
// returns the parts that are wanted.
func (k *Keeper) plan(req *Request) ([]partPlan, error) {
	if !k.hasSnapshots() {
		return nil, errNone()
	}
	if err := checkNames(req.Name, req.Label); err != nil {
		return nil, err
	}
	if err := check.IdempotencyKey(req.IdempotencyKey); err != nil {
		return nil, err
	}
	req.Scope = cmp.Or(req.Scope, snapshot.ScopeWorkspace)
	if err := checkFallback(*req); err != nil {
		return nil, err
	}
	req.Include, req.Exclude = slices.Clone(req.Include), slices.Clone(req.Exclude)
	parts := []partPlan{{name: snapshot.Workspace, how: protocol.SnapshotTree}}
	switch req.Scope {
	case snapshot.ScopeWorkspace:
	case snapshot.ScopeSandbox:
		parts = append(parts, partPlan{name: snapshot.Root, how: protocol.SnapshotLayer})
	default:
		return nil, errdefs.Invalid("scope", "must be %s or %s", snapshot.ScopeWorkspace, snapshot.ScopeSandbox)
	}
	for i := range parts {
		p := &parts[i]
		var err error
		if p.include, err = p.pick("include_paths", req.Scope, req.Include); err != nil {
			return nil, err
		}
		if p.exclude, err = p.pick("exclude_paths", req.Scope, req.Exclude); err != nil {
			return nil, err
		}
	}
	var wanted []partPlan
	for _, p := range parts {
		if len(p.include) == 0 && len(req.Include) > 0 || slices.Contains(p.exclude, all) {
			continue
		}
		if slices.Contains(p.include, all) {
			p.include = nil
		}
		wanted = append(wanted, p)
	}
	if len(wanted) == 0 {
		return nil, errdefs.Invalid("exclude_paths", "must leave something")
	}
	// A client that names files, or leaves out the workspace, wants no other files in their place.
	if len(wanted) == len(parts) && len(req.Include) == 0 {
		wanted[len(wanted)-1].fallback = req.Fallback
	}
	return wanted, nil
}

func checkFallback(req Request) error {
	switch {
	case req.Fallback == "":
		return nil
	case req.Fallback != snapshot.ScopeWorkspace:
		return errdefs.Invalid("fallback", "must be %s", snapshot.ScopeWorkspace)
	case req.Scope == snapshot.ScopeWorkspace:
		return errdefs.Invalid("fallback", "is for the scope %s; leave it out", snapshot.ScopeSandbox)
	}
	return nil
}

// all is the directory of a part itself.
const all = "."

// pick returns the paths that are in the part, from its top.
func (p partPlan) pick(field string, scope snapshot.Scope, paths []string) ([]string, error) {
	var picked []string
	total := 0
	for i, asked := range paths {
		if total += len(asked); i == maxPaths || total > maxPathBytes {
			return nil, errdefs.Invalid(field, "must have at most %d paths of %d bytes together", maxPaths, maxPathBytes)
		}
		if asked == "" || len(asked) > protocol.MaxPath || strings.ContainsRune(asked, 0) {
			return nil, errdefs.Invalid(field, "must be paths of 1 to %d bytes without zero bytes", protocol.MaxPath)
		}
		paths[i] = path.Clean(asked)
		if !path.IsAbs(asked) {
			paths[i] = path.Join(workspaceDir, asked)
		}
		rel, inWorkspace := strings.CutPrefix(paths[i]+"/", workspaceDir+"/")
		switch {
		case scope == snapshot.ScopeWorkspace && !inWorkspace:
			return nil, errdefs.Invalid(field, "has %q, which leads out of %s, to %s; the scope %s has other files, too", asked, workspaceDir, paths[i], snapshot.ScopeSandbox)
		case paths[i] == "/":
			rel = ""
		case inWorkspace != (p.name == snapshot.Workspace):
			continue
		case !inWorkspace:
			rel = paths[i][1:]
		}
		picked = append(picked, cmp.Or(strings.TrimSuffix(rel, "/"), all))
	}
	return picked, nil
}

func checkNames(name, label string) error {
	switch {
	case name != "" && !check.IsName(name):
		return errdefs.Invalid("name", "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'")
	case len(label) > maxText || !check.IsPrintable(label):
		return errdefs.Invalid("label", "must be at most %d printable characters", maxText)
	}
	return nil
}
