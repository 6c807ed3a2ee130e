package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sandkasten/sandkasten/internal/images/extract"
)

// Validate compares a stored image with what was imported, byte by byte, and
// checks that it can still be a sandbox. It returns what is wrong, nothing if
// all is well. The error is NotFound if there is no such image.
func (s *Store) Validate(ctx context.Context, name string) ([]string, error) {
	img, err := s.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	m, err := s.meta(img.Digest)
	if err != nil {
		return nil, err
	}
	var problems []string
	digest, err := m.Spec.digest()
	if err != nil {
		return nil, err
	}
	if digest != img.Digest {
		problems = append(problems, metaFile+" was changed after the import")
	}
	var dirs []string
	for _, l := range m.Spec.Layers {
		problem, err := s.validateLayer(ctx, l)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			problems = append(problems, problem)
			continue
		}
		dirs = append(dirs, filepath.Join(s.layerDir(l.Key), "fs"))
	}
	if len(dirs) < len(m.Spec.Layers) {
		return problems, nil
	}
	view, err := extract.OpenView(dirs)
	if err != nil {
		return nil, err
	}
	found, err := examine(view)
	return append(problems, found.problems...), errors.Join(err, view.Close())
}

func (s *Store) validateLayer(ctx context.Context, l Layer) (string, error) {
	info, err := s.layer(l.Key)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("layer %s is missing; import the image again", l.Key), nil
	}
	if err != nil {
		return "", err
	}
	tree, err := extract.Digest(ctx, filepath.Join(s.layerDir(l.Key), "fs"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("layer %s has lost its files; remove the image and import it again", l.Key), nil
	}
	if err != nil {
		return "", err
	}
	if tree != info.Tree || info.Layer != l {
		return fmt.Sprintf("layer %s was changed on disk; remove the image and import it again", l.Key), nil
	}
	return "", nil
}
