package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// sampleFile returns a file without a name that has size bytes, none of which a
// file system stores as a hole. The caller closes it.
func sampleFile(dir string, size int64) (*os.File, error) {
	file, err := os.CreateTemp(dir, "source-*")
	if err != nil {
		return nil, err
	}
	err = os.Remove(file.Name())
	piece := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	for at := int64(0); err == nil && at < size; at += int64(len(piece)) {
		_, err = file.WriteAt(piece[:min(int64(len(piece)), size-at)], at)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// runShell runs a command of the host's.
func runShell(ctx context.Context, command string) error {
	out, err := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", command).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return nil
}
