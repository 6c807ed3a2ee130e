package main

import (
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// TestCasesOnDocker runs the cases on the other driver, in every language and with one daemon. It needs
// what `go tool task test:sdk` installs and builds for each SDK, and bin/sandkasten.
func TestCasesOnDocker(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Setenv("DOCKER_HOST", testenv.StartEngine(t).Host)
	args := []string{"--driver", "docker"}
	for sdk, script := range map[string]string{
		"typescript": "cd ../../typescript && exec node --test test/daemon/contract.test.mjs",
		"python":     "cd ../../python && exec ../../.task/python/bin/python -m pytest tests/test_contract.py",
		"go":         "cd ../../go && CGO_ENABLED=1 exec go test -race -trimpath -vet=off -count=1 -run TestContract .",
	} {
		args = append(args, "-each", sdk+"="+script)
	}
	code, err := run(t.Context(), args)
	if code != 0 || err != nil {
		t.Errorf("the cases ended with %d, %v", code, err)
	}
}
