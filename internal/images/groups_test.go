package images_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
)

func TestGroupsGoWithTheImage(t *testing.T) {
	t.Parallel()
	s := open(t)
	img := importTar(t, s, "a", rootfs(t))
	if got, err := s.Groups(img.Digest); got != nil || err != nil {
		t.Fatalf("before anybody asked: %v, %v", got, err)
	}
	want := map[string][]string{"pip": {"index.example", "files.example:8443"}, "git": {}}
	if err := s.SetGroups(img.Digest, want); err != nil {
		t.Fatal(err)
	}
	same := func(got map[string][]string) bool { return maps.EqualFunc(got, want, slices.Equal) }
	if got, err := s.Groups(img.Digest); err != nil || !same(got) {
		t.Errorf("Groups = %v, %v", got, err)
	}
	if got, err := s.Inspect(t.Context(), "a"); err != nil || !same(got.NetworkGroups) {
		t.Errorf("Inspect = %v, %v", got.NetworkGroups, err)
	}
	if again := importTar(t, s, "b", rootfs(t)); !same(again.NetworkGroups) {
		t.Errorf("the same bytes again: %v", again.NetworkGroups)
	}
	if err := s.Remove(t.Context(), img.Digest, unused); err != nil {
		t.Fatal(err)
	}
	if err := s.SetGroups(img.Digest, want); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("of an image that was removed: %v", err)
	}
	if got, err := s.Groups(img.Digest); got != nil || err != nil {
		t.Errorf("after the removal: %v, %v", got, err)
	}
}

func TestGroupsThatAreNoneAreKnown(t *testing.T) {
	t.Parallel()
	s := open(t)
	img := importTar(t, s, "a", rootfs(t))
	shown := func() string {
		t.Helper()
		now, err := s.Inspect(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(now)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := shown(); strings.Contains(text, "network_groups") {
		t.Errorf("before anybody asked: %s", text)
	}
	if err := s.SetGroups(img.Digest, nil); err != nil {
		t.Fatal(err)
	}
	if text := shown(); !strings.Contains(text, `"network_groups":{}`) {
		t.Errorf("without a client: %s", text)
	}
}

func TestGroupsOfNoDigest(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, digest := range []string{"", "a", "../../x", "sha256:" + strings.Repeat("0", 64) + "/x"} {
		if _, err := s.Groups(digest); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("Groups(%q): %v", digest, err)
		}
		if err := s.SetGroups(digest, images.Image{}.NetworkGroups); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("SetGroups(%q): %v", digest, err)
		}
	}
}
