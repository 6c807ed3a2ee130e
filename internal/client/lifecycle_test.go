package client_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/sandkasten/sandkasten/internal/client"
)

func TestChanges(t *testing.T) {
	off := false
	for _, test := range []struct {
		pattern, body string
		call          func(*client.Client, context.Context, string) (client.Session, error)
	}{
		{"POST /v1/sessions/s/pause", "", (*client.Client).Pause},
		{"POST /v1/sessions/s/resume", "", (*client.Client).Resume},
		{"POST /v1/sessions/s/stop", "", (*client.Client).Stop},
		{"POST /v1/sessions/s/start", "", (*client.Client).Start},
		{"POST /v1/sessions/s/heartbeat", "", (*client.Client).Heartbeat},
		{"PATCH /v1/sessions/s", `{"ttl_seconds":60,"on_idle":"stop","auto_resume":false}`, func(c *client.Client, ctx context.Context, id string) (client.Session, error) {
			return c.Update(ctx, id, client.UpdateRequest{TTLSeconds: 60, OnIdle: "stop", AutoResume: &off})
		}},
	} {
		t.Run(test.pattern, func(t *testing.T) {
			c := serve(t, test.pattern, func(w http.ResponseWriter, r *http.Request) {
				if body, err := io.ReadAll(r.Body); err != nil || string(body) != test.body {
					t.Errorf("body %s, %v", body, err)
				}
				answer(200, `{"id":"s","status":"paused","on_idle":"pause","idle_timeout_seconds":5,"auto_resume":true,"boot_id":"b"}`)(w, r)
			})
			s, err := test.call(c, t.Context(), "s")
			if err != nil || s.Status != "paused" || s.OnIdle != "pause" || s.IdleTimeout != 5 || !s.AutoResume || s.BootID != "b" {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

func TestFork(t *testing.T) {
	c := serve(t, "POST /v1/sessions/s/fork", func(w http.ResponseWriter, r *http.Request) {
		const want = `{"count":2,"hostname":"h","ttl_seconds":60}`
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != want {
			t.Errorf("body %s, %v", body, err)
		}
		answer(201, `{"sessions":[{"id":"a","forked_from":"s"},{"id":"b","forked_from":"s"}],"copied":true}`)(w, r)
	})
	made, err := c.Fork(t.Context(), "s", client.ForkRequest{Count: 2, Hostname: "h", UpdateRequest: client.UpdateRequest{TTLSeconds: 60}})
	if err != nil || len(made.Sessions) != 2 || made.Sessions[1].ID != "b" || made.Sessions[0].ForkedFrom != "s" || !made.Copied {
		t.Errorf("%+v, %v", made, err)
	}
}
