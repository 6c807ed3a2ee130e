package pool

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

const (
	createTimeout  = time.Minute      // for the driver to make one
	destroyTimeout = 30 * time.Second // for the driver to remove one
	pingTimeout    = 2 * time.Second  // for the runner of one that was found
	pingsAtOnce    = 8
)

// Run takes up the ready sandboxes of an earlier run, and then keeps as many
// ready as are wanted, one at a time, until ctx is done. They live on when it
// returns.
func (p *Pool) Run(ctx context.Context) error {
	tick := time.NewTicker(p.opts.Every)
	defer tick.Stop()
	for {
		p.resolve(ctx)
		err := p.adopt(ctx)
		if err == nil {
			break
		}
		if ctx.Err() == nil {
			p.opts.Log.ErrorContext(ctx, "cannot look for ready sandboxes yet", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	for {
		for p.step(ctx) {
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-tick.C:
			p.resolve(ctx)
			p.verify(ctx)
		}
	}
}

// adopt finds the ready sandboxes that there are. What cannot be used is
// removed.
func (p *Pool) adopt(ctx context.Context) error {
	seen, err := runtime.Survey(ctx, p.opts.Driver)
	if err != nil {
		return err
	}
	var found []runtime.ID
	for id := range seen.Sandboxes {
		if Owns(id) {
			found = append(found, id)
		}
	}
	var asking errgroup.Group
	asking.SetLimit(pingsAtOnce)
	for _, id := range found {
		asking.Go(func() error {
			if err := p.ping(ctx, id); err != nil {
				p.opts.Log.InfoContext(ctx, "removing a ready sandbox of an earlier run that does not answer", "sandbox", id, "err", err)
				p.discard(id)
				return nil
			}
			p.shelve(id)
			return nil
		})
	}
	return asking.Wait()
}

// ping asks a runner whether it is there.
func (p *Pool) ping(ctx context.Context, id runtime.ID) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	sandbox, err := p.opts.Driver.Open(ctx, id)
	if err != nil {
		return err
	}
	client := runnerclient.Client{Dial: sandbox.DialRunner}
	if parker, ok := sandbox.(runtime.Parker); ok {
		client.Park = parker.Park // for the claim
	}
	if err := client.Ping(ctx); err != nil {
		return errors.Join(err, client.Close())
	}
	return client.Close()
}

// shelve puts a sandbox where it belongs, or among those to be removed.
func (p *Pool) shelve(id runtime.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shelves {
		if s.key == keyOf(id) && s.key != "" {
			s.ready = append(s.ready, id)
			p.opts.Changed()
			return
		}
	}
	p.discards = append(p.discards, id)
}

// resolve looks what the names of the images stand for now. What is ready of
// another image is removed.
func (p *Pool) resolve(ctx context.Context) {
	for _, s := range p.shelves {
		digest, err := p.opts.Resolve(ctx, s.image)
		p.mu.Lock()
		switch {
		case err == nil && digest != s.spec.Image:
			p.discards = append(p.discards, s.ready...)
			s.spec = p.opts.Spec
			s.spec.Image = digest
			s.key, s.ready = p.key(s.spec), nil
			s.err, s.retry = "", backoff{}
		case err != nil && errdefs.CodeOf(err) != errdefs.Internal: // it is not there, or may not be used
			p.discards = append(p.discards, s.ready...)
			s.spec, s.key, s.ready, s.err = runtime.Spec{}, "", nil, errdefs.MessageOf(err)
		}
		p.mu.Unlock()
	}
	p.opts.Changed()
}

// verify looks for ready sandboxes that have died. It does not contact their
// runners: a claim does.
func (p *Pool) verify(ctx context.Context) {
	for _, s := range p.shelves {
		p.mu.Lock()
		ready := slices.Clone(s.ready)
		p.mu.Unlock()
		for _, id := range ready {
			if _, err := p.opts.Driver.Open(ctx, id); errdefs.Is(err, errdefs.NotFound) && p.remove(s, id) {
				p.opts.Log.WarnContext(ctx, "a ready sandbox has died", "sandbox", id, "image", s.image)
				p.discard(id)
			}
		}
	}
}
