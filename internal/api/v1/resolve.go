package v1

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// resolveSession turns a session's name, or the beginning of its id, into its id.
// It is for the rows of routes with a session in their path, as the others here
// are for theirs: the handlers and the logs see ids.
func (s *surface) resolveSession(r *http.Request) error {
	id, err := s.called(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	r.SetPathValue("id", string(id))
	return nil
}

// called is the id of the caller's session that ref calls, or what could be one. Of a
// name whose session has ended the refusal says what became of it.
func (s *surface) called(ctx context.Context, ref string) (session.ID, error) {
	id, err := s.manager.Sessions.Find(api.Caller(ctx), ref)
	if err == nil && !isID(string(id)) {
		return "", s.manager.Sessions.NoneCalled(ctx, api.Caller(ctx), ref)
	}
	return id, err
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
	all, err := s.manager.Execs.List(ctx, api.Caller(ctx), string(id))
	if err != nil {
		return ref, nil //nolint:nilerr // see above
	}
	ids := make([]string, len(all))
	for i, one := range all {
		ids[i] = one.ID
	}
	return abbreviated(field, ref, ids)
}

// snapshotID is the same for the caller's snapshots, which have names, too.
func (s *surface) snapshotID(ctx context.Context, field, ref string) (string, error) {
	if ref == "" || isID(ref) {
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
	if abbreviates(ref) {
		if id, err := abbreviated(field, ref, ids); err != nil || id != ref {
			return id, err
		}
	}
	named := slices.DeleteFunc(all, func(one snapshots.Snapshot) bool { return one.Name != ref })
	switch len(named) {
	case 0:
		return ref, nil
	case 1:
		return named[0].ID, nil
	}
	return "", errdefs.Invalid(field, "is the name of %d snapshots; write the id of one, the newest is %s", len(named), named[len(named)-1].ID)
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
