package archtest

import (
	"go/ast"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// EndRules say where something of a client's ends, and which page says what that keeps.
type EndRules struct {
	Page    string // has the table below Heading
	Heading string

	// Calls are the names of the functions with which something ends. Where a name means
	// other things, too, it counts behind these receivers only.
	Calls map[string][]string

	// Rows are the first cells of the rows of the table, by the function that makes such a
	// call, as "internal/session.core.end". Those of "" need no place. A call that is no end
	// has the reason in Others.
	Rows   map[string][]string
	Others map[string]string
}

// Ends compares the places where something of a client's ends with a table in the
// documentation. Each place has a row, each row a place, and each test that a row names is
// in the package that it names.
func (r *Repo) Ends(rules EndRules) ([]string, error) {
	text, err := r.read(rules.Page)
	if err != nil {
		return nil, err
	}
	rows := tableBelow(text, rules.Heading)
	var found []string
	named := map[string]bool{}
	for _, row := range rules.Rows[""] {
		named[row] = true
	}
	sites := r.endSites(rules.Calls)
	for _, site := range slices.Sorted(maps.Keys(sites)) {
		for _, row := range rules.Rows[site] {
			named[row] = true
			if _, ok := rows[row]; !ok {
				found = append(found, rules.Page+": has no row "+row+", for "+site)
			}
		}
		if len(rules.Rows[site]) == 0 && rules.Others[site] == "" {
			found = append(found, sites[site]+": something ends in "+site+": say in "+rules.Page+" what that keeps and which test holds it, and name the row in archtest.Ends")
		}
	}
	for _, site := range slices.Sorted(maps.Keys(rules.Rows)) {
		if site != "" && sites[site] == "" {
			found = append(found, "archtest.Ends: nothing ends in "+site)
		}
	}
	for _, site := range slices.Sorted(maps.Keys(rules.Others)) {
		if sites[site] == "" {
			found = append(found, "archtest.Ends: nothing ends in "+site)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		if !named[row] {
			found = append(found, rules.Page+": no place belongs to the row "+row)
		}
		found = append(found, r.wrongTests(rules.Page+", "+row, rows[row])...)
	}
	return found, nil
}

// endSites are the functions that make one of these calls, with a place.
func (r *Repo) endSites(calls map[string][]string) map[string]string {
	sites := map[string]string{}
	for _, p := range r.Packages {
		if !strings.HasPrefix(p.Dir, "internal/") || strings.HasPrefix(p.Dir, "internal/cli") || strings.HasSuffix(p.Dir, "test") {
			continue
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, d := range f.AST.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				ast.Inspect(fn, func(n ast.Node) bool {
					if s, ok := n.(*ast.SelectorExpr); ok && ends(s, calls) {
						sites[p.Dir+"."+methodName(fn)] = r.where(s.Pos())
					}
					return true
				})
			}
		}
	}
	return sites
}

// ends reports whether an expression is a function with which something ends.
func ends(s *ast.SelectorExpr, calls map[string][]string) bool {
	receivers, ok := calls[s.Sel.Name]
	if !ok || len(receivers) == 0 {
		return ok
	}
	switch x := s.X.(type) {
	case *ast.Ident:
		return slices.Contains(receivers, x.Name)
	case *ast.SelectorExpr:
		return slices.Contains(receivers, x.Sel.Name)
	}
	return false
}

// methodName is the name of a function, behind that of its receiver's type.
func methodName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// tableBelow returns the rows of the first table below a heading, their last cells by
// their first ones.
func tableBelow(page, heading string) map[string]string {
	rows := map[string]string{}
	_, page, _ = strings.Cut(page, "\n"+heading+"\n")
	page, _, _ = strings.Cut(page, "\n## ")
	for line := range strings.SplitSeq(page, "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		rows[strings.TrimSpace(cells[0])] = strings.TrimSpace(cells[len(cells)-1])
	}
	delete(rows, "what ends") // the head
	return rows
}

var namedTest = regexp.MustCompile("`(?:([a-z0-9/-]+)\\.)?(Test\\w+)`")

// wrongTests returns the tests of a cell that are not in the package that is named with them,
// or with the one before.
func (r *Repo) wrongTests(where, cell string) (found []string) {
	dir := ""
	all := namedTest.FindAllStringSubmatch(cell, -1)
	if len(all) == 0 {
		return []string{where + ": names no test"}
	}
	for _, m := range all {
		if m[1] != "" {
			dir = m[1]
		}
		if !r.hasTest(dir, m[2]) {
			found = append(found, where+": "+dir+" has no "+m[2])
		}
	}
	return found
}

// hasTest looks at files: the package may be another module's.
func (r *Repo) hasTest(dir, name string) bool {
	files, err := fs.Glob(r.fsys, path.Join(dir, "*_test.go"))
	for _, file := range files {
		text, readErr := r.read(file)
		if err == nil && readErr == nil && strings.Contains(text, "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

// Ends are the places of this repository.
var Ends = EndRules{
	Page: "docs/recovery.md", Heading: "## Ends, and what they keep",
	Calls: map[string][]string{
		"Destroy": nil, "DestroyWorkspace": nil, "DeleteWorkspace": nil, "DeleteSnapshot": nil, "DeleteOrchestrated": nil, "DeleteArtifact": nil,
		"RemoveOwner": nil, "thin": nil, "saveLater": nil, "endUnsaved": nil,
		"Delete": {"Blobs", "blobs", "Snapshots", "Workspaces", "store", "Store", "behind"}, "RemoveAll": {"Workspaces"}, "end": {"c", "core"},
	},
	Rows: map[string][]string{
		"internal/api/v1.surface.bulkActions":                {ofDelete},
		"internal/api/v1.surface.destroySession":             {ofDelete},
		"internal/api/v1.surface.deleteWorkspace":            {ofWorkspaces},
		"internal/api/v1/snapshots.Handlers.Delete":          {ofSnapshots},
		"internal/daemon.Daemon.removeNamed":                 {ofUsers},
		"internal/daemon.Daemon.stopOne":                     {ofStops},
		"internal/daemon.removeOwned":                        {ofUsers},
		"internal/maintenance.deleteArchives":                {ofGarbage},
		"internal/orchestrator.Service.awaitSaved":           {ofUsers},
		"internal/orchestrator.Service.clear":                {"a start of an unsaved or stopped session that fails or is killed"},
		"internal/orchestrator.Service.destroy":              {ofNamed, "idle timeout, lifetime, adoption of the orchestrator", "uploads and commands that meet such an end"},
		"internal/orchestrator.Service.forgetRow":            {"`orchestrator.retention_days`"},
		"internal/orchestrator.Service.forgetWhole":          {"`orchestrator.retention_days`"},
		"internal/orchestrator.Service.reap":                 {ofUnsaved},
		"internal/orchestrator.Service.removeRow":            {ofUsers},
		"internal/orchestrator.Service.save":                 {ofThinning},
		"internal/orchestrator.Service.saveLater":            {ofUnsaved},
		"internal/orchestrator.Service.thin":                 {ofThinning},
		"internal/orchestrator/artifacts.Service.remove":     {"artifacts: retention, removal"},
		"internal/pool.Pool.clear":                           {ofPool},
		"internal/pool.Pool.destroy":                         {ofPool},
		"internal/runtime/linux.Driver.Sweep":                {ofStarts},
		"internal/scope.Service.end":                         {"a scope is complete (`/v1/scopes`)", "the program of a workflow is killed"},
		"internal/session.Sessions.Stop":                     {ofStops},
		"internal/session.Upkeep.Idle":                       {ofStops, "times of `/v1`: TTL, lifetime, retention of the stopped"},
		"internal/session.core.adoptOne":                     {ofStarts, "a runner or container that dies"},
		"internal/session.core.boot":                         {"a start of an unsaved or stopped session that fails or is killed"},
		"internal/session.core.removeOrphan":                 {ofStarts},
		"internal/session.core.end":                          {"a runner or container that dies"},
		"internal/session.core.endLocked":                    {ofDelete},
		"internal/session.core.makeRoom":                     {"a stopped session that makes room for another of its owner"},
		"internal/session.core.reopen":                       {ofStarts},
		"internal/session.core.whileStopped":                 {"a snapshot that is made"},
		"internal/session/snapshots.Keeper.remove":           {ofSnapshots},
		"internal/session/workspaces.Keeper.deleteRow":       {ofWorkspaces},
		"internal/session/workspaces.Keeper.removeWorkspace": {ofWorkspaces},
		"": { // which are no calls: something must not end
			"a restore that fails",
			"the disk of archives comes or goes in the middle of a look, an upload or a removal", "`recover`, `restore`", "another key, or none, for archives", "upgrade and the way back",
		},
	},
	Others: map[string]string{
		"internal/api/v1/images.Handlers.saveSession":          "the archive that an image is made of, which no client sees",
		"internal/blob.Encrypted.Delete":                       "passes it on",
		"internal/blob.Fallback.Delete":                        "passes it on",
		"internal/daemon.groupAsker.destroy":                   "a sandbox that was made to look at its image, and that no client has",
		"internal/runtime/runtimetest/far.Server.do":           "a driver's other side, for tests",
		"internal/runtime/runtimetest/far.Server.doWorkspace":  "a driver's other side, for tests",
		"internal/runtime/linux.forking.undo":                  "a fork that fails, before its answer",
		"internal/session.forking.undo":                        "a fork that fails, before its answer",
		"internal/session.creation.undo":                       "a create that fails, before its answer",
		"internal/session/workspaces.Keeper.addWorkspace":      "a create that fails, before its answer",
		"internal/runtime/multidriver.Driver.DestroyWorkspace": "passes it on",
		"internal/hostcheck.trial.create":                      "a sandbox of a check",
		"internal/runtime/docker.Driver.undo":                  "a create that fails, before its answer",
		"internal/runtime/linux.Driver.Create":                 "a create that fails, before its answer",
		"internal/runtime/multidriver.Driver.Destroy":          "passes it on",
	},
}

// Rows that have more than one place.
const (
	ofDelete     = "`DELETE" + " /v1/sessions/{id}`" // no route of ours
	ofGarbage    = "`gc`, `fsck --repair`"
	ofNamed      = "stop and delete of the orchestrator"
	ofPool       = "the pool is drained"
	ofSnapshots  = "`snapshots.retention_days`, `DELETE` of a snapshot"
	ofStarts     = "start of the daemon, adoption"
	ofStops      = "`stop` of `/v1`, `on_idle: stop` and `on_expiry: stop`"
	ofThinning   = "thinning of automatic snapshots"
	ofUnsaved    = "an unsaved session, after `unsaved_retention_seconds`"
	ofUsers      = "a user is deleted"
	ofWorkspaces = "`DELETE` of a workspace, and those that nobody used"
)
