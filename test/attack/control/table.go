package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/protection"
)

// row is one run of the control: what is off, and the cases that have to
// notice it. A case that one protection less does not hurt, because another
// stands behind it, is in a row with both, and may be in one as holding, which
// shows the other at work.
type row struct {
	off   []protection.Protection
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

func off(all ...protection.Protection) []protection.Protection { return all }

// rows are the whole control, in the order in which they run.
var rows = []row{
	{off(protection.Seccomp), "L01 K02 K03 K05 K06 K07 K08 K09 K11 K14 K16 K17 K25", true, "L03"},
	{off(protection.Seccomp, protection.Capabilities), "K04 K10 K12 K13", false, "K26"},
	{off(protection.Seccomp, protection.Landlock), "", false, "K26"},
	{off(protection.Capabilities, protection.Landlock), "", false, "K26"},
	{off(protection.Seccomp, protection.Capabilities, protection.Landlock), "K01 K26 P05", true, ""},
	{off(protection.NoNewPrivs, protection.Seccomp, protection.Capabilities), "K15", true, ""},
	{off(protection.Capabilities), "K16", true, ""},
	{off(protection.CoreLimit), "K21", false, ""},
	{off(protection.NetworkNS), "K19 P12 W01 W10 W12 W13 R12 C04", true, ""},
	{off(protection.IPCNS), "K18 K19", false, ""},
	{off(protection.CgroupNS), "K19 P05 P12", false, ""},
	{off(protection.CloseOnExec), "P08", true, ""},
	{off(protection.MaskedPaths), "P01 P02 P03 P14 P15", true, ""},
	{off(protection.Hidepid), "P06", true, ""},
	{off(protection.Devices), "P04", false, ""},
	{off(protection.OwnInodes), "P13", true, ""},
	{off(protection.RunnerID), "N02", true, ""},
	{off(protection.RunnerID, protection.Landlock), "N01", true, ""},
	{off(protection.RunnerID, protection.Landlock, protection.RunnerSignals), "N01", false, ""},
	{off(protection.RunnerID, protection.Hidepid, protection.ProgramMode), "P06", false, ""},
	{off(protection.Seccomp, protection.ProgramMode), "L03", false, ""},
	{off(protection.EnvironmentWall), "P12 C01", false, ""},
	{off(protection.MemoryLimit), "R02 R11 R20", true, ""},
	{off(protection.SocketMemory), "R18", false, ""},
	{off(protection.Backlog), "R18", false, ""},
	{off(protection.NetlinkSockets), "R19", false, ""},
	{off(protection.PidsLimit), "R01", true, ""},
	{off(protection.FileTable), "L02 R16", true, ""},
	{off(protection.DiskLimit), "R03 R04 R14", true, ""},
	{off(protection.DiskLimit, protection.InodeLimit), "R05", false, ""},
	{off(protection.MemoryLimit, protection.MemoryFiles), "R03", false, ""},
	{off(protection.OutputBound), "R06", true, ""},
	{off(protection.KillTree), "E01", true, ""},
	{off(protection.KillHard), "E02 E04", true, ""},
	{off(protection.KillHard, protection.KillResume), "E03 E05", false, ""},
	{off(protection.ShellRestart), "S03 S04 S05 S09 S10 S11 S15 S16 S17 K20", true, ""},
	{off(protection.ShellQuoting), "S07", true, ""},
	{off(protection.ShellStatus), "S01", false, ""},
	{off(protection.ShellStdin), "S13", false, ""},
	{off(protection.FilePaths), "H01", true, ""},
	{off(protection.SpecialFiles), "H04", true, ""},
	{off(protection.ArchiveNames, protection.ArchivePaths), "T01 T11", true, ""},
	{off(protection.ArchivePaths), "T02 T11", true, ""},
	{off(protection.ArchiveLinks), "T03 T11", false, ""},
	{off(protection.ArchiveModes), "T04", false, ""},
	{off(protection.ArchiveBound), "T05", false, ""},
	{off(protection.SnapshotBound), "T06", false, ""},
	{off(protection.Keys), "A01", true, ""},
	{off(protection.CleanPaths), "A11", false, ""},
	{off(protection.Owner), "A02 A20", true, ""},
	{off(protection.RequestSchema), "A05 A12 A15", false, ""},
	{off(protection.RequestSchema, protection.RequestSizes), "R13", false, ""},
	{off(protection.Names), "A03", false, ""},
	{off(protection.SameRequest), "A12", false, ""},
	{off(protection.HostHeader), "A08", false, ""},
	{off(protection.Origin), "A08 A22", true, ""},
	{off(protection.SignInWait), "A16", true, ""},
	{off(protection.SignInEnd), "A17", true, ""},
	{off(protection.CookieRoutes), "A17 A24", false, ""},
	{off(protection.OwnPassword), "A25", true, ""},
	{off(protection.PreviewEnd), "A25", false, ""},
	{off(protection.StreamEnd), "A28", true, ""},
	{off(protection.Inspect), "A27", false, ""},
	{off(protection.HeaderCount), "A26", false, ""},
	{off(protection.CookieFlags), "A24", false, ""},
	{off(protection.CSRFToken), "A18 A22", true, ""},
	{off(protection.Frames), "A23", true, ""},
	{off(protection.LogSecrets), "C05", false, ""},
	{off(protection.StrictJSON), "A04", true, ""},
	{off(protection.BodyLimit), "A06", false, ""},
	{off(protection.HeaderTime), "A07", false, ""},
	{off(protection.AddressRanges), "W02 W06", true, ""},
	{off(protection.OwnAddresses), "W04 W11", true, ""},
	{off(protection.ListedNames), "W03 W05 W07", true, ""},
	{off(protection.PublicAnswers), "W06", false, ""},
	{off(protection.ServerNames), "W08 W19", true, ""},
	{off(protection.RequestHosts), "W08", true, ""},
	{off(protection.MaxConnections), "W09", false, ""},
	{off(protection.OwnerShare), "W18", false, ""},
	{off(protection.WebRequests), "W20", false, ""},
	{off(protection.CutOnChange), "W12", true, ""},
	{off(protection.SecretMask), "W17", true, ""},
	{off(protection.Credentials), "W14 A24", true, ""},
	{off(protection.ForeignReply), "W15 A24", false, ""},
	{off(protection.AllowList), "I01 I02", true, ""},
	{off(protection.AnswerHeader), "W16", false, ""},
	{off(protection.CPULimit), "R10", false, ""},
	{off(protection.Terminals), "R08", false, ""},
	{off(protection.NoSuid), "H11", true, ""},
	{off(protection.NoSuid, protection.NoNewPrivs, protection.Seccomp, protection.Capabilities), "H15", false, ""},
	{off(protection.Reaping), "R09", true, ""},
	{off(protection.SignalCodes), "E07", false, ""},
	{off(protection.ShellOutput), "S14", false, ""},
	{off(protection.CommandText), "S12", false, ""},
	{off(protection.SandboxGone), "E06", false, ""},
	{off(protection.PackBound), "H05", false, ""},
	{off(protection.AtomicWrites), "H12", true, ""},
	{off(protection.ListingBound), "H07", false, ""},
	{off(protection.FileLength), "H06", false, ""},
	{off(protection.SaveAs), "H14", true, ""},
	{off(protection.NoSniff), "A10 H14", false, ""},
	{off(protection.TerminalText), "A10", true, ""},
	{off(protection.EventLines), "A09", true, ""},
	{off(protection.RawOutput), "S08", false, ""},
	{off(protection.LogFields), "R15", true, ""},
	{off(protection.AuditSample), "R17", true, ""},
	{off(protection.LogFields, protection.LogQuotes), "A14 N06", false, ""},
	{off(protection.StoreErrors), "C03", false, ""},
	{off(protection.RunnerRecords), "N03", false, ""},
	{off(protection.RunnerFiles, protection.FileLength), "N07", false, ""},
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
