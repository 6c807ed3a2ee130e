package client_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/client"
)

func TestSnapshots(t *testing.T) {
	want := client.Snapshot{ID: "a/b", Name: "n", Scope: "sandbox", SizeBytes: 5, Files: 2, ExcludePaths: []string{"x"}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]struct {
		pattern, query, body string // of the request
		reply                string
		call                 func(context.Context, *client.Client) (any, error)
		want                 any
	}{
		"create": {"POST /v1/sessions/{id}/snapshots", "", `{"name":"n","exclude_paths":["x"]}`, string(text), func(ctx context.Context, c *client.Client) (any, error) {
			return c.CreateSnapshot(ctx, "a/b", client.SnapshotRequest{Name: "n", ExcludePaths: []string{"x"}})
		}, want},
		"list": {"GET /v1/snapshots", "name=n&session_id=s", "", `{"snapshots":[` + string(text) + `]}`, func(ctx context.Context, c *client.Client) (any, error) {
			return c.Snapshots(ctx, client.SnapshotFilter{SessionID: "s", Name: "n"})
		}, []client.Snapshot{want}},
		"get": {"GET /v1/snapshots/{id}", "", "", string(text), func(ctx context.Context, c *client.Client) (any, error) {
			return c.Snapshot(ctx, "a/b")
		}, want},
		"delete": {"DELETE /v1/snapshots/{id}", "", "", `{"ok":true}`, func(ctx context.Context, c *client.Client) (any, error) {
			return nil, c.DeleteSnapshot(ctx, "a/b")
		}, nil},
		"download": {"GET /v1/snapshots/{id}/download", "", "", "bytes", func(ctx context.Context, c *client.Client) (any, error) {
			r, err := c.DownloadSnapshot(ctx, "a/b")
			if err != nil {
				return nil, err
			}
			data, err := io.ReadAll(r)
			return string(data), err
		}, "bytes"},
		"upload": {"POST /v1/snapshots", "label=l&name=n", "bytes", string(text), func(ctx context.Context, c *client.Client) (any, error) {
			return c.UploadSnapshot(ctx, "n", "l", 5, io.NopCloser(strings.NewReader("bytes")))
		}, want},
	}
	for name, test := range calls {
		t.Run(name, func(t *testing.T) {
			c := serve(t, test.pattern, func(w http.ResponseWriter, r *http.Request) {
				if id := r.PathValue("id"); id != "" && id != "a/b" {
					t.Errorf("id %q", id)
				}
				body, err := io.ReadAll(r.Body)
				if r.URL.RawQuery != test.query || strings.TrimSpace(string(body)) != test.body || err != nil {
					t.Errorf("query %q, body %q, %v", r.URL.RawQuery, body, err)
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
