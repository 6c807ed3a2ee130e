package sandkasten

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// scripted is a daemon that is reached without a network, so that time is the
// test's. It answers by what it is told, and counts.
type scripted struct {
	round func(r *http.Request, number int) (*http.Response, error)
	seen  int
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	s.seen++
	return s.round(r, s.seen)
}

func scriptedClient(t *testing.T, round func(*http.Request, int) (*http.Response, error)) (*Client, *scripted) {
	t.Helper()
	s := &scripted{round: round}
	c, err := New(Options{URL: "http://box.test", APIKey: "key", HTTPClient: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	c.firstPause = time.Millisecond
	return c, s
}

func answered(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

var refusedDial = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

// What may be repeated outlives a restart: more attempts than a client makes by itself find no daemon, and more find one
// that starts.
func TestRequestsOutliveARestart(t *testing.T) {
	const (
		refused = 1 + defaultRetries + 1 // the attempts behind the first request that find no daemon
		started = refused + defaultRetries + 1
	)
	c, daemon := scriptedClient(t, func(_ *http.Request, n int) (*http.Response, error) {
		switch behind := n - 1; {
		case behind == 0:
			return answered(200, aSession)
		case behind <= refused:
			return nil, refusedDial
		case behind <= started:
			return answered(503, unavailable)
		}
		return answered(200, aSession)
	})
	c.retryTime = time.Hour
	for range 2 {
		if _, err := c.Session("s1").Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if want := 1 + started + 1; daemon.seen != want {
		t.Errorf("%d requests, want %d", daemon.seen, want)
	}
}

// What may be asked again is: its answer is lost, and then the daemon starts. A
// signal is sent once, since nobody knows whether it came.
func TestWhatMayBeAskedAgainOutlivesARestart(t *testing.T) {
	for name, tt := range map[string]struct {
		ask   func(s *Session) error
		again bool
	}{
		"update":    {func(s *Session) error { _, err := s.Update(t.Context(), nil); return err }, true},
		"heartbeat": {func(s *Session) error { return s.Heartbeat(t.Context()) }, true},
		"pause":     {func(s *Session) error { _, err := s.Pause(t.Context(), nil); return err }, true},
		"resume":    {func(s *Session) error { _, err := s.Resume(t.Context()); return err }, true},
		"stop":      {func(s *Session) error { _, err := s.Stop(t.Context()); return err }, true},
		"start":     {func(s *Session) error { _, err := s.Start(t.Context()); return err }, true},
		"kill":      {func(s *Session) error { return s.Process("e1").Kill(t.Context()) }, true},
		"resize":    {func(s *Session) error { return s.Process("e1").Resize(t.Context(), 1, 2) }, true},
		"signal":    {func(s *Session) error { return s.Process("e1").Signal(t.Context(), "USR1") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := scriptedClient(t, func(_ *http.Request, n int) (*http.Response, error) {
				switch n {
				case 1:
					return nil, errors.New("connection reset")
				case 2, 3, 4, 5, 6:
					return answered(503, unavailable)
				}
				return answered(200, aSession)
			})
			c.retryTime = time.Hour
			if err := tt.ask(c.Session("s1")); (err == nil) != tt.again {
				t.Error(err)
			}
		})
	}
}

// What never comes back is given up after a time, and soon where nothing ever was.
func TestRequestsAreGivenUp(t *testing.T) {
	for name, tt := range map[string]struct {
		met                     bool
		retryTime, firstContact time.Duration
	}{
		"a daemon that was there": {true, 50 * time.Millisecond, time.Hour},
		"a wrong address":         {false, time.Hour, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := scriptedClient(t, func(*http.Request, int) (*http.Response, error) { return nil, refusedDial })
			c.met.Store(tt.met)
			c.retryTime, c.firstContact = tt.retryTime, tt.firstContact
			began := time.Now()
			_, err := c.Session("s1").Refresh(t.Context())
			var lost *ConnectionError
			if took := time.Since(began); !errors.As(err, &lost) || took < 50*time.Millisecond {
				t.Errorf("%v after %v", err, took)
			}
		})
	}
}

// A deletion that finds nothing has succeeded if an earlier attempt may have.
func TestADeletionWhoseAnswerIsLostHasSucceeded(t *testing.T) {
	cut := errors.New("connection reset")
	for name, tt := range map[string]struct {
		first  func() (*http.Response, error)
		wanted error
	}{
		"answer lost":       {func() (*http.Response, error) { return nil, cut }, nil},
		"not ready":         {func() (*http.Response, error) { return answered(503, unavailable) }, nil},
		"never sent":        {func() (*http.Response, error) { return nil, refusedDial }, ErrNotFound},
		"too many requests": {func() (*http.Response, error) { return answered(429, `{"code": "resource_exhausted"}`) }, ErrNotFound},
		"the first time":    {func() (*http.Response, error) { return answered(404, `{"code": "not_found"}`) }, ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := scriptedClient(t, func(_ *http.Request, n int) (*http.Response, error) {
				if n == 1 {
					return tt.first()
				}
				return answered(404, `{"code": "not_found"}`)
			})
			if err := c.Session("s1").Destroy(t.Context()); !errors.Is(err, tt.wanted) {
				t.Error(err)
			}
		})
	}
}
