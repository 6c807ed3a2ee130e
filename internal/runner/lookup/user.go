package lookup

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/sandkasten/sandkasten/protocol"
)

// Limits of what is read and found.
const (
	maxFile   = 1 << 20
	maxGroups = 1024
)

// User is whom a program runs as.
type User struct {
	UID, GID int
	Groups   []int  // supplementary
	Name     string // "" if the passwd file has no such user, as Home
	Home     string
}

// Source opens a passwd or a group file. One that there is none of is an
// error of this too, and the same as an empty one.
type Source func() (io.ReadCloser, error)

// Account returns the user that spec names: a name or a number, and after a colon
// a group if it is not to be the user's own. A number need not be in the
// passwd file; without an entry its group has the same number. The
// supplementary groups are those that list the user, unless spec has a group.
func Account(spec string, passwd, group Source) (User, error) {
	name, groupSpec, hasGroup := strings.Cut(spec, ":")
	if name == "" || hasGroup && groupSpec == "" {
		return User{}, protocol.Refuse(protocol.CodeInvalid, "user must be a name or number, or two of them for user and group, as in 1000:1000")
	}
	u, err := findUser(name, passwd)
	if err != nil {
		return User{}, err
	}
	if !hasGroup {
		u.Groups = listing(u.Name, group)
		return u, nil
	}
	u.GID, err = findGroup(groupSpec, group)
	return u, err
}

func findUser(name string, passwd Source) (User, error) {
	id, numeric := parseNumber(name)
	var u User
	found := false
	scan(passwd, func(f []string) bool {
		if len(f) < 6 || f[0] != name && (!numeric || f[2] != name) {
			return true
		}
		uid, ok1 := parseNumber(f[2])
		gid, ok2 := parseNumber(f[3])
		if found = ok1 && ok2; found {
			u = User{UID: uid, GID: gid, Name: f[0], Home: f[5]}
		}
		return !found
	})
	switch {
	case found:
		return u, nil
	case numeric:
		return User{UID: id, GID: id}, nil
	default:
		return User{}, protocol.Refuse(protocol.CodeUnprocessable, "the sandbox has no user %q; use a number or one of /etc/passwd", name).For("user").Because(protocol.ReasonNoSuchUser)
	}
}

func findGroup(name string, group Source) (int, error) {
	id, found := parseNumber(name)
	if !found {
		scan(group, func(f []string) bool {
			if len(f) >= 3 && f[0] == name {
				id, found = parseNumber(f[2])
			}
			return !found
		})
	}
	if !found {
		return 0, protocol.Refuse(protocol.CodeUnprocessable, "the sandbox has no group %q; use a number or one of /etc/group", name).For("user").Because(protocol.ReasonNoSuchUser)
	}
	return id, nil
}

// listing returns the groups that list a user as a member.
func listing(user string, group Source) []int {
	var ids []int
	if user == "" {
		return nil
	}
	scan(group, func(f []string) bool {
		if len(f) < 4 {
			return true
		}
		for member := range strings.SplitSeq(f[3], ",") {
			if id, ok := parseNumber(f[2]); ok && member == user {
				ids = append(ids, id)
				break
			}
		}
		return len(ids) < maxGroups
	})
	return ids
}

// scan calls next with the fields of each line until it returns false. Where a
// file cannot be read it ends.
func scan(open Source, next func(fields []string) bool) {
	r, err := open()
	if err != nil {
		return
	}
	defer r.Close()
	lines := bufio.NewScanner(io.LimitReader(r, maxFile)) // a line may have 64 KiB
	for lines.Scan() {
		if !next(strings.Split(lines.Text(), ":")) {
			return
		}
	}
}

// parseNumber reads an id.
func parseNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}
