// Package commands is what a session's manager does about what runs in a
// session: commands of its shells, programs, terminals and the servers among
// them. It checks a request and has the runner do it. How a session is found,
// and whether it may be used now, is the manager's.
package commands

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/runnerclient"
)

// Commands runs things in sessions, which are told apart by ID. What is beyond
// a limit is refused with InvalidArgument or TooLarge before the sandbox hears
// of it.
type Commands[ID any] struct{ opts Options[ID] }

// Options says in whose sessions things run, and what is allowed. All are
// required.
type Options[ID any] struct {
	Begin func(context.Context, ID) (Use, error) // begins an operation, which is activity
	Look  func(context.Context, ID) (Use, error) // begins one that is not: its End does nothing

	NewID func() string     // names an exec
	IsID  func(string) bool // tells whether NewID may have made it
	Path  func(id ID, field, name string) (string, error)

	Anywhere       func(ID) bool // whether output files may be outside the workspace
	Timeout        time.Duration // where a request has none
	MaxTimeout     time.Duration
	KillGrace      time.Duration // between TERM and KILL for what is out of time
	TerminalDetach time.Duration // that a terminal lives on without a client; 0 hangs up at once
	OutputBytes    int64         // of an exec that can be replayed
}

// New returns the Commands that o describes.
func New[ID any](o Options[ID]) *Commands[ID] { return &Commands[ID]{o} }

// Use is an operation in progress.
type Use struct {
	Client *runnerclient.Client
	End    func()                       // must be called
	Lost   func(error) error            // what an error of Client means for the session
	Moved  func(cwd string)             // tells where the default shell is now
	Alive  func() (cwd string, ok bool) // whether the session goes on, and where its default shell was last
}
