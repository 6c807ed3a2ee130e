// Command parallel tries the same program with several seeds at once, each in a
// sandbox of its own, and prints what they say in order.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"

	"github.com/sandkasten/sandkasten/sdk/go"
)

const program = `import random, sys
random.seed(int(sys.argv[1]))
print(random.randint(1, 6))
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	client, err := sandkasten.New(sandkasten.Options{})
	if err != nil {
		return err
	}
	defer client.Close()

	var wait sync.WaitGroup
	said, failed := make([]string, 4), make([]error, 4)
	for seed := range said {
		wait.Add(1)
		go func() {
			defer wait.Done()
			said[seed], failed[seed] = roll(ctx, client, seed)
		}()
	}
	wait.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for seed, number := range said {
		fmt.Printf("seed %d: %s\n", seed, number)
	}
	return nil
}

func roll(ctx context.Context, client *sandkasten.Client, seed int) (number string, err error) {
	session, err := client.CreateSession(ctx, &sandkasten.CreateOptions{Image: "python"})
	if err != nil {
		return "", err
	}
	// Also when ctx has ended: the sandbox would wait for its TTL.
	defer func() { err = errors.Join(err, session.Destroy(context.WithoutCancel(ctx))) }()

	if err := session.Write(ctx, "roll.py", strings.NewReader(program), nil); err != nil {
		return "", err
	}
	result, err := session.Exec(ctx, fmt.Sprint("python3 roll.py ", seed), nil)
	return strings.TrimSpace(result.Output), err
}
