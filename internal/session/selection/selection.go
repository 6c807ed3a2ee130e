// Package selection picks sessions out of a list: by what they are, in an order, a
// page at a time. It works on what a caller may see already, and decides nothing about that.
package selection

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

// Order is how sessions are sorted. Those that are equal are sorted by id.
type Order string

// The orders. A minus turns one around.
const (
	Created  Order = "created"
	Activity Order = "activity"
	Name     Order = "name"
)

// States are all that a session can have.
var States = []session.State{
	session.Creating, session.Running, session.Paused, session.Stopping, session.Stopped, session.Starting,
	session.Destroyed, session.Expired, session.Crashed, session.Failed,
}

// Filter selects sessions. What is empty selects all.
type Filter struct {
	States []session.State // one of them
	Image  string          // its name or digest
	Labels []string        // name or name=value; all of them
	Owner  string
	Text   string // in the id, name, image or labels, in upper or lower case
}

// Takes reports whether f selects s.
func (f Filter) Takes(s session.Session) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, s.State)) &&
		(f.Image == "" || s.Image == f.Image || s.ImageDigest == f.Image) &&
		(f.Owner == "" || s.Owner == f.Owner) &&
		hasLabels(s, f.Labels) && hasText(s, f.Text)
}

func hasLabels(s session.Session, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(want string) bool {
		name, value, whole := strings.Cut(want, "=")
		got, there := s.Labels[name]
		return !there || whole && got != value
	})
}

func hasText(s session.Session, text string) bool {
	if text == "" {
		return true
	}
	text = strings.ToLower(text)
	has := func(in string) bool { return strings.Contains(strings.ToLower(in), text) }
	if has(string(s.ID)) || has(s.Name) || has(s.Image) {
		return true
	}
	for name, value := range s.Labels {
		if has(name + "=" + value) {
			return true
		}
	}
	return false
}

// Page is a part of a list.
type Page struct {
	Order Order  // "" is Created; it may begin with a minus
	After string // Cursor of the last session of the page before
	Limit int    // 0 is no limit
}

// place is where a session stands in an order. What it says is all that a cursor
// needs, so that a list goes on behind a session that is gone.
type place struct {
	Order Order      `json:"o"`
	At    int64      `json:"t,omitempty"`
	Name  string     `json:"n,omitempty"`
	ID    session.ID `json:"i"`
}

func placeOf(order Order, s session.Session) place {
	p := place{Order: order, ID: s.ID}
	switch Order(strings.TrimPrefix(string(order), "-")) {
	case Name:
		p.Name = s.Name
	case Activity:
		p.At = s.LastActivity.UnixNano()
	default:
		p.At = s.CreatedAt.UnixNano()
	}
	return p
}

func (p place) compare(q place) int {
	c := cmp.Or(cmp.Compare(p.At, q.At), strings.Compare(p.Name, q.Name), strings.Compare(string(p.ID), string(q.ID)))
	if strings.HasPrefix(string(p.Order), "-") {
		return -c
	}
	return c
}

// Cursor is After of the page that begins behind s.
func (p Page) Cursor(s session.Session) string {
	text, err := json.Marshal(placeOf(p.order(), s))
	if err != nil {
		panic(err) // texts and a number
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func (p Page) order() Order { return cmp.Or(p.Order, Created) }

func (p Page) after() (place, error) {
	var at place
	text, err := base64.RawURLEncoding.DecodeString(p.After)
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err != nil || at.ID == "" {
		return at, errdefs.Invalid("after", "must be the cursor of a session of the page before")
	}
	if at.Order != p.order() {
		return at, errdefs.Invalid("after", "is of a list with another sort")
	}
	return at, nil
}

// columns are what the orders are called where sessions that ended are.
var columns = map[Order]string{Created: "created_at", Activity: "last_activity", Name: "name"}

// Ended is what Of needs of the sessions that have ended, or all if p has no limit.
func (p Page) Ended(f Filter) (session.EndedPage, error) {
	if p.Limit == 0 {
		return session.EndedPage{}, nil
	}
	order, down := strings.CutPrefix(string(p.order()), "-")
	e := session.EndedPage{Most: p.Limit, By: columns[Order(order)], Down: down, Takes: f.Takes}
	if p.After == "" {
		return e, nil
	}
	after, err := p.after()
	if err != nil {
		return e, err
	}
	e.After, e.At = after.ID, after.Name
	if Order(order) == Name {
		return e, nil
	}
	// A row has microseconds, and what is alive has more: all rows of its microsecond are before it.
	micros, odd := after.At/1000, after.At%1000 != 0
	if odd {
		e.After = behindAll
	}
	e.At = micros
	return e, nil
}

// behindAll is behind every ID.
const behindAll = "~"

// Of returns the page of the sessions that f selects. It may change all.
func (p Page) Of(all []session.Session, f Filter) ([]session.Session, error) {
	order := p.order()
	all = slices.DeleteFunc(all, func(s session.Session) bool { return !f.Takes(s) })
	if p.After != "" {
		after, err := p.after()
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(s session.Session) bool { return placeOf(order, s).compare(after) <= 0 })
	}
	slices.SortFunc(all, func(a, b session.Session) int { return placeOf(order, a).compare(placeOf(order, b)) })
	if p.Limit > 0 && len(all) > p.Limit {
		all = all[:p.Limit]
	}
	return all, nil
}
