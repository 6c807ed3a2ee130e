package lookup

import (
	"errors"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/protocol"
)

func text(s string) Source {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
}

func none() (io.ReadCloser, error) { return nil, fs.ErrNotExist }

const (
	passwd = "root:x:0:0:root:/root:/bin/bash\nbroken\n:::\nodd:x:-1:0::/:\nhuge:x:99999999999:1::/:\n" +
		"alice:x:1000:1001:Alice,,,:/home/alice:/bin/sh\nalice:x:1:1::/second:/bin/sh\n1234:x:77:78::/named:/bin/sh"
	group = "root:x:0:\nwheel:x:10:root,alice\nbad:x:x:alice\nusers:x:100:bob,alice,carol\nalice:x:1001:\n"
)

func TestAccount(t *testing.T) {
	alice := User{UID: 1000, GID: 1001, Name: "alice", Home: "/home/alice"}
	member := alice
	member.Groups = []int{10, 100}
	for spec, want := range map[string]User{
		"alice":         member,
		"1000":          member,
		"alice:wheel":   {UID: 1000, GID: 10, Name: "alice", Home: "/home/alice"},
		"alice:5":       {UID: 1000, GID: 5, Name: "alice", Home: "/home/alice"},
		"root":          {Name: "root", Home: "/root", Groups: []int{10}},
		"4242":          {UID: 4242, GID: 4242},
		"4242:users":    {UID: 4242, GID: 100},
		"1234":          {UID: 77, GID: 78, Name: "1234", Home: "/named"},
		"0:0":           {Name: "root", Home: "/root"},
		"2147483647:00": {UID: 1<<31 - 1, GID: 0},
	} {
		if got, err := Account(spec, text(passwd), text(group)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", spec, got, err, want)
		}
	}
	if got, err := Account("7:8", none, none); err != nil || got.UID != 7 || got.GID != 8 {
		t.Errorf("without files: %+v, %v", got, err)
	}
}

func TestAccountRefuses(t *testing.T) {
	for spec, code := range map[string]string{
		"": protocol.CodeInvalid, ":": protocol.CodeInvalid, "alice:": protocol.CodeInvalid, ":wheel": protocol.CodeInvalid,
		"bob": protocol.CodeUnprocessable, "alice:nobody": protocol.CodeUnprocessable, "odd": protocol.CodeUnprocessable,
		"huge": protocol.CodeUnprocessable, "-1": protocol.CodeUnprocessable, "99999999999": protocol.CodeUnprocessable,
		"broken": protocol.CodeUnprocessable, "alice:bad": protocol.CodeUnprocessable, "4294967295": protocol.CodeUnprocessable,
	} {
		_, err := Account(spec, text(passwd), text(group))
		if refused, ok := errors.AsType[*protocol.Error](err); !ok || refused.Code != code {
			t.Errorf("%q: %v, want %s", spec, err, code)
		}
	}
}

// Files that are too long, or one line without end, are read so far and not
// further.
func TestAccountIsBounded(t *testing.T) {
	many := strings.Repeat("x:x:1:1::/:\n", 200_000) + passwd
	if _, err := Account("alice", text(many), text(group)); err == nil {
		t.Error("it read more than its limit")
	}
	if _, err := Account("alice", text(strings.Repeat("y", 8<<20)+"\n"+passwd), text(group)); err == nil {
		t.Error("it read a line without end")
	}
	groups := strings.Repeat("g:x:5:alice\n", 5000)
	if u, err := Account("alice", text(passwd), text(groups)); err != nil || len(u.Groups) != maxGroups {
		t.Errorf("%d groups, %v", len(u.Groups), err)
	}
}
