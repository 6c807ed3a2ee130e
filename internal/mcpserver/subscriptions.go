package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// maxSubscriptions bounds the files that one connection follows: each is a watch in
// its sandbox.
const maxSubscriptions = 32

// subscriptions are the files that connections follow.
type subscriptions struct {
	mu  sync.Mutex
	all map[*mcp.ServerSession]map[string]*subscription // guarded by mu; by address
}

// subscription is a file that a connection follows.
type subscription struct {
	ctx    context.Context // ends with it
	cancel context.CancelFunc
}

// add returns a new subscription, which ends with remove or with the connection. A
// second one of the same file is the first: that is nil.
func (s *subscriptions) add(ctx context.Context, session *mcp.ServerSession, uri string) (*subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*mcp.ServerSession]map[string]*subscription{}
	}
	mine, there := s.all[session]
	if _, ok := mine[uri]; ok {
		return nil, nil
	}
	if len(mine) >= maxSubscriptions {
		return nil, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("a connection follows at most %d files; unsubscribe from some first", maxSubscriptions),
		}
	}
	if !there {
		mine = map[string]*subscription{}
		s.all[session] = mine
		go func() {
			_ = session.Wait() // how it ended is no matter
			s.removeAll(session)
		}()
	}
	one := &subscription{}
	one.ctx, one.cancel = context.WithCancel(context.WithoutCancel(ctx))
	mine[uri] = one
	return one, nil
}

// remove ends the subscription of a file, if there is one.
func (s *subscriptions) remove(session *mcp.ServerSession, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, ok := s.all[session][uri]; ok {
		one.cancel()
		delete(s.all[session], uri)
	}
}

// end ends one subscription, and not the one that may be in its place already.
func (s *subscriptions) end(session *mcp.ServerSession, uri string, one *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.cancel()
	if s.all[session][uri] == one {
		delete(s.all[session], uri)
	}
}

func (s *subscriptions) removeAll(session *mcp.ServerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all[session] {
		one.cancel()
	}
	delete(s.all, session)
}

// subscribe follows a file.
func (s *server) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	set, err := s.set(req.ClientInfo(), &mcp.RequestExtra{Header: headerOf(ctx)})
	if err != nil {
		return resourceError(req.Params.URI, err)
	}
	id, name, ok := place(req.Params.URI)
	if !ok {
		return mcp.ResourceNotFoundError(req.Params.URI)
	}
	mine, err := s.follows.add(ctx, req.Session, req.Params.URI)
	if err != nil || mine == nil {
		return err
	}
	begun := make(chan error, 2) // the beginning and the end
	go func() {
		f := follower{
			watch: func(tell func(bool)) error { return set.Follow(mine.ctx, id, name, tell) },
			began: func() { begun <- nil },
			changed: func() {
				// Who does not listen any more has ended the subscription.
				_ = s.mcp.ResourceUpdated(mine.ctx, &mcp.ResourceUpdatedNotificationParams{URI: req.Params.URI})
			},
		}
		err := f.follow(mine.ctx)
		s.follows.end(req.Session, req.Params.URI, mine)
		begun <- err
	}()
	select {
	case err = <-begun:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.follows.end(req.Session, req.Params.URI, mine)
		return resourceError(req.Params.URI, err)
	}
	return nil
}

// The pauses before a file is watched again.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// follower follows a file over ends of its watch, such as a stop of its session.
type follower struct {
	watch   func(tell func(begin bool)) error // until it ends; see tools.Set.Follow
	began   func()                            // called once, when it first watches
	changed func()                            // called after each change, and when there may have been one
}

// follow returns when ctx is done, the file cannot be watched at first, or its session
// is no more.
func (f *follower) follow(ctx context.Context) error {
	known, pause := false, firstPause
	for {
		watched := false
		err := f.watch(func(begin bool) {
			if begin {
				watched, pause = true, firstPause
			}
			if known {
				f.changed() // also where it is watched again: nobody has looked meanwhile
				return
			}
			known = true // its beginning is always told first
			f.began()
		})
		if ctx.Err() != nil || !known {
			return err
		}
		if over := isOver(err); watched || over {
			f.changed() // it may not be there any more
			if over {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// isOver reports whether there is nothing to watch any more, and for whom: the session
// has ended, or the key.
func isOver(err error) bool {
	refused, ok := errors.AsType[*sandkasten.APIError](err)
	return ok && (refused.Reason == sandkasten.ReasonNoSuchSession || errors.Is(refused, sandkasten.ErrAuthentication))
}

func (s *server) unsubscribe(_ context.Context, req *mcp.UnsubscribeRequest) error {
	s.follows.remove(req.Session, req.Params.URI)
	return nil
}
