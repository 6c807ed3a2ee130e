// Package doctor looks at a host and says what stands in Sandkasten's way and
// how to mend it. A check is a small function over a Host, which says where
// to look, so that tests bring hosts of their own. What only a driver can try
// (a mount, a clone) is that driver's Check.
package doctor

import (
	"cmp"
	"slices"
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
}

// A check looks at one thing. It gives back what it found; its name is in
// the table.
type check struct {
	name string
	look func(h Host) Finding
}

// checks is everything that is looked at, in the order in which a person
// would mend it.
var checks = []check{
	{"root", root},
	{"kernel", kernel},
	{"namespaces", namespaces},
	{"user namespaces", userNamespaces},
	{"number of namespaces", namespaceCounts},
	{"cgroups", cgroups},
	{"overlayfs", overlayfs},
	{"seccomp", seccomp},
	{"landlock", landlock},
	{"disk limits", diskLimits},
	{"data directory", dataDir},
	{"free space", freeSpace},
	{"memory", memory},
	{"open files", openFiles},
	{"open files of all", openFilesOfAll},
	{"processes", processes},
	{"threads", threads},
	{"terminals", terminals},
	{"user ids", userIDs},
	{"core dumps", coreDumps},
	{"tty injection", ttyInjection},
	{"io_uring", ioUring},
	{"links in /tmp", protectedLinks},
	{"swap", swap},
	{"memory merging", memoryMerging},
	{"hyper-threads", hyperThreads},
	{"clock", clock},
	{"image build", imageBuild},
	{"memory to disk", memoryToDisk},
}

// Examine runs every check on h.
func Examine(h Host) []Finding {
	findings := make([]Finding, 0, len(checks))
	for _, c := range checks {
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
