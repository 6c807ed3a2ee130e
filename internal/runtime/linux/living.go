package linux

import (
	"path/filepath"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/inspect"
)

// Living counts the sandboxes of a data directory whose runners live on this host,
// whichever installation's they are. It needs no driver.
func Living(dataDir string) (living int, err error) {
	d := &Driver{opts: Options{DataDir: dataDir}, sandboxes: filepath.Join(dataDir, "sandboxes")}
	if d.bootID, err = readBootID(); err != nil {
		return 0, err
	}
	names, err := inspect.Names(d.sandboxes)
	for _, id := range names {
		var s state
		if readJSON(filepath.Join(d.dir(runtime.ID(id)), stateFile), &s) == nil && s.Process.alive(d.bootID) {
			living++
		}
	}
	return living, err
}
