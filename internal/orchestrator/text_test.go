package orchestrator_test

import (
	"context"
	"testing"

	"github.com/sandkasten/sandkasten/internal/orchestrator"
)

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithCancel(context.WithoutCancel(t.Context()))
}

func TestSnapshotsHaveUUIDs(t *testing.T) {
	for _, id := range []string{"aaaaaaaaaaaaaaaaaaaaaaaaaa", "f5q2bz7lq4m3k5n6p7r2s3t4u4", "77777777777777777777777774"} {
		uuid := orchestrator.SnapshotUUID(id)
		if back, ok := orchestrator.SnapshotID(uuid); !ok || back != id || len(uuid) != 36 {
			t.Errorf("%s is %s, which is %s", id, uuid, back)
		}
	}
	if got := orchestrator.SnapshotUUID(""); got != "" {
		t.Errorf("none is %q", got)
	}
}

func TestUUIDs(t *testing.T) {
	for text, want := range map[string]string{
		"6F1C1C9E-4B43-4D25-9F0E-2F6F4A0C0A11":  someID,
		"6f1c1c9e4b434d259f0e2f6f4a0c0a11":      someID,
		"6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a1":   "",
		"6f1c1c9e-4b43-4d259-f0e-2f6f4a0c0a11":  "",
		"6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a1g":  "",
		"6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a11a": "",
		"":                                      "",
	} {
		if got, ok := orchestrator.ParseUUID(text); got != want || ok != (want != "") {
			t.Errorf("%q is %q", text, got)
		}
	}
}
