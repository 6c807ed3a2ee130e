package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// volume waits for a moment in which the workspace's place shows the volume
// that the workspace is in, and puts the workspace out of the way there. It
// writes a line to the file that it is given when it begins to.
func volume(args []string) error {
	if err := os.WriteFile(args[0], []byte("waiting\n"), 0o600); err != nil {
		return err
	}
	for {
		dir, err := unix.Open("/workspace", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			continue // nothing is mounted for a moment
		}
		if unix.Renameat(dir, "workspace", dir, "moved") == nil {
			fmt.Println("the volume")
			return nil
		}
		if err := unix.Close(dir); err != nil {
			return err
		}
	}
}
