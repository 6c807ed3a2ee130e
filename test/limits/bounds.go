package limits

import (
	"fmt"
	"strings"
)

// Bound is something that all owners share, and what keeps one of them from taking it.
// TestTwoOwners takes all that one owner can get of it, and looks at another's calls.
type Bound struct {
	What     string   // what is shared
	PerOwner string   // of one owner, or one session; "" where its total is by session
	Total    string   // of all together
	Keys     []string // of the configuration; nil is a constant
	Tests    []string // package.Name of those that reach the bound
}

// Bounds are all of them, in the order of docs/limits.md, which is written from it.
var Bounds = []Bound{
	{
		What: "processor time of programs", PerOwner: "a session's cores; who uses most goes behind the others", Total: "the host's, shared",
		Keys: []string{"defaults.cpu_limit", "quota.cpu"}, Tests: []string{"test/limits.TestFiveBullies"},
	},
	{
		What: "processes", PerOwner: "a session's, times its sessions", Total: "the host's, less a reserve",
		Keys: []string{"defaults.pids_limit", "admission.pids_reserve"}, Tests: []string{"test/attack.TestR01_ForkBombs", "internal/admission.TestAdmit"},
	},
	{
		What: "memory of programs", PerOwner: "a session's; of all its sessions by quota", Total: "the host's, less a reserve",
		Keys: []string{"defaults.mem_limit_mb", "quota.memory_mb", "admission.memory_reserve_mb"}, Tests: []string{"test/attack.TestR02_Memory", "internal/admission.TestAdmit"},
	},
	{
		What: "disk space", PerOwner: "a session's; of all that it owns by quota", Total: "the host's, less a reserve",
		Keys: []string{"defaults.disk_limit_mb", "quota.disk_mb", "admission.disk_reserve_mb"}, Tests: []string{"test/attack.TestR04_DiskBytes", "test/fault.TestF10_OvercommittedDisks"},
	},
	{
		What: "sessions, with their user ids, loop devices, namespaces and runners", PerOwner: "sessions of one key or user", Total: "sessions",
		Keys: []string{"max_sessions_per_key", "max_sessions"}, Tests: []string{"internal/session.TestMaxSessionsOfOneOwner", "internal/session.TestMaxSessions"},
	},
	{
		What: "creates under way, forks and starts", PerOwner: "half of the total; as many at work as there are processors", Total: "128 for each processor, 256 at least; one more at work than there are processors",
		Tests: []string{"internal/admission.TestTurns", "internal/admission.TestTurnsLetAForkThrough", "internal/runtime/linux.TestBootsTakeTurns"},
	},
	{
		What: "rows of sessions that have ended", PerOwner: "10,000, and what it ends in ten minutes; listed in its turn", Total: "the sum of owners",
		Tests: []string{"internal/store.TestPruneKeepsSoManyOfAnOwner", "internal/store.TestListPagesEnded", "internal/api.TestOwnersTakeTurns"},
	},
	{
		What: "snapshots", PerOwner: "a number, and bytes", Total: "the host's disk, less a reserve",
		Keys: []string{"snapshots.max_count", "snapshots.max_total_mb"}, Tests: []string{"internal/api/v1.TestSnapshots"},
	},
	{
		What: "workspaces", PerOwner: "half of the total while others have none, and a quota", Total: "a number, and the host's disk",
		Keys: []string{"workspace.max_count"}, Tests: []string{"internal/session/quota.TestOwnersShareWorkspaces"},
	},
	{
		What: "stored secrets", PerOwner: "1000 of 16 KiB", Total: "the sum of owners", Tests: []string{"internal/session/secrets.TestMostSecrets"},
	},
	{
		What: "requests under way, their goroutines and connections", PerOwner: "a number for each class of request", Total: "a number for each class",
		Keys:  []string{"requests.max_concurrent_per_key", "requests.max_waiting_per_key", "requests.max_transfers_per_key", "requests.max_concurrent", "requests.max_waiting", "requests.max_transfers"},
		Tests: []string{"internal/api.TestConcurrentRequests", "test/limits.TestRequestsUnderWay"},
	},
	{
		What: "requests in a time, and their lines in the log and the audit log", PerOwner: "a rate; 50 refusals in a second, and 100 at once; lines are written in turns", Total: "files of a size, the oldest of which go",
		Keys: []string{"rate_limit.requests_per_second", "audit.max_file_mb", "audit.max_files"}, Tests: []string{"internal/api.TestRate", "internal/api.TestRefusalsArePaced", "internal/audit.TestOwnersWriteInTurns"},
	},
	{
		What: "memory while bodies are read", PerOwner: "32 MiB", Total: "64 MiB", Tests: []string{"internal/api/kit.TestBodiesAreBounded"},
	},
	{
		What: "memory of commands under way", PerOwner: "64 MiB", Total: "the sum of owners", Tests: []string{"internal/api/kit.TestHeldBodiesAreBounded", "test/attack.TestA06_HeldCommands"},
	},
	{
		What: "memory while headers are read", PerOwner: "4 MiB of an address", Total: "32 MiB", Tests: []string{"internal/headers.TestUnfinishedHeadersShareRoom", "test/attack.TestA26_ManyHeaders"},
	},
	{
		What: "connections of clients", PerOwner: "those of its requests; half of the total from one address, where idle ones go first", Total: "a number, and a reserve of descriptors",
		Keys: []string{"requests.max_connections"}, Tests: []string{"internal/api.TestConnections", "internal/api.TestConnectionsOfOneAddress", "internal/api.TestConnectionsLeaveDescriptors"},
	},
	{
		What: "connections of programs to the outside, and their descriptors", PerOwner: "half of the total, and a rate of each session", Total: "a quarter of the process's descriptors",
		Keys: []string{"network.max_connections_per_owner"}, Tests: []string{"internal/network/relay.TestBudget", "test/attack.TestW18_ConnectionsOfOneOwner"},
	},
	{
		What: "connections to ports of sessions", PerOwner: "128 of a session, and its requests", Total: "as of requests that wait", Tests: []string{"internal/runner.TestDialLimit"},
	},
	{
		What: "places in the queue of a shell; shells, programs and terminals", PerOwner: "64; 64, 128 and 32 of a session", Total: "the sum of sessions", Tests: []string{"test/limits.TestLimits"},
	},
	{
		What: "output that is kept", PerOwner: "1 MiB of a command, in its sandbox's own memory", Total: "the sum of sessions",
		Keys: []string{"exec.output_limit_bytes"}, Tests: []string{"test/limits.TestLimits"},
	},
	{
		What: "the daemon's processor time for large bodies, searches and lists", PerOwner: "all processors but one; its next turn comes behind one of each other owner", Total: "as many turns at once as there are processors",
		Tests: []string{"internal/api.TestOwnersTakeTurns", "internal/api/v1.TestListsTakeTurns", "internal/api/kit.TestLargeBodiesTakeTurns", "internal/admission/fairqueue.TestOwnersTakeTurns"},
	},
	{
		What: "artifacts", PerOwner: "100,000, and bytes", Total: "the host's disk, less a reserve",
		Keys: []string{"orchestrator.artifact_quota_mb"}, Tests: []string{"internal/orchestrator/artifacts.TestQuota"},
	},
	{
		What: "complete scopes that wait for their end", PerOwner: "1000", Total: "the sum of owners", Tests: []string{"internal/scope.TestMostPending"},
	},
	{
		What: "snapshots on their way", PerOwner: "all places but one at once, and 16 that wait", Total: "4 at once", Tests: []string{"internal/session/snapshots.TestSlots", "internal/session/snapshots.TestSlotsWaiting"},
	},
	{
		What: "passwords that are checked", PerOwner: "the next of a name waits after failures", Total: "2 at once, and 64 with those that wait",
		Tests: []string{"internal/accounts.TestQueueOfPasswordsHasAnEnd", "test/attack.TestA16_GuessingPasswords"},
	},
	{
		What: "events", PerOwner: "streams are requests that wait", Total: "4096 and 8 MiB that can be resumed", Tests: []string{"internal/events.TestTheBacklogIsBoundedInBytes"},
	},
	{
		What: "contexts and their runs", PerOwner: "processes of a session, in its own memory", Total: "the sum of sessions", Tests: []string{"internal/contexts.TestOutputIsBounded"},
	},
	{
		What: "the daemon's processor time for names and connections of programs", PerOwner: "a rate of queries and of new connections of each session", Total: "the sum of sessions",
		Tests: []string{"internal/network/relay.TestPolicyLimitsConnections", "test/attack.TestW09_Floods"},
	},
}

// Marks around the table in docs/limits.md.
const (
	tableBegin = "<!-- written by `go test ./test/limits -run TestBoundsAreDocumented -update` -->\n"
	tableEnd   = "<!-- end -->\n"
)

// table is Bounds for docs/limits.md.
func table() string {
	var out strings.Builder
	fmt.Fprintln(&out, "\n| what is shared | of one owner | in all | key | test |\n| --- | --- | --- | --- | --- |")
	for _, b := range Bounds {
		keys := "constant"
		if len(b.Keys) > 0 {
			keys = code(b.Keys)
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", b.What, b.PerOwner, b.Total, keys, code(b.Tests))
	}
	return out.String() + "\n"
}

func code(words []string) string { return "`" + strings.Join(words, "`, `") + "`" }
