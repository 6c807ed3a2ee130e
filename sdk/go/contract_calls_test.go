package sandkasten_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// call is one step of a case with what it is about.
type call struct {
	run     *run
	args    map[string]any
	client  *sandkasten.Client
	session *sandkasten.Session
	process *sandkasten.Process
}

// options makes options of the arguments, by the API's names; durations, which
// those do not have, are for the caller.
func options[T any](c call) *T {
	text, err := json.Marshal(c.args)
	if err != nil {
		c.run.t.Fatal(err)
	}
	var o T
	if err := json.Unmarshal(text, &o); err != nil {
		c.run.t.Fatal(err)
	}
	return &o
}

func (c call) text(name string) string { s, _ := c.args[name].(string); return s }
func (c call) number(name string) int  { n, _ := c.args[name].(float64); return int(n) }
func (c call) flag(name string) bool   { b, _ := c.args[name].(bool); return b }

// duration is an argument in units. In Go a zero is not given; of what is wrong
// with it, a negative one is the nearest.
func (c call) duration(name string, unit time.Duration) time.Duration {
	n, given := c.args[name].(float64)
	if given && n == 0 {
		n = -1
	}
	return time.Duration(n) * unit
}

func (c call) update() sandkasten.UpdateOptions {
	o := options[sandkasten.UpdateOptions](c)
	o.TTL, o.Lifetime = c.duration("ttl_seconds", time.Second), c.duration("lifetime_seconds", time.Second)
	o.IdleTimeout = c.duration("idle_timeout_seconds", time.Second)
	return *o
}

func (c call) strings(name string) []string {
	items, _ := c.args[name].([]any)
	out := make([]string, len(items))
	for i, item := range items {
		out[i], _ = item.(string)
	}
	return out
}

// mode is an octal argument; one that is not octal is made one that is no mode.
func (c call) mode() fs.FileMode {
	if _, given := c.args["mode"]; !given {
		return 0
	}
	mode, err := strconv.ParseUint(c.text("mode"), 8, 32)
	if err != nil {
		mode = 0o777777
	}
	return fs.FileMode(mode)
}

func (c call) execOptions() *sandkasten.ExecOptions {
	o := options[sandkasten.ExecOptions](c)
	o.Timeout = c.duration("timeout_ms", time.Millisecond)
	return o
}

func (c call) processOptions() *sandkasten.ProcessOptions {
	o := options[sandkasten.ProcessOptions](c)
	o.Timeout = c.duration("timeout_ms", time.Millisecond)
	if stdin, ok := c.args["stdin"].(string); ok {
		o.Stdin = []byte(stdin)
	}
	return o
}

// program is one with its arguments, or shell code.
func (c call) program() []string {
	if code, ok := c.args["cmd"].(string); ok {
		return sandkasten.ShellCode(code)
	}
	return c.strings("cmd")
}

// cancelExec cancels a command when it has made a file.
func (c call) cancelExec() (any, error) {
	ctx, cancel := context.WithCancel(c.run.ctx)
	defer cancel()
	options, ended := c.execOptions(), make(chan error, 1)
	go func() {
		_, err := c.session.Exec(ctx, c.text("cmd"), options)
		ended <- err
	}()
	for made := false; !made; {
		var err error
		if made, err = c.session.Exists(c.run.ctx, c.text("path")); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		c.run.t.Errorf("the call ends with %v", err)
	}
	record, err := c.session.Process(options.ExecID).Wait(c.run.ctx)
	if took := time.Since(began); took > time.Second {
		c.run.t.Errorf("the command ends after %s", took)
	}
	return record, err
}

func (c call) runOptions() *sandkasten.RunCodeOptions {
	return &sandkasten.RunCodeOptions{Language: c.text("language"), Timeout: c.duration("timeout_ms", time.Millisecond)}
}

// ran is a run with what its methods say.
func (c call) ran(run sandkasten.CodeRun, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	png, err := run.PNG()
	return struct {
		sandkasten.CodeRun
		Text string `json:"text"`
		PNG  []byte `json:"png"`
	}{run, run.Text(), png}, err
}

// streamed reads a stream to its end.
func (c call) streamed(s *sandkasten.ExecStream) (any, error) {
	output := map[string]string{"output": "", "stdout": "", "stderr": ""}
	for chunk, err := range s.Chunks(c.run.ctx) {
		if err != nil {
			return nil, err
		}
		output[chunk.Stream] += string(chunk.Data)
	}
	end, ended := s.End()
	if !ended {
		c.run.t.Error("the stream has no end")
	}
	return struct {
		sandkasten.ExecEnd
		Output string `json:"output"`
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr"`
	}{end, output["output"], output["stdout"], output["stderr"]}, nil
}

// actions is what steps do.
var actions = map[string]func(c call) (any, error){
	"create_session": func(c call) (any, error) {
		o := options[sandkasten.CreateOptions](c)
		o.TTL, o.Lifetime, o.IdleTimeout, o.IdempotencyKey = c.update().TTL, c.update().Lifetime, c.update().IdleTimeout, c.text("idempotency_key")
		return c.client.CreateSession(c.run.ctx, o)
	},
	"get_session": func(c call) (any, error) { return c.client.GetSession(c.run.ctx, c.text("id")) },
	"list_sessions": func(c call) (any, error) {
		return c.client.ListSessions(c.run.ctx, &sandkasten.ListSessionsOptions{
			Scope: c.text("scope"), Status: c.strings("status"), Labels: c.strings("label"), Mine: c.flag("mine"), Search: c.text("search"), Sort: c.text("sort"), Limit: c.number("limit"), After: c.text("after"), Usage: c.flag("usage"),
		})
	},
	"events": func(c call) (any, error) {
		told := []sandkasten.Event{}
		for event, err := range c.client.Events(c.run.ctx, sandkasten.EventOptions{Since: c.text("since"), Session: c.text("session"), Types: c.strings("types")}) {
			if err != nil {
				return nil, err
			}
			if told = append(told, event); len(told) == c.number("count") {
				break
			}
		}
		return map[string]any{"events": told, "last": told[len(told)-1].ID}, nil
	},
	"create_workspace": func(c call) (any, error) {
		return c.client.CreateWorkspace(c.run.ctx, options[sandkasten.WorkspaceOptions](c))
	},
	"get_workspace":   func(c call) (any, error) { return c.client.GetWorkspace(c.run.ctx, c.text("id")) },
	"list_workspaces": func(c call) (any, error) { return c.client.ListWorkspaces(c.run.ctx) },
	"delete_workspace": func(c call) (any, error) {
		o := &sandkasten.DeleteWorkspaceOptions{Force: c.flag("force")}
		return nil, c.client.DeleteWorkspace(c.run.ctx, c.text("id"), o)
	},
	"list_snapshots": func(c call) (any, error) {
		o := &sandkasten.ListSnapshotsOptions{Name: c.text("name"), SessionID: c.text("session_id")}
		return c.client.ListSnapshots(c.run.ctx, o)
	},
	"list_images":  func(c call) (any, error) { return c.client.ListImages(c.run.ctx) },
	"get_image":    func(c call) (any, error) { return c.client.GetImage(c.run.ctx, c.text("name")) },
	"delete_image": func(c call) (any, error) { return nil, c.client.DeleteImage(c.run.ctx, c.text("name")) },
	"pull_image": func(c call) (any, error) {
		return c.client.PullImage(c.run.ctx, c.text("ref"), options[sandkasten.PullImageOptions](c))
	},
	"build_image": func(c call) (any, error) {
		return c.client.BuildImage(c.run.ctx, c.text("name"), options[sandkasten.BuildImageOptions](c))
	},
	"commit_image": func(c call) (any, error) {
		return c.client.CommitImage(c.run.ctx, c.text("name"), options[sandkasten.CommitImageOptions](c))
	},
	"list_image_jobs":  func(c call) (any, error) { return c.client.ListImageJobs(c.run.ctx) },
	"get_image_job":    func(c call) (any, error) { return c.client.GetImageJob(c.run.ctx, c.text("id")) },
	"cancel_image_job": func(c call) (any, error) { return c.client.CancelImageJob(c.run.ctx, c.text("id")) },
	"wait_image_job":   func(c call) (any, error) { return c.client.WaitImageJob(c.run.ctx, c.text("id"), nil) },
	"get_snapshot":     func(c call) (any, error) { return c.client.GetSnapshot(c.run.ctx, c.text("id")) },
	"delete_snapshot":  func(c call) (any, error) { return nil, c.client.DeleteSnapshot(c.run.ctx, c.text("id")) },
	"copy_snapshot": func(c call) (any, error) {
		archive, err := c.client.DownloadSnapshot(c.run.ctx, c.text("id"))
		if err != nil {
			return nil, err
		}
		defer archive.Close()
		data, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		o := &sandkasten.UploadSnapshotOptions{Name: c.text("name"), Label: c.text("label")}
		return c.client.UploadSnapshot(c.run.ctx, bytes.NewReader(data), o)
	},
	"set_secret": func(c call) (any, error) {
		return c.client.SetSecret(c.run.ctx, c.text("name"), options[sandkasten.SecretOptions](c))
	},
	"get_secret":    func(c call) (any, error) { return c.client.GetSecret(c.run.ctx, c.text("name")) },
	"list_secrets":  func(c call) (any, error) { return c.client.ListSecrets(c.run.ctx) },
	"delete_secret": func(c call) (any, error) { return nil, c.client.DeleteSecret(c.run.ctx, c.text("name")) },
	"me":            func(c call) (any, error) { return c.client.Me(c.run.ctx) },
	"create_user": func(c call) (any, error) {
		return c.client.CreateUser(c.run.ctx, c.text("name"), options[sandkasten.UserOptions](c))
	},
	"get_user":   func(c call) (any, error) { return c.client.GetUser(c.run.ctx, c.text("name")) },
	"list_users": func(c call) (any, error) { return c.client.ListUsers(c.run.ctx) },
	"update_user": func(c call) (any, error) {
		return c.client.UpdateUser(c.run.ctx, c.text("name"), options[sandkasten.UserUpdate](c))
	},
	"delete_user": func(c call) (any, error) { return nil, c.client.DeleteUser(c.run.ctx, c.text("name")) },
	"create_key": func(c call) (any, error) {
		o := options[sandkasten.KeyOptions](c)
		o.TTL = c.duration("ttl_seconds", time.Second)
		return c.client.CreateKey(c.run.ctx, o)
	},
	"my_usage":         func(c call) (any, error) { return c.client.MyUsage(c.run.ctx, c.text("month")) },
	"user_usage":       func(c call) (any, error) { return c.client.UserUsage(c.run.ctx, c.text("name"), c.text("month")) },
	"list_keys":        func(c call) (any, error) { return c.client.ListKeys(c.run.ctx, c.text("user")) },
	"revoke_key":       func(c call) (any, error) { return nil, c.client.RevokeKey(c.run.ctx, c.text("id")) },
	"all_usage":        func(c call) (any, error) { return c.client.AllUsage(c.run.ctx, c.text("month")) },
	"list_inspections": func(c call) (any, error) { return c.client.ListInspections(c.run.ctx) },
	"usage_days": func(c call) (any, error) {
		return c.client.UsageDays(c.run.ctx, &sandkasten.UsageDaysOptions{Since: c.text("since"), Until: c.text("until"), Owner: c.text("owner")})
	},
	"list_audit": func(c call) (any, error) {
		return c.client.ListAudit(c.run.ctx, &sandkasten.AuditOptions{Route: c.text("route"), Session: c.text("session"), Failed: c.flag("failed"), Changes: c.flag("changes"), Limit: c.number("limit")})
	},
	"host_history": func(c call) (any, error) {
		return c.client.HostHistory(c.run.ctx, &sandkasten.StatsHistoryOptions{StepSeconds: c.number("step")})
	},
	"host_findings": func(c call) (any, error) { return c.client.HostFindings(c.run.ctx) },
	"complete_scope": func(c call) (any, error) {
		return c.client.CompleteScope(c.run.ctx, c.text("scope"), nil)
	},
	"change_sessions": func(c call) (any, error) {
		return c.client.ChangeSessions(c.run.ctx, sandkasten.BulkAction(c.text("action")), c.strings("ids")...)
	},
	"info": func(c call) (any, error) { return c.client.Info(c.run.ctx) },

	"refresh": func(c call) (any, error) { return c.session.Refresh(c.run.ctx) },
	"update": func(c call) (any, error) {
		o := c.update()
		return c.session.Update(c.run.ctx, &o)
	},
	"heartbeat": func(c call) (any, error) { return nil, c.session.Heartbeat(c.run.ctx) },
	"stats_history": func(c call) (any, error) {
		return c.session.StatsHistory(c.run.ctx, &sandkasten.StatsHistoryOptions{StepSeconds: c.number("step")})
	},
	"stats":   func(c call) (any, error) { return c.session.Stats(c.run.ctx) },
	"network": func(c call) (any, error) { return c.session.Network(c.run.ctx) },
	"set_network": func(c call) (any, error) {
		return c.session.SetNetwork(c.run.ctx, *options[sandkasten.NetworkPolicy](c))
	},
	"allow_network": func(c call) (any, error) {
		return c.session.AllowNetwork(c.run.ctx, c.strings("entries")...)
	},
	"network_log": func(c call) (any, error) {
		return c.session.NetworkLog(c.run.ctx, int64(c.number("since_seq")), c.number("limit"))
	},
	"follow_network_log": func(c call) (any, error) {
		events := []sandkasten.NetworkEvent{}
		for event, err := range c.session.FollowNetworkLog(c.run.ctx, int64(c.number("since_seq"))) {
			if err != nil {
				return nil, err
			}
			if events = append(events, event); len(events) == c.number("count") {
				break
			}
		}
		return events, nil
	},
	"pause": func(c call) (any, error) {
		return c.session.Pause(c.run.ctx, options[sandkasten.PauseOptions](c))
	},
	"resume":  func(c call) (any, error) { return c.session.Resume(c.run.ctx) },
	"stop":    func(c call) (any, error) { return c.session.Stop(c.run.ctx) },
	"start":   func(c call) (any, error) { return c.session.Start(c.run.ctx) },
	"destroy": func(c call) (any, error) { return nil, c.session.Destroy(c.run.ctx) },
	"snapshot": func(c call) (any, error) {
		return c.session.Snapshot(c.run.ctx, options[sandkasten.SnapshotOptions](c))
	},
	"fork": func(c call) (any, error) {
		o := options[sandkasten.ForkOptions](c)
		o.TTL, o.Lifetime, o.IdleTimeout = c.update().TTL, c.update().Lifetime, c.update().IdleTimeout
		count := 1
		if _, given := c.args["count"]; given {
			count = c.number("count")
		}
		made, err := c.session.Fork(c.run.ctx, count, o)
		return made.Sessions, err
	},
	"exec":        func(c call) (any, error) { return c.session.Exec(c.run.ctx, c.text("cmd"), c.execOptions()) },
	"cancel_exec": func(c call) (any, error) { return c.cancelExec() },
	"exec_stream": func(c call) (any, error) { return c.streamed(c.session.ExecStream(c.text("cmd"), c.execOptions())) },
	"attach":      func(c call) (any, error) { return c.streamed(c.session.Attach(c.text("exec_id"), nil)) },

	"write": func(c call) (any, error) {
		content := []byte(c.text("text"))
		if encoded, ok := c.args["base64"].(string); ok {
			content, _ = base64.StdEncoding.DecodeString(encoded)
		}
		var etag string
		o := &sandkasten.WriteOptions{Mode: c.mode(), Create: c.flag("create"), Append: c.flag("append"), IfMatch: c.text("if_match"), NewETag: &etag}
		err := c.session.Write(c.run.ctx, c.text("path"), bytes.NewReader(content), o)
		if o.IfMatch == "" {
			return nil, err
		}
		return etag, err
	},
	"read": func(c call) (any, error) {
		o := &sandkasten.ReadOptions{Offset: int64(c.number("offset")), MaxBytes: int64(c.number("max_bytes"))}
		data, err := c.session.ReadAll(c.run.ctx, c.text("path"), o)
		return map[string]string{"base64": base64.StdEncoding.EncodeToString(data)}, err
	},
	"read_text": func(c call) (any, error) {
		data, err := c.session.ReadAll(c.run.ctx, c.text("path"), nil)
		return string(data), err
	},
	"upload": func(c call) (any, error) {
		size := len(c.text("text")) * c.number("repeat")
		content := io.MultiReader(strings.NewReader(strings.Repeat(c.text("text"), c.number("repeat"))))
		return nil, c.session.Write(c.run.ctx, c.text("path"), content, &sandkasten.WriteOptions{Size: int64(size)})
	},
	"upload_files": func(c call) (any, error) {
		var files []sandkasten.NewFile
		for name, text := range options[struct{ Files map[string]string }](c).Files {
			files = append(files, sandkasten.NewFile{Name: name, Content: strings.NewReader(text)})
		}
		slices.SortFunc(files, func(a, b sandkasten.NewFile) int { return strings.Compare(a.Name, b.Name) })
		return c.session.UploadFiles(c.run.ctx, c.text("path"), files...)
	},
	"download": func(c call) (any, error) {
		reader, err := c.session.Read(c.run.ctx, c.text("path"), nil)
		if err != nil {
			return nil, err
		}
		defer reader.Close()
		sum := sha256.New()
		size, err := io.Copy(sum, reader)
		return map[string]any{"size": size, "sha256": hex.EncodeToString(sum.Sum(nil))}, err
	},
	"list": func(c call) (any, error) {
		entries := []sandkasten.Entry{}
		for entry, err := range c.session.List(c.run.ctx, c.text("path"), options[sandkasten.ListOptions](c)) {
			if err != nil {
				return nil, err
			}
			entries = append(entries, entry)
		}
		return entries, nil
	},
	"glob": func(c call) (any, error) {
		found, err := c.session.Glob(c.run.ctx, c.text("pattern"), options[sandkasten.GlobOptions](c))
		return found.Entries, err
	},
	"grep": func(c call) (any, error) {
		found, err := c.session.Grep(c.run.ctx, c.text("pattern"), options[sandkasten.GrepOptions](c))
		return found.Matches, err
	},
	"exists": func(c call) (any, error) { return c.session.Exists(c.run.ctx, c.text("path")) },
	"stat":   func(c call) (any, error) { return c.session.Stat(c.run.ctx, c.text("path"), nil) },
	"edit": func(c call) (any, error) {
		o := options[sandkasten.EditOptions](c)
		return c.session.Edit(c.run.ctx, c.text("path"), c.text("old"), c.text("new"), o)
	},
	"make_dir": func(c call) (any, error) {
		return nil, c.session.MakeDir(c.run.ctx, c.text("path"), &sandkasten.MakeDirOptions{Parents: c.flag("parents")})
	},
	"move": func(c call) (any, error) {
		return nil, c.session.Move(c.run.ctx, c.text("from"), c.text("to"), options[sandkasten.MoveOptions](c))
	},
	"copy": func(c call) (any, error) {
		return nil, c.session.Copy(c.run.ctx, c.text("from"), c.text("to"), options[sandkasten.CopyOptions](c))
	},
	"remove": func(c call) (any, error) {
		return nil, c.session.Remove(c.run.ctx, c.text("path"), options[sandkasten.RemoveOptions](c))
	},
	"chmod": func(c call) (any, error) {
		return nil, c.session.Chmod(c.run.ctx, c.text("path"), c.mode(), nil)
	},

	"run_process": func(c call) (any, error) {
		return c.session.RunProcess(c.run.ctx, c.program(), c.processOptions())
	},
	"run_told": func(c call) (any, error) {
		var stdout, stderr strings.Builder
		end, err := c.session.StreamProcess(c.program(), c.processOptions()).Copy(c.run.ctx, &stdout, &stderr)
		told := func(b *strings.Builder) string { return strings.ToValidUTF8(b.String(), "\ufffd") }
		return struct {
			sandkasten.ExecEnd
			Stdout     string `json:"stdout"`
			Stderr     string `json:"stderr"`
			ToldStdout string `json:"told_stdout"`
			ToldStderr string `json:"told_stderr"`
		}{end, told(&stdout), told(&stderr), told(&stdout), told(&stderr)}, err
	},
	"start_process": func(c call) (any, error) {
		return c.session.StartProcess(c.run.ctx, c.strings("cmd"), c.processOptions())
	},
	"list_processes": func(c call) (any, error) { return c.session.ListProcesses(c.run.ctx) },
	"write_stdin": func(c call) (any, error) {
		return nil, c.process.WriteStdin(c.run.ctx, strings.NewReader(c.text("text")))
	},
	"close_stdin": func(c call) (any, error) { return nil, c.process.CloseStdin(c.run.ctx) },
	"kill":        func(c call) (any, error) { return nil, c.process.Kill(c.run.ctx) },
	"signal":      func(c call) (any, error) { return nil, c.process.Signal(c.run.ctx, c.text("signal")) },
	"process_output": func(c call) (any, error) {
		o := &sandkasten.OutputOptions{SinceSeq: int64(c.number("since_seq")), Wait: c.duration("wait_ms", time.Millisecond)}
		return c.process.Output(c.run.ctx, o)
	},
	"process_stream": func(c call) (any, error) { return c.streamed(c.process.Stream(nil)) },
	"wait":           func(c call) (any, error) { return c.process.Wait(c.run.ctx) },

	"run_code": func(c call) (any, error) {
		return c.ran(c.session.RunCode(c.run.ctx, c.text("code"), c.runOptions()))
	},
	"run_code_told": func(c call) (any, error) {
		told := struct {
			Stdout  string   `json:"stdout"`
			Stderr  string   `json:"stderr"`
			Results []string `json:"results"`
			Updates []string `json:"updates"`
			Errors  []string `json:"errors"`
			Clears  int      `json:"clears"`
			Started bool     `json:"started"`
		}{}
		var started []string
		o := c.runOptions()
		o.OnStdout = func(text string) { told.Stdout += text }
		o.OnStderr = func(text string) { told.Stderr += text }
		o.OnResult = func(r sandkasten.CodeResult) { told.Results = append(told.Results, r.Text()) }
		o.OnStart = func(contextID, runID string) { started = append(started, contextID, runID) }
		o.OnUpdate = func(r sandkasten.CodeResult) { told.Updates = append(told.Updates, r.Text()) }
		o.OnClear = func() { told.Clears++ }
		o.OnError = func(e sandkasten.CodeError) { told.Errors = append(told.Errors, e.Name) }
		run, err := c.session.RunCode(c.run.ctx, c.text("code"), o)
		told.Started = slices.Equal(started, []string{run.ContextID, run.RunID})
		return struct {
			sandkasten.CodeRun
			Told any `json:"told"`
		}{run, told}, err
	},
	"create_context": func(c call) (any, error) {
		made, err := c.session.CreateContext(c.run.ctx, c.text("language"), options[sandkasten.ContextOptions](c))
		if err != nil {
			return nil, err
		}
		return made.ContextInfo, nil
	},
	"list_contexts": func(c call) (any, error) {
		all, err := c.session.ListContexts(c.run.ctx)
		infos := []sandkasten.ContextInfo{}
		for _, one := range all {
			infos = append(infos, one.ContextInfo)
		}
		return infos, err
	},
	"run_in_context": func(c call) (any, error) {
		return c.ran(c.session.Context(c.text("context")).Run(c.run.ctx, c.text("code"), nil))
	},
	"get_run": func(c call) (any, error) {
		return c.ran(c.session.Context(c.text("context")).GetRun(c.run.ctx, c.text("run_id"), 0))
	},
	"restart_context": func(c call) (any, error) {
		again := c.session.Context(c.text("context"))
		err := again.Restart(c.run.ctx)
		return again.ContextInfo, err
	},
	"delete_context": func(c call) (any, error) {
		return nil, c.session.Context(c.text("context")).Delete(c.run.ctx)
	},
	"list_ports": func(c call) (any, error) { return c.session.ListPorts(c.run.ctx) },
	"create_preview": func(c call) (any, error) {
		o := &sandkasten.PreviewOptions{TTL: c.duration("ttl_seconds", time.Second)}
		return c.session.CreatePreview(c.run.ctx, c.number("port"), o)
	},
	"fetch_port": func(c call) (any, error) {
		req, err := http.NewRequestWithContext(c.run.ctx, http.MethodGet, c.text("path"), nil)
		if err != nil {
			return nil, err
		}
		resp, err := c.session.FetchPort(c.number("port"), req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return map[string]any{"status": resp.StatusCode, "body": string(body)}, err
	},
}
