package orchestrator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

// The environment variables of a larger run: 200 and 10 make 2,000 sessions.
const (
	usersVar    = "SANDKASTEN_TEST_USERS"             // 10
	sessionsVar = "SANDKASTEN_TEST_SESSIONS_PER_USER" // 5
)

const (
	usersQuota = 3 // sessions that one user has alive; the others are terminated, and rows
	inFlight   = 2 // creates of one user at the same time
)

// user is one of many, and what a test knows about them.
type user struct {
	client

	number int

	mu    sync.Mutex
	acked map[string]bool // sessions whose create was answered; guarded by mu
}

// id is the UUID of a user's session.
func (u *user) id(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", u.number, n) }

// TestManyUsers has many users make sessions at the same time, over a kill -9 of the
// daemon and a restart: nobody sees what is another's, no acknowledged session is
// lost, and no quota is passed by more than what is under way.
func TestManyUsers(t *testing.T) {
	t.Parallel()
	count, each := int(number(t, usersVar, 10)), int(number(t, sessionsVar, 5))
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprintf("{owner: user%d, key: sk_key_of_the_user_%06d, max_sessions: %d}", i, i, usersQuota)
	}
	d := blackbox.Start(t, blackbox.Options{
		Config: "orchestrator: {enabled: true, reaper_interval_seconds: 1}\napi_keys: [" + strings.Join(keys, ", ") + "]\n",
	})
	users := make([]*user, count)
	for i := range users {
		users[i] = &user{client: clientOf(t, d, fmt.Sprintf("sk_key_of_the_user_%06d", i)), number: i, acked: map[string]bool{}}
	}
	half := make(chan struct{})
	var done errgroup.Group
	done.Go(func() error { return work(users, each, half) })
	<-half
	d.Kill()
	d.Start()
	if err := done.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, d.Log())
	}
	checkUsers(t, "at the end", users, each)
	d.Restart()
	checkUsers(t, "after a restart", users, each)
}

// work has all users make their sessions, and closes half when half of them have.
func work(users []*user, each int, half chan struct{}) error {
	var all errgroup.Group
	all.SetLimit(8)
	var mu sync.Mutex
	finished := 0
	for _, u := range users {
		all.Go(func() error {
			err := u.work(each)
			mu.Lock()
			defer mu.Unlock()
			if finished++; finished == (len(users)+1)/2 {
				close(half)
			}
			return err
		})
	}
	return all.Wait()
}

// work makes the user's sessions, several at a time.
func (u *user) work(each int) error {
	var makers errgroup.Group
	for maker := range inFlight {
		makers.Go(func() error {
			for n := maker; n < each; n += inFlight {
				if err := u.make(n, each); err != nil {
					return fmt.Errorf("user %d, session %d: %w", u.number, n, err)
				}
			}
			return nil
		})
	}
	return makers.Wait()
}

// make makes a session until the daemon says that it is there. Where the quota is
// reached, another one of the user's is stopped.
func (u *user) make(n, each int) error {
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		status, answer, err := u.call(u.t.Context(), http.MethodPost, sessionsPath, `{"id":"`+u.id(n)+`"}`)
		switch {
		case err != nil || status == http.StatusServiceUnavailable: // the daemon is away, or starting
			time.Sleep(20 * time.Millisecond)
		case status == http.StatusCreated || status == http.StatusOK:
			u.mu.Lock()
			u.acked[u.id(n)] = true
			u.mu.Unlock()
			return u.count()
		case status == http.StatusTooManyRequests:
			u.stopOne(each)
		default:
			return fmt.Errorf("status %d: %s", status, answer)
		}
	}
	return fmt.Errorf("it takes too long")
}

// stopOne stops a ready session of the user's. What goes wrong is tried again.
func (u *user) stopOne(each int) {
	for n := range each {
		var x session
		status, answer, err := u.call(u.t.Context(), http.MethodGet, sessionsPath+u.id(n)+"/", "")
		if err == nil && status == http.StatusOK && json.Unmarshal(answer, &x) == nil && x.Status == "ready" {
			_, _, _ = u.call(u.t.Context(), http.MethodPost, sessionsPath+u.id(n)+"/stop/", "")
			return
		}
	}
	time.Sleep(20 * time.Millisecond)
}

// count compares the user's living sessions with the quota.
func (u *user) count() error {
	var living []json.RawMessage
	status, answer, err := u.call(u.t.Context(), http.MethodGet, "/v1/sessions", "")
	if err != nil || status != http.StatusOK {
		return nil // the daemon is away
	}
	if err := json.Unmarshal(answer, &living); err != nil {
		return err
	}
	if len(living) > usersQuota {
		return fmt.Errorf("%d sessions are alive, with a quota of %d", len(living), usersQuota)
	}
	return nil
}

// checkUsers has every user list what there is, and try what is others'.
func checkUsers(t *testing.T, when string, users []*user, each int) {
	t.Helper()
	ready := 0
	for i, u := range users {
		var list []session
		u.must(&list, http.MethodGet, sessionsPath, "", http.StatusOK)
		seen := map[string]bool{}
		for _, x := range list {
			seen[x.ID] = true
			if x.Status == "ready" {
				ready++
			}
			if !strings.HasPrefix(x.ID, fmt.Sprintf("%08x-", u.number)) {
				t.Errorf("%s: user %d sees %+v", when, u.number, x)
			}
		}
		for id := range u.acked {
			if !seen[id] {
				t.Errorf("%s: session %s of user %d is lost", when, id, u.number)
			}
		}
		if err := u.count(); err != nil {
			t.Errorf("%s: user %d: %v", when, u.number, err)
		}
		other := users[(i+1)%len(users)]
		for n := range min(each, 3) {
			u.mustNotSee(other.id(n))
		}
	}
	t.Logf("%s: %d users, %d sessions, %d of them ready", when, len(users), len(users)*each, ready)
}

// mustNotSee tries what can be done with another user's session.
func (u *user) mustNotSee(id string) {
	u.t.Helper()
	u.must(nil, http.MethodGet, sessionsPath+id+"/", "", http.StatusNotFound)
	u.must(nil, http.MethodGet, sessionsPath+id+"/snapshots/", "", http.StatusNotFound)
	u.must(nil, http.MethodPost, sessionsPath+id+"/exec/", `{"command":"true"}`, http.StatusNotFound)
	u.must(nil, http.MethodPost, sessionsPath+id+"/heartbeat/", "", http.StatusNotFound)
	u.must(nil, http.MethodDelete, sessionsPath+id+"/", "", http.StatusNotFound)
	u.must(nil, http.MethodPost, sessionsPath, `{"id":"`+id+`"}`, http.StatusNotFound)
}
