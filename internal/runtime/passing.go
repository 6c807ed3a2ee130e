package runtime

import (
	"crypto/rand"
	"strings"
)

// passing begins the id of a sandbox that is no session's, and of no other.
const passing = "passing-"

// NewPassingID makes the id of a sandbox that its maker destroys within minutes, and
// that has no row in the database: the next start of the daemon removes one that a
// crash has left.
func NewPassingID() ID { return ID(passing + strings.ToLower(rand.Text())) }

// Passing reports whether id was made by NewPassingID, of whatever driver.
func (id ID) Passing() bool {
	_, own, named := strings.Cut(string(id), "_")
	if !named {
		own = string(id)
	}
	return strings.HasPrefix(own, passing)
}
