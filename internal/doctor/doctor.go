// Package doctor looks at a host and says what stands in Sandkasten's way and
// how to mend it. A check is a small function over a Host, which says where
// to look, so that tests bring hosts of their own. What only a driver can try
// (a mount, a clone) is that driver's Check.
package doctor

import (
	"cmp"
	"slices"
	"strings"
)

// Status grades a finding.
type Status string

// The grades. A daemon does not start on a host with a Fail.
const (
	OK   Status = "ok"
	Warn Status = "warn" // works, but weaker or slower than it could
	Fail Status = "fail"
)

// Finding is what one check saw.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Mend   string `json:"mend,omitempty"` // what to do; empty when nothing has to be done

	// Command does it, on the host, for as long as the host runs: what has to be done
	// for good is in Mend. It is empty where no command does.
	Command string `json:"command,omitempty"`

	// Creates says that a Fail hinders only what makes more: a daemon starts all
	// the same, since removing things through it may be what mends it.
	Creates bool `json:"-"`
}

// A check looks at one thing. It gives back what it found; its name is in
// the table.
type check struct {
	name   string
	look   func(h Host) Finding
	native bool // of no matter where an engine makes the sandboxes
}

// checks is everything that is looked at, in the order in which a person
// would mend it.
var checks = []check{
	{name: "root", look: root},
	{name: "kernel", look: kernel},
	{name: "namespaces", look: namespaces, native: true},
	{name: "user namespaces", look: userNamespaces, native: true},
	{name: "number of namespaces", look: namespaceCounts, native: true},
	{name: "cgroups", look: cgroups, native: true},
	{name: "kernel memory", look: kernelMemory, native: true},
	{name: "overlayfs", look: overlayfs, native: true},
	{name: "seccomp", look: seccomp, native: true},
	{name: "landlock", look: landlock, native: true},
	{name: "disk limits", look: diskLimits, native: true},
	{name: "forks", look: forks, native: true},
	{name: "data directory", look: dataDir},
	{name: "file system", look: fileSystem},
	{name: "free space", look: freeSpace},
	{name: "memory", look: memory},
	{name: "open files", look: openFiles},
	{name: "open files of all", look: openFilesOfAll},
	{name: "processes", look: processes},
	{name: "threads", look: threads, native: true},
	{name: "terminals", look: terminals},
	{name: "user ids", look: userIDs, native: true},
	{name: "core dumps", look: coreDumps},
	{name: "tty injection", look: ttyInjection},
	{name: "io_uring", look: ioUring},
	{name: "links in /tmp", look: protectedLinks},
	{name: "swap", look: swap},
	{name: "memory merging", look: memoryMerging},
	{name: "hyper-threads", look: hyperThreads},
	{name: "clock", look: clock},
	{name: "image build", look: imageBuild},
	{name: "memory to disk", look: memoryToDisk},
}

// Examine runs every check on h.
func Examine(h Host) []Finding {
	findings := make([]Finding, 0, len(checks))
	for _, c := range checks {
		if c.native && h.Engine {
			continue
		}
		f := c.look(h)
		f.Check = c.name
		findings = append(findings, f)
	}
	return findings
}

// Worst is the gravest status among findings, and OK for none.
func Worst(findings []Finding) Status {
	grave := func(f Finding) int { return slices.Index([]Status{OK, Warn, Fail}, f.Status) }
	if len(findings) == 0 {
		return OK
	}
	return slices.MaxFunc(findings, func(a, b Finding) int { return cmp.Compare(grave(a), grave(b)) }).Status
}

func fine(found string) Finding { return Finding{Status: OK, Found: found} }

func warn(found, mend string) Finding { return Finding{Status: Warn, Found: found, Mend: mend} }

func fail(found, mend string) Finding { return Finding{Status: Fail, Found: found, Mend: mend} }

// by gives a finding the command that mends it.
func (f Finding) by(command string) Finding {
	f.Command = command
	return f
}

// quote makes one word for a shell of a path.
func quote(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
