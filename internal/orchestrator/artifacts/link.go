package artifacts

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Link returns where an artifact can be downloaded without a key: below a base URL, of
// its session or of all, or for a time by a signed link, of the object store or of the
// daemon. That of the daemon begins with a slash.
func (s *Service) Link(ctx context.Context, a Artifact, base string) string {
	if base == "" {
		base = s.opts.BaseURL
	}
	if base != "" {
		path := url.URL{Path: "/" + strings.TrimLeft(a.StoragePath, "/")}
		return strings.TrimRight(base, "/") + path.EscapedPath()
	}
	if s.opts.Link != nil {
		link, err := s.opts.Link(ctx, a.key(), s.opts.LinkLife, a)
		if err == nil {
			return link
		}
		s.opts.Log.WarnContext(ctx, "the object store makes no link; the daemon's own is given", "artifact", a.ID, "err", err)
	}
	expires := time.Now().Add(s.opts.LinkLife).Unix()
	return "/api/sandbox/artifacts/" + a.ID + "/download?expires=" + strconv.FormatInt(expires, 10) + "&signature=" + s.sign(a.ID, expires)
}

// Check returns the artifact that a link of the daemon is for. It looks at the
// signature first, so that a link that is not ours tells nothing.
func (s *Service) Check(ctx context.Context, id, expires, signature string) (Artifact, error) {
	until, err := strconv.ParseInt(expires, 10, 64)
	if err != nil || !hmac.Equal([]byte(signature), []byte(s.sign(id, until))) {
		return Artifact{}, errdefs.New(errdefs.PermissionDenied, "this link is not valid: ask for the session's artifacts to get another one")
	}
	if time.Now().Unix() >= until {
		return Artifact{}, errdefs.New(errdefs.PermissionDenied, "this link has expired: ask for the session's artifacts to get another one")
	}
	return s.opts.Store.GetArtifact(ctx, id)
}

// sign covers all that a link says.
func (s *Service) sign(id string, expires int64) string {
	mac := hmac.New(sha256.New, s.opts.Secret)
	mac.Write([]byte("artifact " + id + " " + strconv.FormatInt(expires, 10)))
	return hex.EncodeToString(mac.Sum(nil))
}
