package session_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/protocol"
)

// A session's own scope goes before that of its owner, and that before the daemon's.
func TestFileScope(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	tests := []struct {
		general     bool
		owner, asks session.FileScope
		all         bool
	}{
		{false, "", "", false},
		{true, "", "", true},
		{false, session.FileScopeSandbox, "", true},
		{true, session.FileScopeWorkspace, "", false},
		{false, "", session.FileScopeSandbox, true},
		{true, session.FileScopeSandbox, session.FileScopeWorkspace, false},
		{false, session.FileScopeWorkspace, session.FileScopeSandbox, true},
	}
	for _, tt := range tests {
		set := func(o *session.Options) {
			o.FilesOutsideWorkspace = tt.general
			o.FileScopeOf = map[string]session.FileScope{"alice": tt.owner}
		}
		d := h.start(t, set)
		s := d.createAs(t, as("alice"), session.CreateRequest{FileScope: tt.asks})
		check := func(when string) {
			t.Helper()
			_, err := d.Files.Stat(t.Context(), everyone, string(s.ID), protocol.Stat{Path: "/etc/hostname"})
			var e *errdefs.Error
			if tt.all != (err == nil) || err != nil && (!errors.As(err, &e) || e.Reason != errdefs.OutsideWorkspace || !strings.Contains(e.Message, "file_scope")) {
				t.Errorf("%s, %+v: %v", when, tt, err)
			}
			_, err = d.Execs.Run(t.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true", OutputFile: "/tmp/" + string(s.ID)}, io.Discard)
			if tt.all != (err == nil) {
				t.Errorf("%s, %+v, output_file: %v", when, tt, err)
			}
		}
		check("new")
		d.stop()
		d = h.start(t, set)
		check("after a restart of the daemon")
		d.stop()
	}
	d := h.start(t)
	_, err := d.Sessions.Create(t.Context(), everyone, session.CreateRequest{FileScope: "host"})
	wantCode(t, err, errdefs.InvalidArgument)
}

func TestFilesOutsideTheWorkspace(t *testing.T) {
	h := newHost(t)
	d := h.start(t, func(o *session.Options) { o.FilesOutsideWorkspace = true })
	s := d.create(t, session.CreateRequest{})
	_, r, err := d.Files.Read(t.Context(), everyone, string(s.ID), protocol.Read{Path: "/etc/hostname"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	d.output(t, s.ID, "ln -s /etc/hostname link")
	if _, r, err = d.Files.Read(t.Context(), everyone, string(s.ID), protocol.Read{Path: "link"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	d.stop()

	d = h.start(t)
	_, _, err = d.Files.Read(t.Context(), everyone, string(s.ID), protocol.Read{Path: "link"})
	if err == nil || errdefs.CodeOf(err) == errdefs.Internal {
		t.Errorf("a link leads out of the workspace: %v", err)
	}
}
