package sandkasten

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestTypesAreThoseOfTheAPI compares the fields of requests and answers with
// openapi.json, so that what is new there is not forgotten here.
func TestTypesAreThoseOfTheAPI(t *testing.T) {
	text, err := os.ReadFile("../../internal/api/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	type create struct {
		CreateOptions
		times
	}
	type fork struct {
		Count int `json:"count"`
		ForkOptions
		times
	}
	type update struct {
		UpdateOptions
		times
	}
	tests := []struct {
		schema string
		ours   any
		absent []string // what is said in another way here, or not needed
		more   []string // what comes with a type that is of streams' ends too
	}{
		{"Session", SessionInfo{}, nil, nil},
		{"CreateRequest", create{}, []string{"limits"}, nil}, // which are fields of the request too
		{"ForkRequest", fork{}, nil, nil},
		{"UpdateRequest", update{}, nil, nil},
		{"PauseRequest", PauseOptions{}, nil, nil},
		{"Limits", Limits{}, nil, nil},
		{"Stats", Stats{}, nil, nil},
		{"NetworkStats", NetworkStats{}, nil, nil},
		{"Network", NetworkPolicy{}, nil, nil},
		{"NetworkRequest", NetworkPolicy{}, nil, []string{"relay"}},
		{"NetworkSecret", NetworkSecret{}, nil, []string{"value"}},
		{"NetworkSecretRequest", NetworkSecret{}, nil, []string{"placeholder"}},
		{"NetworkDenial", NetworkDenial{}, nil, nil},
		{"NetworkEvent", NetworkEvent{}, nil, nil},
		{"NetworkLog", NetworkLog{}, nil, nil},
		{"Event", Event{}, nil, nil},
		{"ExecBurst", ExecBurst{}, nil, nil},
		{"NetworkBurst", NetworkBurst{}, nil, nil},
		{"EventWorkspace", EventWorkspace{}, nil, nil},
		{"EventImageJob", EventImageJob{}, nil, nil},
		{"EventAccount", EventAccount{}, nil, nil},
		{"ExecRequest", execRequest{}, nil, nil},
		{"ExecResponse", ExecResult{}, nil, nil},
		{"ExecRecord", ExecRecord{}, nil, []string{"dropped_bytes", "network_denied"}},
		{"ExecDetail", ExecDetail{}, nil, []string{"network_denied"}},
		{"Usage", Usage{}, nil, nil},
		{"ProcessRequest", processRequest{}, []string{"stdin"}, nil}, // always as bytes
		{"ProcessResponse", ProcessResult{}, []string{"output_encoding", "stdout_encoding", "stderr_encoding"}, []string{"cwd", "shell_restarted"}},
		{"OutputResponse", OutputPage{}, nil, nil},
		{"Chunk", OutputChunk{}, nil, nil},
		{"Stat", Entry{}, nil, nil},
		{"EditResponse", Edited{}, nil, nil},
		{"Found", Found{}, nil, nil},
		{"Match", Match{}, nil, nil},
		{"Matches", Matches{}, nil, nil},
		{"Unpacked", Unpacked{}, nil, nil},
		{"Port", Port{}, nil, nil},
		{"Preview", Preview{}, nil, nil},
		{"Snapshot", Snapshot{}, nil, nil},
		{"SnapshotRequest", SnapshotOptions{}, nil, nil},
		{"Image", Image{}, nil, nil},
		{"ImageJob", ImageJob{}, nil, nil},
		{"Progress", ImageProgress{}, nil, nil},
		{"BuildRequest", BuildImageOptions{}, []string{"name"}, nil},
		{"RecipeFile", RecipeFile{}, nil, nil},
		{"CommitRequest", CommitImageOptions{}, []string{"name"}, nil},
		{"PullRequest", PullImageOptions{}, []string{"ref"}, nil},
		{"Workspace", WorkspaceInfo{}, nil, nil},
		{"WorkspaceRequest", WorkspaceOptions{}, nil, nil},
		{"User", User{}, nil, nil},
		{"UserRequest", userRequest{}, nil, nil},
		{"UserUpdateRequest", UserUpdate{}, nil, nil},
		{"Quota", Quota{}, nil, nil},
		{"QuotaRequest", QuotaUpdate{}, nil, nil},
		{"QuotaBody", ExceededQuota{}, nil, nil},
		{"OwnerUsage", OwnerUsage{}, nil, nil},
		{"UsageNow", UsageNow{}, nil, nil},
		{"OwnersUsage", OwnersUsage{}, nil, nil},
		{"OwnerShare", OwnerShare{}, nil, nil},
		{"UsageDay", UsageDay{}, nil, nil},
		{"Inspection", Inspection{}, nil, nil},
		{"Key", Key{}, nil, nil},
		{"NewKey", NewKey{}, nil, nil},
		{"KeyRequest", keyRequest{}, nil, nil},
		{"Me", Me{}, nil, nil},
		{"Completed", Completed{}, nil, nil},
		{"BulkResult", BulkResult{}, nil, nil},
		{"Secret", Secret{}, nil, nil},
		{"SecretRequest", SecretOptions{}, nil, nil},
		{"Shell", Shell{}, nil, nil},
		{"CodeContext", ContextInfo{}, nil, nil},
		{"ContextRequest", contextRequest{}, nil, nil},
		{"RunRequest", runRequest{}, nil, nil},
		{"RunCodeRequest", runCodeRequest{}, nil, nil},
		{"RunResult", CodeRun{}, nil, nil},
		{"Result", CodeResult{}, nil, nil},
		{"RunError", CodeError{}, nil, nil},
		{"Table", CodeTable{}, nil, nil},
		{"Column", CodeColumn{}, nil, nil},
		{"Chart", CodeChart{}, nil, nil},
		{"Axes", CodeAxes{}, nil, nil},
		{"Series", CodeSeries{}, nil, nil},
		{"PoolStatus", PoolStatus{}, nil, nil},
		{"PoolImage", PoolImage{}, nil, nil},
		{"HostHistory", HostHistory{}, nil, nil},
		{"HostSample", HostSample{}, nil, nil},
		{"HostFindings", HostFindings{}, nil, nil},
		{"HostFinding", HostFinding{}, nil, nil},
		{"Info", DaemonInfo{}, nil, nil},
		{"WorkspaceInfo", DaemonWorkspace{}, nil, nil},
		{"Defaults", DaemonDefaults{}, nil, nil},
		{"Maxima", DaemonLimits{}, nil, nil},
		{"ErrorBody", APIError{}, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.schema, func(t *testing.T) {
			theirs := document.Components.Schemas[tt.schema].Properties
			ours := jsonFields(tt.ours)
			for name := range theirs {
				if !slices.Contains(ours, name) && !slices.Contains(tt.absent, name) {
					t.Errorf("%T lacks %s", tt.ours, name)
				}
			}
			for _, name := range ours {
				if _, ok := theirs[name]; !ok && !slices.Contains(tt.more, name) {
					t.Errorf("%T has %s, which the API has not", tt.ours, name)
				}
			}
		})
	}
}

// jsonFields is what v has in JSON.
func jsonFields(v any) []string {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" && field.IsExported() {
			names = append(names, name)
		}
	}
	return names
}
