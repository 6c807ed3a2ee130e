package images

import (
	"maps"
	"regexp"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// MaxName is the length of an image's name, without a digest.
const MaxName = 200

var (
	component = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
	host      = `[a-z0-9]+(?:[.-][a-z0-9]+)*(?::[0-9]{1,5})?`
	namePat   = regexp.MustCompile(`^(?:` + host + `/)?` + component + `(?:/` + component + `)*(?::[a-z0-9_][a-z0-9._-]{0,127})?$`)
	digestPat = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// aliases are other names of the images that the program's recipes make: those of the first
// documents. An image that has such a name goes before.
var aliases = map[string]string{
	"sandbox-runtime:base": "base", "sandbox-runtime:python": "python", "sandbox-runtime:node": "node",
}

// Aliases are other names of images, and what they stand for where no image has them.
func Aliases() map[string]string { return maps.Clone(aliases) }

// reference is what a client may write for an image: a name, a digest, or a
// name with the digest it must have.
type reference struct {
	name   string // normalised; empty for a bare digest
	digest string
}

// parseReference normalises s. It accepts what a registry would, in lower
// case, and nothing else: no spaces, no look-alike letters, no short digests.
// The same image has one name: docker.io/library/ and :latest are left off.
func parseReference(s string) (reference, error) {
	if digestPat.MatchString(s) {
		return reference{digest: s}, nil
	}
	name, digest, pinned := strings.Cut(s, "@")
	if pinned && !digestPat.MatchString(digest) {
		return reference{}, errdefs.Invalid("image", "%.100q has a digest that is not sha256: and 64 hex digits", s)
	}
	name, err := parseName(name)
	return reference{name: name, digest: digest}, err
}

func parseName(s string) (string, error) {
	if len(s) > MaxName || !namePat.MatchString(s) || strings.HasPrefix(s, "sha256:") {
		return "", errdefs.Invalid("image",
			"%.100q is not an image name; use lower case letters, digits, and . _ - / with an optional :tag", s)
	}
	for _, hub := range []string{"docker.io/", "index.docker.io/"} {
		if rest, ok := strings.CutPrefix(s, hub); ok {
			s = strings.TrimPrefix(rest, "library/")
			break
		}
	}
	return strings.TrimSuffix(s, ":latest"), nil
}

// File names hold no slash; the pattern above has no plus sign.
func fileOfName(name string) string { return strings.ReplaceAll(name, "/", "+") }
func nameOfFile(file string) string { return strings.ReplaceAll(file, "+", "/") }

// CheckName returns the name as the store keeps it. The error is InvalidArgument.
func CheckName(name string) (string, error) { return parseName(name) }
