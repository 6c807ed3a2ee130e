// Package recipes carries the recipes of the default images, so that the
// installed binary can build them. What a recipe means is in internal/images.
package recipes

import "embed"

// FS holds one folder per recipe, named like its image, with a recipe.yaml.
//
//go:embed */recipe.yaml
var FS embed.FS
