package v1_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/session"
)

// What waits for a program or carries files is counted apart from the calls
// that are answered soon, which it would keep out.
func TestClasses(t *testing.T) {
	const id, workspace = "/v1/sessions/{id}", "/v1/workspaces/{id}"
	want := map[string]api.Class{
		"POST " + id + "/exec": api.Long, "POST " + id + "/exec/stream": api.Long, "GET " + id + "/exec/stream": api.Long,
		"POST " + id + "/processes": api.Long, "POST " + id + "/processes/stream": api.Long,
		"GET " + id + "/terminal": api.Long, "GET " + id + "/tunnel": api.Long, "GET " + id + "/fs/watch": api.Long,
		id + "/ports/{port}/{path...}": api.Long, "GET " + id + "/network/log/stream": api.Long,
		"POST " + id + "/snapshots": api.Transfer, "POST /v1/snapshots": api.Transfer, "GET /v1/snapshots/{id}/download": api.Transfer,
		"POST /v1/images/import": api.Transfer, "GET /v1/image-jobs/{id}/events": api.Long,
		"DELETE /v1/users/{name}": api.Long, "GET /v1/audit": api.Long, "GET /v1/events": api.Long, "GET /v1/host/findings": api.Long, "POST /v1/scopes/{namespace}/{id}/complete": api.Long,
		"POST /v1/sessions/bulk":   api.Long,
		"POST " + id + "/run-code": api.Long, "POST " + id + "/run-code/stream": api.Long, "POST " + id + "/contexts": api.Long,
		"POST " + id + "/contexts/{ctx}/run": api.Long, "POST " + id + "/contexts/{ctx}/run/stream": api.Long, "POST " + id + "/contexts/{ctx}/restart": api.Long,
		"GET " + id + "/contexts/{ctx}/runs/{run_id}": api.Long, "GET " + id + "/contexts/{ctx}/runs/{run_id}/stream": api.Long,
	}
	for _, exec := range []string{id + "/execs/{exec_id}", id + "/processes/{exec_id}"} {
		want["GET "+exec], want["GET "+exec+"/stream"], want["POST "+exec+"/wait"] = api.Long, api.Long, api.Long
	}
	for _, of := range []string{id, workspace} {
		want["PUT "+of+"/fs/raw"], want["POST "+of+"/fs/upload"] = api.Transfer, api.Transfer
		want["GET "+of+"/fs/archive"], want["PUT "+of+"/fs/archive"] = api.Transfer, api.Transfer
	}
	for _, route := range v1.New(v1.Options{Manager: session.New(session.Options{})}).Routes {
		if route.Class != want[route.Pattern] {
			t.Errorf("%s is %v, want %v", route.Pattern, route.Class, want[route.Pattern])
		}
		delete(want, route.Pattern)
	}
	for pattern := range want {
		t.Errorf("there is no route %s", pattern)
	}
}

// Owners take turns at what lists, however much there is. What asks a sandbox does not hold a
// turn meanwhile.
func TestListsTakeTurns(t *testing.T) {
	asking := []string{"list-agent-tools", "list-execs", "list-files", "list-ports", "list-processes", "list-shells", "workspace-list-files"}
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]struct {
			Get *struct {
				ID string `json:"operationId"`
			} `json:"get"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"GET /v1/host/history": true, "GET /v1/sessions/{id}/stats/history": true}
	for path, operations := range document.Paths {
		if get := operations.Get; get != nil && strings.Contains(get.ID, "list-") && !slices.Contains(asking, get.ID) {
			want["GET "+path] = true
		}
	}
	got := map[string]bool{}
	for _, route := range v1.New(v1.Options{Manager: session.New(session.Options{})}).Routes {
		if route.Turn {
			got[route.Pattern] = true
		}
	}
	if !maps.Equal(got, want) || len(want) < 10 {
		t.Errorf("these take turns:\n%v, want\n%v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
