package networks

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// SayWhileAsked says, after a while, what a create with groups waits for: the package clients
// of an image that nobody has asked for their hosts yet. stop ends that.
func SayWhileAsked(ctx context.Context, a *cli.App, cl *sandkasten.Client, o *sandkasten.CreateOptions, after time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			return
		case <-time.After(after):
		}
		if needsAsking(ctx, cl, o) {
			a.Say("The package clients of %s are asked for their hosts first. That happens once for each image, and takes seconds.", o.Image)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// needsAsking reports whether a session names groups of an image that was not asked.
func needsAsking(ctx context.Context, cl *sandkasten.Client, o *sandkasten.CreateOptions) bool {
	if o.Image == "" || o.Network == nil || !slices.ContainsFunc(slices.Concat(o.Network.Allow, o.Network.Deny), isGroup) {
		return false
	}
	image, err := cl.GetImage(ctx, o.Image)
	return err == nil && image.NetworkGroups == nil
}

func isGroup(entry string) bool { return strings.HasPrefix(entry, "@") }
