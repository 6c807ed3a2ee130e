package v1

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// resolveSession turns a session's name, or the beginning of its id, into its id.
// It is for the rows of routes with a session in their path, as the others here
// are for theirs: the handlers and the logs see ids.
func (s *surface) resolveSession(r *http.Request) error {
	id, err := s.manager.Sessions.Find(api.Caller(r.Context()), r.PathValue("id"))
	if err == nil && !isID(string(id)) {
		err = s.errUnknown(r.Context(), string(id))
	}
	if err != nil {
		return err
	}
	r.SetPathValue("id", string(id))
	return nil
}

// errUnknown is the error for a name, or the beginning of an id, that no session has which
// is there. It tells of the last one that had the name.
func (s *surface) errUnknown(ctx context.Context, name string) error {
	unknown := errdefs.New(errdefs.NotFound, "no such session: %.100q", name).Because(errdefs.NoSuchSession)
	last := session.EndedPage{Most: 1, By: "created_at", Down: true, Takes: func(one session.Session) bool { return one.Name == name }}
	all, err := s.manager.Sessions.List(ctx, api.Caller(ctx), session.ListRequest{IncludeEnded: true, Ended: last})
	if err != nil {
		return unknown //nolint:nilerr // what is known of it is enough
	}
	for _, one := range all {
		if one.Name == name && one.State.Ended() {
			unknown.Message += fmt.Sprintf("; the last of that name, %s, ended at %s: %s", one.ID, one.EndedAt.UTC().Format(time.RFC3339), cmp.Or(one.EndReason, string(one.State)))
		}
	}
	return unknown
}

func (s *surface) resolveExec(r *http.Request) error {
	if err := s.resolveSession(r); err != nil {
		return err
	}
	id, err := s.execID(r.Context(), SessionPath{ID: r.PathValue("id")}, "exec_id", r.PathValue("exec_id"))
	if err != nil {
		return err
	}
	r.SetPathValue("exec_id", id)
	return nil
}

func (s *surface) resolveSnapshot(r *http.Request) error {
	id, err := s.snapshotID(r.Context(), "id", r.PathValue("id"))
	if err != nil {
		return err
	}
	r.SetPathValue("id", id)
	return nil
}

// execID is the id of the command that the caller's session has and that begins with
// ref, or ref. What keeps it from looking the handler finds as well, and answers.
func (s *surface) execID(ctx context.Context, of SessionPath, field, ref string) (string, error) {
	if !abbreviates(ref) {
		return ref, nil
	}
	id, err := s.find(ctx, of)
	if err != nil {
		return ref, nil //nolint:nilerr // see above
	}
	all, err := s.manager.Execs.List(ctx, api.Caller(ctx), id)
	if err != nil {
		return ref, nil //nolint:nilerr // see above
	}
	ids := make([]string, len(all))
	for i, one := range all {
		ids[i] = one.ID
	}
	return abbreviated(field, ref, ids)
}

// snapshotID is the same for the caller's snapshots.
func (s *surface) snapshotID(ctx context.Context, field, ref string) (string, error) {
	if !abbreviates(ref) {
		return ref, nil
	}
	all, err := s.manager.Snapshots.List(ctx, api.Caller(ctx), snapshots.Filter{})
	if err != nil {
		return ref, nil //nolint:nilerr // see execID
	}
	ids := make([]string, len(all))
	for i, one := range all {
		ids[i] = one.ID
	}
	return abbreviated(field, ref, ids)
}

// abbreviates reports whether ref may be the beginning of an id.
func abbreviates(ref string) bool { return len(ref) >= session.MinPrefix && !isID(ref) }

// abbreviated is the one id that begins with ref, or ref if there is none.
func abbreviated(field, ref string, ids []string) (string, error) {
	found := ref
	for _, id := range ids {
		if !strings.HasPrefix(id, ref) {
			continue
		}
		if found != ref {
			return "", errdefs.Invalid(field, "is the beginning of more than one id; write more of it")
		}
		found = id
	}
	return found, nil
}
