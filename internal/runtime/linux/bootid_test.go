package linux

import (
	"regexp"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
)

// Each boot of each sandbox has an id of its own in /proc, in the form of the
// kernel's, which nothing inside can change; the host's is not to be had.
func TestBootIDs(t *testing.T) {
	d := root(t)
	seen := map[string]string{d.bootID + "\n": "the host's"}
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n$`)
	look := func(whose string, sh func(string) string) string {
		t.Helper()
		id := sh("cat " + stage.BootIDFile)
		if before, ok := seen[id]; ok || !form.MatchString(id) {
			t.Errorf("%s is %q, as %s", whose, id, before)
		}
		seen[id] = whose
		return id
	}
	sh := create(t, d, "a", runtime.Spec{})
	id := look("a's", sh)
	for _, try := range []string{
		"echo x > " + stage.BootIDFile, "chmod 666 " + stage.BootIDFile, "rm -f " + stage.BootIDFile, "mv " + stage.BootIDFile + " /tmp", "umount " + stage.BootIDFile, "umount -l /proc",
		"mount --bind /etc/hostname " + stage.BootIDFile, "mount -t proc proc /mnt",
	} {
		if out := sh("(" + try + ") 2>/dev/null; echo $?; cat " + stage.BootIDFile); out == "0\n"+id || len(out) < len(id) || out[len(out)-len(id):] != id {
			t.Errorf("%s: %q", try, out)
		}
	}
	look("b's", create(t, d, "b", runtime.Spec{ReadonlyRoot: true}))
	for _, fork := range fork(t, d, "a", runtime.Spec{}, "c", "d").Sandboxes {
		look("a fork's", func(text string) string { return command(t, fork, text) })
	}
	create(t, d, "ready", runtime.Spec{})
	if _, err := d.Claim(t.Context(), "ready", "claimed", runtime.Spec{Image: "test"}); err != nil {
		t.Fatal(err)
	}
	look("a claimed one's", session(t, d, "claimed"))
	if err := d.Stop(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	again, err := d.Start(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	look("a's at its next boot", func(text string) string { return command(t, again, text) })
}
