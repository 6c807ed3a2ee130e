package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/client"
)

func TestWorkspaces(t *testing.T) {
	want := client.Workspace{ID: "a/b", SizeMB: 64, SizeBytes: 5, SessionCount: 2, ActiveSessionCount: 1, Labels: map[string]string{"k": "v"}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]struct {
		pattern, reply string
		call           func(context.Context, *client.Client) (any, error)
		want           any
	}{
		"create": {"POST /v1/workspaces", string(text), func(ctx context.Context, c *client.Client) (any, error) {
			return c.CreateWorkspace(ctx, client.WorkspaceRequest{ID: "a/b", SizeMB: 64})
		}, want},
		"list": {"GET /v1/workspaces", `{"workspaces":[` + string(text) + `]}`, func(ctx context.Context, c *client.Client) (any, error) {
			return c.Workspaces(ctx)
		}, []client.Workspace{want}},
		"get": {"GET /v1/workspaces/{id}", string(text), func(ctx context.Context, c *client.Client) (any, error) {
			return c.Workspace(ctx, "a/b")
		}, want},
		"delete": {"DELETE /v1/workspaces/{id}", `{"ok":true}`, func(ctx context.Context, c *client.Client) (any, error) {
			return nil, c.DeleteWorkspace(ctx, "a/b", client.Forced)
		}, nil},
		"files": {"GET /v1/workspaces/{id}/fs/list", `{"entries":[{"name":"f"}]}`, func(ctx context.Context, c *client.Client) (any, error) {
			list, err := c.OfWorkspaces().List(ctx, "a/b", client.ListRequest{Path: "dir"})
			return list.Entries, err
		}, []client.Entry{{Name: "f"}}},
	}
	for name, test := range calls {
		t.Run(name, func(t *testing.T) {
			c := serve(t, test.pattern, func(w http.ResponseWriter, r *http.Request) {
				if id := r.PathValue("id"); id != "" && id != "a/b" {
					t.Errorf("id %q", id)
				}
				if name == "delete" && r.URL.Query().Get("force") != "true" {
					t.Errorf("query %q", r.URL.RawQuery)
				}
				answer(http.StatusOK, test.reply)(w, r)
			})
			got, err := test.call(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
