package docker

import (
	"fmt"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/runtime"
)

// testMany makes 50 sandboxes at once, of which none may fail, and has each
// answer.
func testMany(t *testing.T, d *Driver) {
	const many = 50
	begin := time.Now()
	made := make([]runtime.Sandbox, many)
	var all errgroup.Group
	for i := range many {
		all.Go(func() (err error) {
			spec := testSpec()
			spec.Limits.MemoryMB = 32
			made[i], err = d.Create(t.Context(), runtime.ID(fmt.Sprintf("many%d", i)), spec)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d sandboxes were there after %v", many, time.Since(begin))
	for _, s := range made {
		if s == nil {
			continue
		}
		x := use(d, s)
		if got := x.run(t, "echo $((6*7))"); got != "42" {
			t.Errorf("%s says %q", s.ID(), got)
		}
		if err := x.destroy(); err != nil {
			t.Error(err)
		}
	}
}

// BenchmarkEngineRun is what BenchmarkCreate is to be compared with: a container of
// the same image with the same limits and walls, up to the first line of its
// program, as `docker run` makes it, without the time that its command line takes.
func BenchmarkEngineRun(b *testing.B) {
	d := benchDriver(b)
	x := newBox(b, d, "model")
	model, err := d.inspect(b.Context(), x.ID())
	if err != nil {
		b.Fatal(err)
	}
	host := *model.HostConfig
	host.Mounts = append([]mount.Mount{}, host.Mounts...)
	for b.Loop() {
		made, err := d.engine.ContainerCreate(b.Context(), client.ContainerCreateOptions{
			Config:     &container.Config{Image: model.Config.Image, Cmd: []string{"/bin/echo", "ok"}, AttachStdout: true},
			HostConfig: &host,
		})
		if err != nil {
			b.Fatal(err)
		}
		attached, err := d.engine.ContainerAttach(b.Context(), made.ID, client.ContainerAttachOptions{Stream: true, Stdout: true})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := d.engine.ContainerStart(b.Context(), made.ID, client.ContainerStartOptions{}); err != nil {
			b.Fatal(err)
		}
		line := make([]byte, 2)
		if _, err := (&frames{from: attached.Reader, only: stdoutStream}).Read(line); err != nil || string(line) != "ok" {
			b.Fatalf("%q, %v", line, err)
		}
		b.StopTimer()
		attached.Close()
		if _, err := d.engine.ContainerRemove(b.Context(), made.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
