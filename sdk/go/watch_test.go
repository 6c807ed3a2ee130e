package sandkasten

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestWatch(t *testing.T) {
	const (
		ready   = "event: ready\ndata: {}\n\n"
		created = "event: create\ndata: {\"path\": \"a\", \"type\": \"file\"}\n\n"
		renamed = "event: rename\ndata: {\"path\": \"b\", \"from\": \"a\", \"type\": \"file\"}\n\n"
		ended   = "event: error\ndata: {\"code\": \"conflict\", \"error\": \"the session has ended\"}\n\n"
	)
	c, d := start(t, answer{body: ready + created}, answer{status: 503, body: unavailable}, answer{status: 200, body: ready + renamed + ended})
	var changes []Change
	var last error
	for change, err := range c.Session("s1").Watch(t.Context(), "src", &WatchOptions{Recursive: true}) {
		if err == nil {
			changes = append(changes, change)
		}
		last = err
	}
	want := []Change{{Op: "ready"}, {"create", "a", "", "file"}, {Op: "overflow"}, {"rename", "b", "a", "file"}}
	if !slices.Equal(changes, want) {
		t.Errorf("the changes are %v", changes)
	}
	if !errors.Is(last, ErrConflict) {
		t.Errorf("the error is %v", last)
	}
	for _, r := range d.seen() {
		if !strings.HasSuffix(r.target, "/fs/watch?path=src&recursive=true") {
			t.Errorf("asked for %s", r.target)
		}
	}
}

func TestWatchOfWhatIsNotThere(t *testing.T) {
	c, d := start(t, answer{status: 404, body: `{"code": "not_found", "error": "no such directory"}`})
	for _, err := range c.Session("s1").Watch(t.Context(), "absent", nil) {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("the error is %v", err)
		}
	}
	if n := len(d.seen()); n != 1 {
		t.Errorf("%d requests were sent", n)
	}
}
