package testenv

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sandkasten/sandkasten/internal/installation"
)

// addCgroups takes the groups of sandboxes, sandkasten/NODE/ID and below, of
// this process's nodes, and what is below groups with its mark, in every
// hierarchy. The directories above them are the daemon's and the test's.
func addCgroups(s state) error {
	tops := groupRoots(Mark() + "*")
	nodes := ownNodes()
	for _, dir := range groupRoots("sandkasten/*") {
		if nodes[filepath.Base(dir)] {
			tops = append(tops, dir)
		}
	}
	for _, top := range tops {
		for _, dir := range treeBelow(top) {
			s["cgroup "+dir] = struct{}{}
		}
		delete(s, "cgroup "+top)
	}
	return nil
}

// NodeName is the name of a data directory's control groups: its installation's,
// or that of a driver which was told of none.
func NodeName(dataDir string) string {
	if id, err := installation.Read(filepath.Join(dataDir, "node")); err == nil {
		return string(id)
	}
	sum := sha256.Sum256([]byte(filepath.Clean(dataDir)))
	return hex.EncodeToString(sum[:4])
}

// claimed are nodes of this process that no directory names any more.
var claimed = struct {
	sync.Mutex
	nodes map[string]bool // guarded by Mutex
}{nodes: map[string]bool{}}

// ClaimNode makes a node this process's for the leak check, which finds those of
// data directories by itself. A driver may have a name that is in no directory.
func ClaimNode(names ...string) {
	claimed.Lock()
	defer claimed.Unlock()
	for _, name := range names {
		claimed.nodes[name] = true
	}
}

// ownNodes are the nodes that this process has claimed, and those of all
// directories that its tests may have as a data_dir.
func ownNodes() map[string]bool {
	for _, base := range dataDirBases() {
		for _, dir := range globAll(filepath.Join(base, Mark()+"*")) {
			ClaimNode(nodesIn(dir)...)
		}
	}
	claimed.Lock()
	defer claimed.Unlock()
	return maps.Clone(claimed.nodes)
}

// nodesIn are the nodes of a directory and of those two levels below it.
func nodesIn(dir string) []string {
	var nodes []string
	for _, below := range []string{"", "/*", "/*/*"} {
		for _, data := range globAll(dir + below) {
			nodes = append(nodes, NodeName(data))
		}
	}
	return nodes
}

// OwnGroups returns a function that reports whether a control group, by its path,
// is this process's: one of a node that it has now, or with its mark.
func OwnGroups() func(path string) bool {
	nodes := ownNodes()
	return func(path string) bool {
		return Own(path) || slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return nodes[name] })
	}
}

// groupRoots are the control groups, in every hierarchy, that match a pattern.
func groupRoots(pattern string) []string {
	return slices.Concat(globAll(filepath.Join("/sys/fs/cgroup", pattern)), globAll(filepath.Join("/sys/fs/cgroup/*", pattern)))
}

// groupTree are the control groups, in every hierarchy, that match a pattern
// below its root, and all below them.
func groupTree(pattern string) []string {
	var dirs []string
	for _, top := range groupRoots(pattern) {
		dirs = append(dirs, treeBelow(top)...)
	}
	return dirs
}

// treeBelow are a directory and the directories below it, those that go away
// during the walk not counted.
func treeBelow(top string) []string {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil //nolint:nilerr // it goes away while it is read
	})
	if err != nil {
		panic(err) // the walk above returns none
	}
	return dirs
}
