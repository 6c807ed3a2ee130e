package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/weaken"
)

// row is one run of the control: what is off, and the cases that have to
// notice it. A case that one protection less does not hurt, because another
// stands behind it, is in a row with both, and may be in one as holding, which
// shows the other at work.
type row struct {
	off   []weaken.Protection
	cases string // ids, separated by spaces
	quick bool   // of -quick, which is for every change to a protection
	holds string // the cases that must not notice, as cases
}

func (r row) name() string {
	var names []string
	for _, p := range r.off {
		names = append(names, string(p))
	}
	return strings.Join(names, "+")
}

func (r row) ids() []string { return strings.Fields(r.cases) }

func (r row) holding() []string { return strings.Fields(r.holds) }

func off(all ...weaken.Protection) []weaken.Protection { return all }

// rows are the whole control, in the order in which they run.
var rows = []row{
	{off(weaken.Seccomp), "L01 K02 K03 K05 K06 K07 K08 K09 K11 K14 K16 K17 K25", true, "L03"},
	{off(weaken.Seccomp, weaken.Capabilities), "K04 K10 K12 K13", false, "K26"},
	{off(weaken.Seccomp, weaken.Landlock), "", false, "K26"},
	{off(weaken.Capabilities, weaken.Landlock), "", false, "K26"},
	{off(weaken.Seccomp, weaken.Capabilities, weaken.Landlock), "K01 K26 P05", true, ""},
	{off(weaken.NoNewPrivs, weaken.Seccomp, weaken.Capabilities), "K15", true, ""},
	{off(weaken.Capabilities), "K16", true, ""},
	{off(weaken.CoreLimit), "K21", false, ""},
	{off(weaken.NetworkNS), "K19 P12 W01 W10 W12 W13 R12 C04", true, ""},
	{off(weaken.IPCNS), "K18 K19", false, ""},
	{off(weaken.CgroupNS), "K19 P05 P12", false, ""},
	{off(weaken.CloseOnExec), "P08", true, ""},
	{off(weaken.MaskedPaths), "P01 P02 P03 P14 P15", true, ""},
	{off(weaken.Hidepid), "P06", true, ""},
	{off(weaken.Devices), "P04", false, ""},
	{off(weaken.OwnInodes), "P13", true, ""},
	{off(weaken.RunnerID), "N02", true, ""},
	{off(weaken.RunnerID, weaken.Landlock), "N01", true, ""},
	{off(weaken.RunnerID, weaken.Landlock, weaken.RunnerSignals), "N01", false, ""},
	{off(weaken.RunnerID, weaken.Hidepid, weaken.ProgramMode), "P06", false, ""},
	{off(weaken.Seccomp, weaken.ProgramMode), "L03", false, ""},
	{off(weaken.EnvironmentWall), "P12 C01", false, ""},
	{off(weaken.MemoryLimit), "R02 R11 R20", true, ""},
	{off(weaken.SocketMemory), "R18", false, ""},
	{off(weaken.Backlog), "R18", false, ""},
	{off(weaken.NetlinkSockets), "R19", false, ""},
	{off(weaken.PidsLimit), "R01", true, ""},
	{off(weaken.FileTable), "L02 R16", true, ""},
	{off(weaken.DiskLimit), "R03 R04 R14", true, ""},
	{off(weaken.DiskLimit, weaken.InodeLimit), "R05", false, ""},
	{off(weaken.MemoryLimit, weaken.MemoryFiles), "R03", false, ""},
	{off(weaken.OutputBound), "R06", true, ""},
	{off(weaken.KillTree), "E01", true, ""},
	{off(weaken.KillHard), "E02 E04", true, ""},
	{off(weaken.KillHard, weaken.KillResume), "E03 E05", false, ""},
	{off(weaken.ShellRestart), "S03 S04 S05 S09 S10 S11 S15 S16 S17 K20", true, ""},
	{off(weaken.ShellQuoting), "S07", true, ""},
	{off(weaken.ShellStatus), "S01", false, ""},
	{off(weaken.ShellStdin), "S13", false, ""},
	{off(weaken.FilePaths), "H01", true, ""},
	{off(weaken.SpecialFiles), "H04", true, ""},
	{off(weaken.ArchiveNames, weaken.ArchivePaths), "T01 T11", true, ""},
	{off(weaken.ArchivePaths), "T02 T11", true, ""},
	{off(weaken.ArchiveLinks), "T03 T11", false, ""},
	{off(weaken.ArchiveModes), "T04", false, ""},
	{off(weaken.ArchiveBound), "T05", false, ""},
	{off(weaken.SnapshotBound), "T06", false, ""},
	{off(weaken.Keys), "A01", true, ""},
	{off(weaken.CleanPaths), "A11", false, ""},
	{off(weaken.Owner), "A02", true, ""},
	{off(weaken.RequestSchema), "A05 A12 A15", false, ""},
	{off(weaken.RequestSchema, weaken.RequestSizes), "R13", false, ""},
	{off(weaken.Names), "A03", false, ""},
	{off(weaken.SameRequest), "A12", false, ""},
	{off(weaken.HostHeader), "A08", false, ""},
	{off(weaken.Origin), "A08", true, ""},
	{off(weaken.StrictJSON), "A04", true, ""},
	{off(weaken.BodyLimit), "A06", false, ""},
	{off(weaken.HeaderTime), "A07", false, ""},
	{off(weaken.Credentials), "W14", true, ""},
	{off(weaken.ForeignReply), "W15", false, ""},
	{off(weaken.AllowList), "I01 I02", true, ""},
	{off(weaken.AnswerHeader), "W16", false, ""},
	{off(weaken.CPULimit), "R10", false, ""},
	{off(weaken.Terminals), "R08", false, ""},
	{off(weaken.NoSuid), "H11", true, ""},
	{off(weaken.Reaping), "R09", true, ""},
	{off(weaken.SignalCodes), "E07", false, ""},
	{off(weaken.ShellOutput), "S14", false, ""},
	{off(weaken.CommandText), "S12", false, ""},
	{off(weaken.SandboxGone), "E06", false, ""},
	{off(weaken.PackBound), "H05", false, ""},
	{off(weaken.AtomicWrites), "H12", true, ""},
	{off(weaken.ListingBound), "H07", false, ""},
	{off(weaken.FileLength), "H06", false, ""},
	{off(weaken.SaveAs), "H14", true, ""},
	{off(weaken.NoSniff), "A10 H14", false, ""},
	{off(weaken.TerminalText), "A10", true, ""},
	{off(weaken.EventLines), "A09", true, ""},
	{off(weaken.RawOutput), "S08", false, ""},
	{off(weaken.LogFields), "R15", true, ""},
	{off(weaken.AuditSample), "R17", true, ""},
	{off(weaken.LogFields, weaken.LogQuotes), "A14 N06", false, ""},
	{off(weaken.StoreErrors), "C03", false, ""},
	{off(weaken.RunnerRecords), "N03", false, ""},
	{off(weaken.RunnerFiles, weaken.FileLength), "N07", false, ""},
}

// selected are the rows whose names are given, all without any.
func selected(names []string, quick bool, share share) []row {
	n := -1
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool {
		n++
		return quick && !r.quick || len(names) > 0 && !slices.Contains(names, r.name()) || !share.has(n)
	})
}

// share is one of so many equal parts of the rows. The zero value is all.
type share struct{ part, of int }

func (s share) has(n int) bool { return s.of == 0 || n%s.of == s.part-1 }

// parse reads a share as 1/3.
func (s *share) parse(text string) error {
	_, err := fmt.Sscanf(text, "%d/%d", &s.part, &s.of)
	if err != nil || s.part < 1 || s.part > s.of {
		return fmt.Errorf("want a part and how many there are, as 1/3")
	}
	return nil
}
