package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// scriptsAtOnce bounds the scripts that run at one time. Most wait for the daemon as long as they compute.
const scriptsAtOnce = 2

// script is a script of the shell. Its name is that of its user.
type script struct{ name, text string }

// scripts implements flag.Value: each value is NAME=SCRIPT.
type scripts []script

func (s *scripts) String() string { return "" }

func (s *scripts) Set(value string) error {
	name, text, ok := strings.Cut(value, "=")
	if !ok || name == "" || text == "" {
		return errors.New("want NAME=SCRIPT")
	}
	if slices.ContainsFunc(*s, func(other script) bool { return other.name == name }) {
		return fmt.Errorf("there are two scripts %s", name)
	}
	*s = append(*s, script{name, text})
	return nil
}

// run runs all scripts to their ends, in this order as far as there is room. It returns the exit code of the first one
// that failed.
func (s scripts) run(ctx context.Context, d *daemon, env []string) (code int, err error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex // guards standard output, code and err
		slots = make(chan struct{}, scriptsAtOnce)
	)
	for _, one := range s {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			var said bytes.Buffer
			ended, failed := one.run(ctx, d, env, &said)
			mu.Lock()
			defer mu.Unlock()
			fmt.Printf("== %s\n%s== %s ended with %d after %.0f s\n", one.name, said.Bytes(), one.name, ended, time.Since(began).Seconds())
			err = errors.Join(err, failed)
			if code == 0 {
				code = ended
			}
		})
	}
	wg.Wait()
	return code, err
}

// run runs the script with the key of a user of its own, so that it finds the sessions, snapshots and workspaces of no
// other, and shares no limit of an owner. What it leaves goes with the user.
func (s script) run(ctx context.Context, d *daemon, env []string, said *bytes.Buffer) (code int, err error) {
	key, err := d.newKey(ctx, s.name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.removeUser(s.name)) }()
	code, err = command(ctx, []string{"sh", "-ec", s.text}, append(slices.Clone(env), "SANDKASTEN_API_KEY="+key), said, said)
	if err != nil {
		return code, fmt.Errorf("%s: %w", s.name, err)
	}
	return code, nil
}
