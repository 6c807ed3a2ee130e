package runner_test

import (
	"testing"

	"github.com/sandkasten/sandkasten/internal/runner"
)

func TestWarmSpeaksTheProtocol(t *testing.T) {
	if err := runner.Warm(); err != nil {
		t.Fatal(err)
	}
}
