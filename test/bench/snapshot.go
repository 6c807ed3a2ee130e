package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Names of the rows of snapshots.
const (
	snapMake    = "snapshot"
	snapRestore = "restore, with the creation of the session"
	snapPack    = "tar and zstd -1 on the host"
	snapUnpack  = "zstd -d and tar on the host"
)

// snapshotMB is how much there is to save: what an image has in /usr, again and
// again, which is many small files and some large ones.
const snapshotMB = 1024

// snapshots measures the saving and bringing back of a workspace against what
// the host's own programs need for the same files on the same disk.
func (s *suite) snapshots(ctx context.Context) (err error) {
	if s.daemon == nil {
		return nil
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := s.daemon.call(ctx, http.MethodPost, "/v1/sessions", object{"image": imageName, "disk_mb": 6 << 10}, &made); err != nil {
		return err
	}
	box := &session{s.daemon, made.ID}
	defer func() { err = errors.Join(err, box.destroy(ctx)) }()
	fill := fmt.Sprintf("i=0; while [ $(du -sm . | cut -f1) -lt %d ]; do i=$((i+1)); cp -a /usr $i; done", int(snapshotMB*s.scale))
	if err := box.run(ctx, fill, ""); err != nil {
		return err
	}
	dir := filepath.Join(s.daemon.dir, "same-files")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kept, err := box.save(ctx)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.daemon.call(ctx, http.MethodDelete, "/v1/snapshots/"+kept.ID, nil, nil))
	}()
	fetch := fmt.Sprintf("curl -sSf -H 'Authorization: Bearer %s' %s/v1/snapshots/%s/download | tar -xO workspace.tar.zst | zstd -dq | tar -x -C %s/files",
		s.daemon.key, s.daemon.base, kept.ID, dir)
	pack := fmt.Sprintf("tar -C %[1]s/files -c . | zstd -1 -q -f -o %[1]s/archive", dir)
	// The order is of chance: who unpacks first needs an archive too.
	if err := runShell(ctx, "mkdir -p "+dir+"/files && "+fetch+" && "+pack); err != nil {
		return err
	}
	measured, err := interleave(ctx, s.rng, []contestant{
		onlyTimed(snapMake, func(ctx context.Context) error {
			again, err := box.save(ctx)
			return errors.Join(err, s.daemon.call(ctx, http.MethodDelete, "/v1/snapshots/"+again.ID, nil, nil))
		}),
		onlyTimed(snapRestore, func(ctx context.Context) error {
			request := object{"image": imageName, "disk_mb": 6 << 10, "restore_snapshot_id": kept.ID}
			if err := s.daemon.call(ctx, http.MethodPost, "/v1/sessions", request, &made); err != nil {
				return err
			}
			return (&session{s.daemon, made.ID}).destroy(ctx)
		}),
		onlyTimed(snapPack, func(ctx context.Context) error {
			return runShell(ctx, pack)
		}),
		onlyTimed(snapUnpack, func(ctx context.Context) error {
			return runShell(ctx, fmt.Sprintf("mkdir %[1]s/out && zstd -dqc %[1]s/archive | tar -x -C %[1]s/out && rm -r %[1]s/out", dir))
		}),
	}, 1, 3)
	s.results.Snapshots = rates(measured["all"], kept.FileBytes)
	return err
}

// onlyTimed is a contestant of which the whole time counts.
func onlyTimed(name string, f func(context.Context) error) contestant {
	return contestant{name, 1, func(ctx context.Context, record func(string, time.Duration)) error {
		begin := time.Now()
		err := f(ctx)
		record("all", time.Since(begin))
		return err
	}}
}

type savedSnapshot struct {
	ID        string `json:"id"`
	FileBytes int64  `json:"file_bytes"`
}

func (s *session) save(ctx context.Context) (made savedSnapshot, err error) {
	err = s.daemon.call(ctx, http.MethodPost, "/v1/sessions/"+s.id+"/snapshots", object{}, &made)
	return made, err
}
