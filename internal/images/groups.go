package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const groupsFile = "groups.json"

// Groups returns the hosts that the package clients of an image download from, as
// SetGroups noted them: entries of a network policy, by group. It is nil for an image
// whose clients nobody has asked, or that is not in the store.
func (s *Store) Groups(digest string) (map[string][]string, error) {
	if !digestPat.MatchString(digest) {
		return nil, unknown(digest)
	}
	data, err := os.ReadFile(s.path("images", hexOf(digest), groupsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the groups of an image: %w", err)
	}
	var groups map[string][]string
	if err := json.Unmarshal(data, &groups); err != nil {
		return nil, fmt.Errorf("read the groups of image %s: %w", digest, err)
	}
	return groups, nil
}

// SetGroups notes what Groups returns from now on. They go with the image. The error
// is NotFound if there is no such image any more.
func (s *Store) SetGroups(digest string, groups map[string][]string) error {
	if !digestPat.MatchString(digest) {
		return unknown(digest)
	}
	if groups == nil {
		groups = map[string][]string{} // known to be none
	}
	data, err := json.Marshal(groups)
	if err != nil {
		return fmt.Errorf("store the groups of an image: %w", err)
	}
	err = writeFile(s.path("images", hexOf(digest), groupsFile), data)
	if errors.Is(err, fs.ErrNotExist) {
		return unknown(digest)
	}
	if err != nil {
		return fmt.Errorf("store the groups of an image: %w", err)
	}
	return nil
}
