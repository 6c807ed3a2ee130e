package sandkasten_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// What the contract has no case for, with a real daemon.

func TestArchivesOfADaemon(t *testing.T) {
	needDaemon(t)
	r := newRun(t)
	session := r.create()
	r.must(session.Write(r.ctx, "in/sub/a.txt", strings.NewReader("text"), nil))
	archive, err := session.DownloadArchive(r.ctx, "in", sandkasten.TarGz)
	r.must(err)
	defer archive.Close()
	packed, err := io.ReadAll(archive)
	r.must(err)
	done, err := session.UploadArchive(r.ctx, "out", bytes.NewReader(packed), &sandkasten.ArchiveOptions{Format: sandkasten.TarGz})
	r.must(err)
	result, err := session.Exec(r.ctx, "diff -r in out && echo same", nil)
	r.must(err)
	if result.Output != "same\n" || done.Files == 0 {
		t.Errorf("unpacked %+v: %s", done, result.Output)
	}
}

func TestWatchOfADaemon(t *testing.T) {
	needDaemon(t)
	r := newRun(t)
	session := r.create()
	for change, err := range session.Watch(r.ctx, ".", nil) {
		r.must(err)
		if change.Op == "ready" {
			r.must(session.Write(r.ctx, "a.txt", strings.NewReader("text"), nil))
		}
		if change.Path == "a.txt" {
			break
		}
	}
}

func TestSnapshotsGoThroughAFile(t *testing.T) {
	needDaemon(t)
	r := newRun(t)
	session := r.create()
	client := r.client("")
	r.must(session.Write(r.ctx, "a.txt", strings.NewReader("text"), nil))
	first, err := session.Snapshot(r.ctx, nil)
	r.must(err)
	archive, err := client.DownloadSnapshot(r.ctx, first.ID)
	r.must(err)
	defer archive.Close()
	kept, err := io.ReadAll(archive)
	r.must(err)
	second, err := client.UploadSnapshot(r.ctx, bytes.NewReader(kept), &sandkasten.UploadSnapshotOptions{Label: "again"})
	r.must(err)
	defer func() {
		for _, id := range []string{first.ID, second.ID} {
			r.must(client.DeleteSnapshot(context.WithoutCancel(r.ctx), id))
		}
	}()
	restored, err := client.CreateSession(r.ctx, &sandkasten.CreateOptions{Image: "base", RestoreSnapshotID: second.ID})
	r.must(err)
	r.keep("restored", restored)
	text, err := restored.ReadAll(r.ctx, "a.txt", nil)
	r.must(err)
	if string(text) != "text" || second.Label != "again" {
		t.Errorf("restored %q of %+v", text, second)
	}
}

func (r *run) create() *sandkasten.Session {
	r.t.Helper()
	session, err := r.client("").CreateSession(r.ctx, &sandkasten.CreateOptions{Image: "base"})
	r.must(err)
	r.keep("s", session)
	return session
}

func (r *run) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}
