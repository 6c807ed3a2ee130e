package agents

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/sdk/go"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

func median(all []time.Duration) float64 {
	slices.Sort(all)
	return all[len(all)/2].Seconds() * 1e3
}

// timed adds the time of do.
func timed(b *testing.B, all *[]time.Duration, do func() error) {
	b.Helper()
	began := time.Now()
	if err := do(); err != nil {
		b.Fatal(err)
	}
	*all = append(*all, time.Since(began))
}

// BenchmarkCall compares sandbox_exec with the request to the API that it makes, in
// turns: a Go program's call, and one at /mcp. Each is to be at most 1 ms slower.
func BenchmarkCall(b *testing.B) {
	d := blackbox.Start(b, blackbox.Options{})
	client := d.Client(d.Key)
	set, err := tools.New(tools.Options{Client: client, Scope: tools.Scope{Namespace: "agent", ID: "figures"}})
	if err != nil {
		b.Fatal(err)
	}
	var opened answer
	if err := json.Unmarshal(set.Call(b.Context(), "sandbox_open", nil).JSON, &opened); err != nil {
		b.Fatal(err)
	}
	session := client.Session(opened.SandboxID)
	remote, err := mcp.NewClient(&mcp.Implementation{Name: "figures"}, nil).Connect(b.Context(), overHTTP(d, "agent:figures"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer remote.Close()
	args := in(opened.SandboxID, m{"cmd": []string{"true"}})
	text, err := json.Marshal(args)
	if err != nil {
		b.Fatal(err)
	}
	var direct, called, overMCP []time.Duration
	for b.Loop() {
		timed(b, &direct, func() error {
			_, err := session.RunProcess(b.Context(), []string{"true"}, &sandkasten.ProcessOptions{OnDisconnect: "kill"})
			return err
		})
		timed(b, &called, func() error {
			if result := set.Call(b.Context(), "sandbox_exec", text); result.IsError {
				b.Fatal(result.Text())
			}
			return nil
		})
		timed(b, &overMCP, func() error {
			_, err := remote.CallTool(b.Context(), &mcp.CallToolParams{Name: "sandbox_exec", Arguments: args})
			return err
		})
	}
	b.ReportMetric(median(direct), "http-ms")
	b.ReportMetric(median(called)-median(direct), "tool-more-ms")
	b.ReportMetric(median(overMCP)-median(direct), "mcp-more-ms")
}

// BenchmarkRun compares sandbox_run, for which a sandbox is ready, with the same program
// in one that is there, in turns: what a fresh sandbox costs is to be at most 5 ms.
func BenchmarkRun(b *testing.B) {
	d := blackbox.Start(b, blackbox.Options{Config: "pool: {enabled: true, images: {base: 8}, cpu: 1}\n"})
	client := d.Client(d.Key)
	set, err := tools.New(tools.Options{Client: client, Scope: tools.Scope{Namespace: "agent", ID: "figures"}})
	if err != nil {
		b.Fatal(err)
	}
	session, err := client.CreateSession(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	var fresh, there []time.Duration
	for b.Loop() {
		for ready := 0; ready < 4; time.Sleep(20 * time.Millisecond) { // one for each run
			status, err := client.PoolStatus(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			ready = 0
			for _, image := range status.Images {
				ready += image.Ready
			}
		}
		timed(b, &there, func() error {
			_, err := session.RunProcess(b.Context(), []string{"bash", "-c", "true"}, nil)
			return err
		})
		timed(b, &fresh, func() error {
			if result := set.Call(b.Context(), "sandbox_run", json.RawMessage(`{"runtime":"bash","code":"true"}`)); result.IsError {
				b.Fatal(result.Text())
			}
			return nil
		})
	}
	b.ReportMetric(median(there), "program-ms")
	b.ReportMetric(median(fresh)-median(there), "fresh-more-ms")
}
