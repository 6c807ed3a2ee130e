package sandkasten_test

import (
	"bytes"
	"context"
	"errors"
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

func TestTerminalOfADaemon(t *testing.T) {
	needDaemon(t)
	r := newRun(t)
	session := r.create()
	first, err := session.OpenTerminal(r.ctx, &sandkasten.TerminalOptions{Term: "xterm", Command: []string{"sh", "-c", "read a; echo got $a; read b; exit $b"}})
	r.must(err)
	r.press(first, "one\r")
	seen := r.until(first, "got one")
	r.must(first.Close())
	second, err := session.AttachTerminal(r.ctx, first.ID(), &sandkasten.AttachTerminalOptions{SinceSeq: first.Seq()})
	r.must(err)
	defer second.Close()
	r.must(second.Resize(30, 100))
	r.press(second, "7\r")
	rest, err := io.ReadAll(second)
	r.must(err)
	if code, ended := second.ExitCode(); code != 7 || !ended || strings.Contains(string(rest), "got one") {
		t.Errorf("exit code %d, %v, behind %q and %q", code, ended, seen, rest)
	}
}

func (r *run) press(t *sandkasten.Terminal, keys string) {
	r.t.Helper()
	_, err := io.WriteString(t, keys)
	r.must(err)
}

// until reads as far as a text.
func (r *run) until(in io.Reader, text string) string {
	r.t.Helper()
	seen, piece := "", make([]byte, 1024)
	for !strings.Contains(seen, text) {
		n, err := in.Read(piece)
		r.must(err)
		seen += string(piece[:n])
	}
	return seen
}

func TestTunnelToADaemon(t *testing.T) {
	needDaemon(t)
	r := newRun(t)
	session := r.create()
	const server = `import socket
l = socket.create_server(("127.0.0.1", 7000))
print("listening", flush=True)
c, _ = l.accept()
text = b""
while piece := c.recv(65536):
    text += piece
c.sendall(text.upper())
c.close()`
	_, err := session.DialPort(r.ctx, 7000)
	if !errors.Is(err, sandkasten.ErrNotFound) {
		t.Errorf("to nobody: %v", err)
	}
	for _, err := range session.StreamProcess([]string{"python3", "-c", server}, nil).Chunks(r.ctx) {
		r.must(err)
		break // it listens, and goes on
	}
	conn, err := session.DialPort(r.ctx, 7000)
	r.must(err)
	defer conn.Close()
	_, err = io.WriteString(conn, strings.Repeat("a", 100_000))
	r.must(err)
	r.must(conn.CloseWrite())
	text, err := io.ReadAll(conn)
	r.must(err)
	if string(text) != strings.Repeat("A", 100_000) {
		t.Errorf("%d bytes came back", len(text))
	}
}

func TestShellsOfADaemon(t *testing.T) {
	needDaemon(t)
	r := newRun(t)
	session := r.create()
	_, err := session.Exec(r.ctx, "cd /tmp", &sandkasten.ExecOptions{Shell: "build"})
	r.must(err)
	shells, err := session.ListShells(r.ctx)
	r.must(err)
	execs, err := session.ListExecs(r.ctx)
	r.must(err)
	if len(shells) != 2 || shells[1].Name != "build" || shells[1].Cwd != "/tmp" || len(execs) != 1 || execs[0].Shell != "build" {
		t.Errorf("shells %+v, execs %+v", shells, execs)
	}
	if end, ended := execs[0].End(); !ended || end.ExitCode != 0 || end.Cause != "exited" {
		t.Errorf("it ended with %+v, %v", end, ended)
	}
	r.must(session.CloseShell(r.ctx, "build"))
	if shells, err = session.ListShells(r.ctx); err != nil || len(shells) != 1 {
		t.Errorf("shells %+v, %v", shells, err)
	}
}
