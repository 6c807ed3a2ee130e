package blackbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// ImagesVar is the environment variable that names an image store to use instead
// of one that Images makes, for machines on which an import takes minutes: those of
// test/vm.
const ImagesVar = "SANDKASTEN_TEST_IMAGES"

// Images returns an image store with the image base, which is the root file
// system of testenv. It goes with the test; several daemons may use it.
func Images(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(ImagesVar); dir != "" {
		return dir
	}
	data := testenv.DataDir(t)
	if err := ImportImage(t.Context(), testenv.Program(t), testenv.BaseRootfs(t), "base", append(Environ(), "SANDKASTEN_DATA_DIR="+data)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(data, "images")
}

// ImportImage has the program store a root file system as the image name.
func ImportImage(ctx context.Context, program, rootfs, name string, env []string) error {
	pack := exec.CommandContext(ctx, "tar", "-C", rootfs, "-c", ".")
	load := exec.CommandContext(ctx, program, "image", "import", "--name", name, "--tar", "-")
	load.Env = env
	var err error
	if load.Stdin, err = pack.StdoutPipe(); err != nil {
		return err
	}
	if err := pack.Start(); err != nil {
		return err
	}
	text, err := load.CombinedOutput()
	if err != nil {
		pack.Process.Kill() // nobody reads what it writes
	}
	if err := errors.Join(err, pack.Wait()); err != nil {
		return fmt.Errorf("import image %s: %w\n%s", name, err, text)
	}
	return nil
}
