// Command probe runs inside a sandbox for the attacks. It does what its
// first argument says and prints what came of it; it judges nothing.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: probe ACTION [ARGUMENT...]"))
	}
	action, ok := actions()[os.Args[1]]
	if !ok {
		fail(fmt.Errorf("no action %q", os.Args[1]))
	}
	if err := action(os.Args[2:]); err != nil {
		fail(err)
	}
}

func actions() map[string]func(args []string) error {
	return map[string]func([]string) error{
		"calls":   calls,
		"tty":     onTerminal,
		"sockets": sockets,
		"int80":   int80,
		"i386":    i386,
		"kill":    killAll,
		"flood":   flood,
		"threads": threads,
		"alloc":   alloc,
		"volume":  volume,
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "probe:", err)
	os.Exit(125)
}

func report(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }
