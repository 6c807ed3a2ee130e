package sandkasten

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// leftOut reads which operations need not be called from Go, and why: what the
// three SDKs have in common is written down once.
func leftOut(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../contract/operations.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		LeftOut []struct {
			Operations, SDKs []string
			Why              string
		} `json:"left_out"`
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, row := range table.LeftOut {
		for _, operation := range row.Operations {
			if slices.Contains(row.SDKs, "go") {
				out[operation] = row.Why
			}
		}
	}
	return out
}

// TestEveryOperationIsCalled compares what the SDK asks for with openapi.json, so that
// what is new there is not forgotten here.
func TestEveryOperationIsCalled(t *testing.T) {
	source, err := os.ReadFile("../../internal/api/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(source, &document); err != nil {
		t.Fatal(err)
	}
	c, d := start(t) // refuses everything
	callEverything(t, c)
	called := map[string]bool{}
	for _, r := range d.seen() {
		path, _, _ := strings.Cut(r.target, "?")
		called[r.method+" "+path] = true
	}
	left := leftOut(t)
	variable := regexp.MustCompile(`\{\w+\}`)
	for path, methods := range document.Paths {
		for method, operation := range methods {
			asked := strings.ToUpper(method) + " " + variable.ReplaceAllString(path, "x")
			switch why := left[operation.OperationID]; {
			case !called[asked] && why == "":
				t.Errorf("nothing calls %s: teach it the SDK, or say in sdk/contract/operations.json why not", operation.OperationID)
			case called[asked] && why != "":
				t.Errorf("%s is called, and sdk/contract/operations.json says that it is not", operation.OperationID)
			}
			delete(called, asked)
		}
	}
	for _, asked := range slices.Sorted(maps.Keys(called)) {
		t.Errorf("the API has no %s", asked)
	}
}

// callEverything calls what has an endpoint, whatever comes of it. All names are x.
func callEverything(t *testing.T, c *Client) {
	ctx := t.Context()
	empty := func() io.Reader { return strings.NewReader("") }
	c.Info(ctx)
	c.PoolStatus(ctx)
	c.HostHistory(ctx, nil)
	c.HostFindings(ctx)
	c.CreateSession(ctx, nil)
	c.ListSessions(ctx, nil)
	c.CompleteScope(ctx, "x:x", nil)
	c.ChangeSessions(ctx, BulkStop, "x")
	c.ListAudit(ctx, nil)
	c.GetSession(ctx, "x")
	c.CreateWorkspace(ctx, nil)
	c.ListWorkspaces(ctx)
	c.GetWorkspace(ctx, "x")
	c.DeleteWorkspace(ctx, "x", nil)
	c.Me(ctx)
	c.MyUsage(ctx, "")
	c.UserUsage(ctx, "x", "")
	c.AllUsage(ctx, "")
	c.UsageDays(ctx, nil)
	c.ListInspections(ctx)
	c.CreateUser(ctx, "x", nil)
	c.ListUsers(ctx)
	c.GetUser(ctx, "x")
	c.UpdateUser(ctx, "x", nil)
	c.DeleteUser(ctx, "x")
	c.CreateKey(ctx, nil)
	c.ListKeys(ctx, "x")
	c.RevokeKey(ctx, "x")
	c.SetSecret(ctx, "x", nil)
	c.GetSecret(ctx, "x")
	c.ListSecrets(ctx)
	c.DeleteSecret(ctx, "x")
	c.ListSnapshots(ctx, nil)
	c.GetSnapshot(ctx, "x")
	c.DeleteSnapshot(ctx, "x")
	c.DownloadSnapshot(ctx, "x")
	c.UploadSnapshot(ctx, empty(), nil)
	c.ListImages(ctx)
	c.GetImage(ctx, "x")
	c.DeleteImage(ctx, "x")
	c.PullImage(ctx, "x", nil)
	c.BuildImage(ctx, "x", nil)
	c.CommitImage(ctx, "x", nil)
	c.ImportImage(ctx, "x", empty(), nil)
	c.ListImageJobs(ctx)
	c.GetImageJob(ctx, "x")
	c.CancelImageJob(ctx, "x")
	c.WaitImageJob(ctx, "x", nil)

	s := c.Session("x")
	s.Update(ctx, nil)
	s.Destroy(ctx)
	s.Stats(ctx)
	s.StatsHistory(ctx, nil)
	s.Heartbeat(ctx)
	s.Network(ctx)
	s.SetNetwork(ctx, NetworkPolicy{})
	s.AllowNetwork(ctx, "x")
	s.NetworkLog(ctx, 0, 0)
	for range c.Events(ctx, EventOptions{}) {
		continue
	}
	for range s.FollowNetworkLog(ctx, 0) {
		continue
	}
	s.Pause(ctx, nil)
	s.Resume(ctx)
	s.Stop(ctx)
	s.Start(ctx)
	s.Fork(ctx, 1, nil)
	s.Snapshot(ctx, nil)
	s.Exec(ctx, "true", nil)
	s.ExecStream("true", nil).Copy(ctx, io.Discard, io.Discard)
	s.Attach("x", nil).Copy(ctx, io.Discard, io.Discard)
	s.ListExecs(ctx)
	s.ListShells(ctx)
	s.CloseShell(ctx, "x")
	s.RunProcess(ctx, []string{"true"}, nil)
	s.StreamProcess([]string{"true"}, nil).Copy(ctx, io.Discard, io.Discard)
	s.ListProcesses(ctx)
	s.OpenTerminal(ctx, nil)
	s.ListPorts(ctx)
	s.DialPort(ctx, 1)
	s.CreatePreview(ctx, 1, nil)
	for range s.Watch(ctx, "x", nil) {
		continue
	}

	s.RunCode(ctx, "1", nil)
	s.RunCode(ctx, "1", &RunCodeOptions{OnStdout: func(string) {}})
	s.CreateContext(ctx, "python", nil)
	s.ListContexts(ctx)
	context := s.Context("x")
	context.Refresh(ctx)
	context.Run(ctx, "1", nil)
	context.Run(ctx, "1", &RunCodeOptions{OnStdout: func(string) {}})
	context.GetRun(ctx, "x", 0)
	context.FollowRun(ctx, "x", nil)
	context.Interrupt(ctx)
	context.Restart(ctx)
	context.Delete(ctx)

	p := s.Process("x")
	p.Get(ctx, nil)
	p.Output(ctx, nil)
	p.WriteStdin(ctx, strings.NewReader("x"))
	p.Signal(ctx, "TERM")
	p.Resize(ctx, 1, 1)
	p.Kill(ctx)

	for _, f := range []*Files{&s.Files, &c.Workspace("x").Files} {
		f.Read(ctx, "x", nil)
		f.Write(ctx, "x", empty(), nil)
		for range f.List(ctx, "x", nil) {
			continue
		}
		f.Stat(ctx, "x", nil)
		f.Edit(ctx, "x", "a", "b", nil)
		f.MakeDir(ctx, "x", nil)
		f.Move(ctx, "x", "y", nil)
		f.Copy(ctx, "x", "y", nil)
		f.Remove(ctx, "x", nil)
		f.Chmod(ctx, "x", 0o644, nil)
		f.Glob(ctx, "x", nil)
		f.Grep(ctx, "x", nil)
		f.UploadFiles(ctx, "x", NewFile{Name: "x", Content: empty()})
		f.UploadArchive(ctx, "x", empty(), nil)
		f.DownloadArchive(ctx, "x", "")
	}
}
