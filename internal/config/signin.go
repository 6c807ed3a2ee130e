package config

import "time"

// SignIn is about users who sign in with a browser.
type SignIn struct {
	Idle time.Duration // without a request, after which a sign-in ends
	Most time.Duration // after which it ends in any case
}

func (c *Config) signInOptions() []option {
	s := &c.SignIn
	return []option{
		{"signin.idle_hours", hours(&s.Idle, 1, 24*365), "A browser that sends no request for so long has to sign in again."},
		{"signin.max_days", days(&s.Most, 1, 365), "A browser has to sign in again after so long in any case."},
	}
}
