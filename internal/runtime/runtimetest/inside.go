package runtimetest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// exec shows that a shell is kept between commands.
func (s *suite) exec(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	if _, record := b.run(t, "exit_code() { return 3; }; exit_code"); record.ExitCode != 3 || record.Cause != protocol.CauseExited || record.DiskFull {
		t.Errorf("%+v", record)
	}
	b.wantOutput(t, "mkdir -p deep/er; cd deep/er; export A=1; b=2", "")
	b.wantOutput(t, `echo "$A $b ${PWD##*/}"`, "1 2 er\n")
	b.wantOutput(t, "echo err >&2", "err\n")
	if got, _ := b.run(t, "head -c 300000 /dev/zero"); len(got) != 300_000 || strings.Trim(got, "\x00") != "" {
		t.Errorf("%d bytes of output, want 300000 zeros", len(got))
	}
}

func (s *suite) env(t *testing.T) {
	spec := s.spec()
	spec.Env = map[string]string{"PLAIN": "value", "ODD": "a b'c\"d\n$PATH"}
	b := s.create(t, s.open(t), spec)
	b.wantOutput(t, `printf '%s|%s' "$PLAIN" "$ODD"`, "value|a b'c\"d\n$PATH")
}

func (s *suite) timeout(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	b.run(t, "true") // the shell may take its time to start
	var out bytes.Buffer
	e := protocol.Exec{ID: string(newID()), OutputLimit: 1 << 20, TimeoutMS: 1000, GraceMS: 50}
	start := time.Now()
	record, err := b.client.Exec(t.Context(), e, "x=kept; echo before; trap '' TERM; setsid sleep 600", nil, &out)
	if err != nil || record.Cause != protocol.CauseTimeout || record.ExitCode == 0 || !strings.HasPrefix(out.String(), "before\n") {
		t.Errorf("%q, %+v, %v", out.String(), record, err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	b.wantOutput(t, "echo $x", "kept\n")
}

func (s *suite) files(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	content := make([]byte, 1<<20)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	w := protocol.Write{Path: "a/b/file", Mode: 0o640}
	if err := b.client.Write(t.Context(), w, int64(len(content)), bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	b.wantOutput(t, "wc -c < a/b/file; stat -c %a a/b/file", "1048576\n640\n")
	info, r, err := b.client.Read(t.Context(), protocol.Read{Path: "a/b/file"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, content) || info.Size != int64(len(content)) || info.Type != "file" {
		t.Errorf("read %d bytes, %+v", len(got), info)
	}
	list, err := b.client.List(t.Context(), protocol.List{Path: "a", Max: 10})
	if err != nil || len(list.Entries) != 1 || list.Entries[0].Name != "b" || list.Entries[0].Type != "dir" {
		t.Errorf("%+v, %v", list, err)
	}
	_, _, err = b.client.Read(t.Context(), protocol.Read{Path: "no/such/file"})
	wantCode(t, "Read of no file", err, errdefs.NotFound)
	b.run(t, "ln -s /etc/hostname out")
	_, _, err = b.client.Read(t.Context(), protocol.Read{Path: "out"})
	if err == nil {
		t.Error("a symlink leads out of the workspace")
	}
}

// apart shows that two sandboxes have workspaces of their own.
func (s *suite) apart(t *testing.T) {
	d := s.open(t)
	a, b := s.create(t, d, s.spec()), s.create(t, d, s.spec())
	a.wantOutput(t, "echo a > mine; x=1", "")
	b.wantOutput(t, `ls; echo "[$x]"`, "[]\n")
}

func (s *suite) stats(t *testing.T) {
	spec := s.spec()
	b := s.create(t, s.open(t), spec)
	b.wantOutput(t, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; head -c 4000000 /dev/zero > big; sync", "")
	st, err := b.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.MemoryBytes <= 0 || st.MemoryLimit != spec.Limits.MemoryMB<<20 || st.MemoryPeak < st.MemoryBytes/2 {
		t.Errorf("memory %+v", st)
	}
	if st.CPUUsageUsec <= 0 || st.CPULimit != spec.Limits.CPU {
		t.Errorf("cpu %+v", st)
	}
	if st.Pids < 1 || st.PidsLimit != spec.Limits.Pids {
		t.Errorf("pids %+v", st)
	}
	if s.opts.Unlimited {
		return
	}
	if st.MemoryBytes > st.MemoryLimit || st.Pids > st.PidsLimit {
		t.Errorf("more used than allowed: %+v", st)
	}
	if st.DiskLimit <= 0 || st.DiskBytes < 4_000_000 || st.DiskBytes > st.DiskLimit {
		t.Errorf("disk %+v", st)
	}
}
