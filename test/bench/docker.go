package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/sandkasten/sandkasten/test/bench/docker"
)

// engineSubject makes containers through the Engine API: create, start, and
// an exec for each command.
type engineSubject struct {
	engine *docker.Engine
	image  string
}

func (s *engineSubject) name() string { return "docker, Engine API" }

func (s *engineSubject) create(ctx context.Context) (sandbox, error) {
	spec := object{
		"Image": s.image, "Cmd": []string{"/bin/sleep", "infinity"}, "NetworkDisabled": true,
		"HostConfig": object{
			"NetworkMode": "none", "Memory": memoryLimit, "PidsLimit": pidsLimit,
			"CpuQuota": cpuQuota, "CpuPeriod": cpuPeriod, "CapDrop": []string{"ALL"},
			"SecurityOpt": []string{"no-new-privileges"}, "ReadonlyRootfs": true, "Tmpfs": object{"/tmp": ""},
		},
	}
	var made struct{ Id string }
	if _, err := s.engine.Call(ctx, http.MethodPost, "/containers/create", spec, &made); err != nil {
		return nil, err
	}
	box := &engineSandbox{s.engine, made.Id}
	_, err := s.engine.Call(ctx, http.MethodPost, "/containers/"+made.Id+"/start", nil, nil)
	if err == nil {
		err = box.run(ctx, "ok", "/bin/echo", "ok")
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", err, box.destroy(ctx))
	}
	return box, nil
}

type engineSandbox struct {
	engine *docker.Engine
	id     string
}

func (s *engineSandbox) exec(ctx context.Context) error { return s.run(ctx, "", "true") }

// run runs a command and wants its output to contain want. The stream ends
// with the command, and the exit code is asked for after it, as clients do.
func (s *engineSandbox) run(ctx context.Context, want string, args ...string) error {
	var made struct{ Id string }
	spec := object{"AttachStdout": true, "AttachStderr": true, "Cmd": args}
	if _, err := s.engine.Call(ctx, http.MethodPost, "/containers/"+s.id+"/exec", spec, &made); err != nil {
		return err
	}
	stream, err := s.engine.Call(ctx, http.MethodPost, "/exec/"+made.Id+"/start", object{"Detach": false, "Tty": false}, nil)
	if err != nil {
		return err
	}
	var state struct{ ExitCode *int }
	if _, err := s.engine.Call(ctx, http.MethodGet, "/exec/"+made.Id+"/json", nil, &state); err != nil {
		return err
	}
	if state.ExitCode == nil || *state.ExitCode != 0 || !strings.Contains(string(stream), want) {
		return fmt.Errorf("docker exec %q: exit code %v, output %q", args, state.ExitCode, stream)
	}
	return nil
}

// stream runs a shell command.
func (s *engineSandbox) stream(ctx context.Context, command string) (io.ReadCloser, error) {
	var made struct{ Id string }
	spec := object{"AttachStdout": true, "AttachStderr": true, "Cmd": []string{"bash", "-c", command}}
	if _, err := s.engine.Call(ctx, http.MethodPost, "/containers/"+s.id+"/exec", spec, &made); err != nil {
		return nil, err
	}
	return s.engine.Attach(ctx, "/exec/"+made.Id+"/start", object{"Detach": false, "Tty": false})
}

func (s *engineSandbox) destroy(ctx context.Context) error {
	_, err := s.engine.Call(ctx, http.MethodDelete, "/containers/"+s.id+"?force=1", nil, nil)
	return err
}
