package client_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/client"
)

// body is content that notes that it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

func TestWriteStreams(t *testing.T) {
	want := strings.Repeat("\x00\xff", 1<<20)
	for content, query := range map[string]string{want: "mode=0755&path=a+b", "": "append=true&path=a+b"} {
		c := serve(t, "PUT /v1/sessions/{id}/fs/raw", func(w http.ResponseWriter, r *http.Request) {
			got, err := io.ReadAll(r.Body)
			if err != nil || string(got) != content || r.URL.RawQuery != query || r.ContentLength != int64(len(content)) {
				t.Errorf("%d bytes of %d for %s, %v", len(got), r.ContentLength, r.URL.RawQuery, err)
			}
			answer(200, `{"ok":true}`)(w, r)
		})
		o := client.WriteOptions{Mode: 0o755 | fs.ModeSetuid}
		if content == "" {
			o = client.WriteOptions{Append: true}
		}
		b := &body{Reader: strings.NewReader(content)}
		if err := c.Write(t.Context(), "abc", "a b", o, int64(len(content)), b); err != nil || !b.closed {
			t.Errorf("Write = %v, closed %v", err, b.closed)
		}
	}
}

func TestWriteTellsWhyItBrokeOff(t *testing.T) {
	gone := errors.New("disk is gone")
	c := serve(t, "PUT /v1/sessions/{id}/fs/raw", func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			t.Error("the daemon took the body for whole")
		}
	})
	err := c.Write(t.Context(), "abc", "/x", client.WriteOptions{}, 100, &body{Reader: iotest.ErrReader(gone)})
	if !errors.Is(err, gone) {
		t.Errorf("Write = %v, want %v", err, gone)
	}
}

func TestWriteRefusedBeforeItWasRead(t *testing.T) {
	c := serve(t, "PUT /v1/sessions/{id}/fs/raw", answer(409, `{"error":"it is there","code":"already_exists"}`))
	const size = 64 << 10 // what net/http reads before it answers, so that the answer arrives
	err := c.Write(t.Context(), "abc", "/x", client.WriteOptions{Create: true}, size, &body{Reader: strings.NewReader(strings.Repeat("x", size))})
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "already_exists" {
		t.Errorf("Write = %v, want already_exists", err)
	}
}

func TestUnpackAndPack(t *testing.T) {
	c := serve(t, "/v1/sessions/{id}/fs/archive", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "format=tar.zst&path=d" {
			t.Errorf("query %s", r.URL.RawQuery)
		}
		if r.Method == http.MethodGet {
			answer(200, "packed")(w, r)
			return
		}
		if got, err := io.ReadAll(r.Body); err != nil || string(got) != "archive" {
			t.Errorf("%q, %v", got, err)
		}
		answer(200, `{"files":2,"bytes":7}`)(w, r)
	})
	done, err := c.Unpack(t.Context(), "abc", "d", "tar.zst", 7, &body{Reader: strings.NewReader("archive")})
	if err != nil || done != (client.Unpacked{Files: 2, Bytes: 7}) {
		t.Errorf("Unpack = %+v, %v", done, err)
	}
	archive, err := c.Pack(t.Context(), "abc", "d", "tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if got, err := io.ReadAll(archive); err != nil || string(got) != "packed" {
		t.Errorf("Pack = %q, %v", got, err)
	}
}

func TestList(t *testing.T) {
	c := serve(t, "GET /v1/sessions/{id}/fs/list", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "cursor=YQ&depth=-1&limit=10000&path=%2Fx" {
			t.Errorf("query %s", r.URL.RawQuery)
		}
		answer(200, `{"path":"/x","entries":[{"name":"a","type":"file","size":3}],"truncated":true,"next_cursor":"Yg"}`)(w, r)
	})
	got, err := c.List(t.Context(), "abc", client.ListRequest{Path: "/x", Depth: -1, Cursor: "YQ"})
	want := client.Listing{Path: "/x", Entries: []client.Entry{{Name: "a", Type: "file", Size: 3}}, Truncated: true, NextCursor: "Yg"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// TestRequestsAboutFiles checks the request that each method makes.
func TestRequestsAboutFiles(t *testing.T) {
	for _, tt := range []struct {
		pattern, query, body string
		call                 func(context.Context, *client.Client) error
	}{
		{"GET stat", "follow=true&path=a", "", func(ctx context.Context, c *client.Client) error {
			_, err := c.Stat(ctx, "abc", "a", true)
			return err
		}},
		{"POST mkdir", "", `{"path":"a","mode":"0700","parents":true}`, func(ctx context.Context, c *client.Client) error {
			return c.Mkdir(ctx, "abc", client.MkdirRequest{Path: "a", Mode: "0700", Parents: true})
		}},
		{"POST move", "", `{"from":"a","to":"b","overwrite":true}`, func(ctx context.Context, c *client.Client) error {
			return c.Move(ctx, "abc", client.MoveRequest{From: "a", To: "b", Overwrite: true})
		}},
		{"POST copy", "", `{"from":"a","to":"b","recursive":true}`, func(ctx context.Context, c *client.Client) error {
			return c.Copy(ctx, "abc", client.CopyRequest{From: "a", To: "b", Recursive: true})
		}},
		{"POST delete", "", `{"path":"a","recursive":true}`, func(ctx context.Context, c *client.Client) error {
			return c.Remove(ctx, "abc", client.RemoveRequest{Path: "a", Recursive: true})
		}},
		{"POST chmod", "", `{"path":"a","mode":"0600"}`, func(ctx context.Context, c *client.Client) error {
			return c.Chmod(ctx, "abc", client.ChmodRequest{Path: "a", Mode: "0600"})
		}},
		{"POST edit", "", `{"path":"a","old":"x","new":"","count":2}`, func(ctx context.Context, c *client.Client) error {
			_, err := c.Edit(ctx, "abc", client.EditRequest{Path: "a", Old: "x", Count: 2})
			return err
		}},
		{"GET glob", "hidden=true&limit=5&path=d&pattern=%2A", "", func(ctx context.Context, c *client.Client) error {
			_, err := c.Glob(ctx, "abc", client.GlobRequest{Path: "d", Pattern: "*", Hidden: true, Limit: 5})
			return err
		}},
		{"GET grep", "after=1&before=2&ignore_case=true&include=%2A.go&literal=true&path=d&pattern=a%26b", "", func(ctx context.Context, c *client.Client) error {
			_, err := c.Grep(ctx, "abc", client.GrepRequest{Path: "d", Pattern: "a&b", Literal: true, IgnoreCase: true, Include: "*.go", Before: 2, After: 1})
			return err
		}},
	} {
		method, what, _ := strings.Cut(tt.pattern, " ")
		c := serve(t, method+" /v1/sessions/{id}/fs/"+what, func(w http.ResponseWriter, r *http.Request) {
			got, err := io.ReadAll(r.Body)
			if err != nil || string(got) != tt.body || r.URL.RawQuery != tt.query || r.PathValue("id") != "abc" {
				t.Errorf("%s: ?%s with %s, %v", tt.pattern, r.URL.RawQuery, got, err)
			}
			answer(200, `{}`)(w, r)
		})
		if err := tt.call(t.Context(), c); err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
		}
	}
}

func TestWatch(t *testing.T) {
	c := serve(t, "GET /v1/sessions/{id}/fs/watch", answer(200, `event: ready
data: {}

: still here

event: rename
data: {"path":"b","from":"a","type":"file"}

event: error
data: {"error":"the session is destroyed","code":"conflict"}

`))
	var got []client.Change
	err := c.Watch(t.Context(), "abc", "d", true, func(change client.Change) error {
		got = append(got, change)
		return nil
	})
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "conflict" {
		t.Errorf("Watch = %v", err)
	}
	if diff := cmp.Diff([]client.Change{{Op: "ready"}, {Op: "rename", Path: "b", From: "a", Type: "file"}}, got); diff != "" {
		t.Error(diff)
	}
	enough := errors.New("enough")
	if err := c.Watch(t.Context(), "abc", "d", false, func(client.Change) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("Watch = %v", err)
	}
}

func TestWatchThatBreaksOff(t *testing.T) {
	c := serve(t, "GET /v1/sessions/{id}/fs/watch", answer(200, "event: ready\ndata: {}\n\n"))
	if err := c.Watch(t.Context(), "abc", "d", false, func(client.Change) error { return nil }); err == nil {
		t.Error("the end of the stream is no error")
	}
}
