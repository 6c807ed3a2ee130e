package main

import (
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// TestCasesOnDocker runs the cases on the other driver, in one language: what
// differs between drivers is below what the SDKs see. It needs the TypeScript
// SDK built, and bin/sandkasten.
func TestCasesOnDocker(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Setenv("DOCKER_HOST", testenv.StartEngine(t).Host)
	code, err := run(t.Context(), []string{
		"--driver", "docker", "sh", "-c", "cd ../../typescript && exec node --test test/daemon/contract.test.mjs",
	})
	if code != 0 || err != nil {
		t.Errorf("the cases ended with %d, %v", code, err)
	}
}
