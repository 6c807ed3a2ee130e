package session

import (
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/weaken"
)

// MinPrefix is how much of an id is enough to mean the only thing whose id begins so. Less would be a mistake more often than an abbreviation.
const MinPrefix = 3

// named is a session's name; each owner has names of his own.
type named struct{ owner, name string }

// checkName refuses a name; "" is none. What could be an id is none, so that an id
// never means another session.
func checkName(name string) error {
	if name == "" {
		return nil
	}
	if !check.IsName(name) || strings.ContainsRune("._-", rune(name[0])) {
		return errdefs.Invalid("name", "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', and begin with a letter or digit")
	}
	if isID(name) {
		return errdefs.Invalid("name", "must not look like an id, which is 26 characters of a-z and 2-7")
	}
	return nil
}

func errTaken(name string, by ID) error {
	return errdefs.New(errdefs.AlreadyExists, "the name %s is session %s's; destroy that, or take another name", name, by)
}

// Lookup returns the id of the owner's session that is called ref: by its name, or
// by the beginning of its id if no other session of his begins so. It knows those
// that have not ended. A whole id is returned as it is, whether there is such a
// session or not, and so is what is called nothing. The owner "" is every owner.
func (m *Manager) Lookup(owner, ref string) (ID, error) {
	if isID(ref) {
		return ID(ref), nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.byName[named{owner, ref}]; e != nil && ref != "" {
		return e.id, nil
	}
	var found []ID
	for id, e := range m.live {
		mine := owner == "" || owner == e.owner || weaken.Off(weaken.Owner)
		if mine && (owner == "" && ref != "" && e.name == ref || len(ref) >= MinPrefix && strings.HasPrefix(string(id), ref)) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return ID(ref), nil
	case 1:
		return found[0], nil
	}
	return "", errdefs.Invalid("id", "is the beginning of %d sessions' ids; write more of it", len(found))
}
