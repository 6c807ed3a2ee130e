package artifacts

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Link returns where an artifact can be downloaded without a key: below a base URL, of
// its session or of all, or for a time by a signed link, of the object store or of the
// daemon. That of the daemon begins with a slash, and ends with the credential of p.
func (s *Service) Link(ctx context.Context, p auth.Principal, a Artifact, base string) string {
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
	hash, _ := s.opts.Credentials.HashOf(p.ID)
	query := url.Values{"expires": {strconv.FormatInt(expires, 10)}, "key": {p.ID}, "signature": {s.sign(a.ID, expires, p.ID, hash)}}
	return "/api/sandbox/artifacts/" + a.ID + "/download?" + query.Encode()
}

// Check returns the artifact that a link of the daemon is for, which has these
// parameters. It looks at the signature first, so that a link that is not ours tells
// nothing. A link whose credential has ended, or is another now, is not ours.
func (s *Service) Check(ctx context.Context, id string, query url.Values) (Artifact, error) {
	until, err := strconv.ParseInt(query.Get("expires"), 10, 64)
	key := query.Get("key")
	hash, stands := s.opts.Credentials.HashOf(key)
	same := hmac.Equal([]byte(query.Get("signature")), []byte(s.sign(id, until, key, hash)))
	if err != nil || !same || !stands {
		return Artifact{}, errdefs.New(errdefs.PermissionDenied, "this link is not valid: ask for the session's artifacts to get another one")
	}
	if time.Now().Unix() >= until {
		return Artifact{}, errdefs.New(errdefs.PermissionDenied, "this link has expired: ask for the session's artifacts to get another one")
	}
	return s.opts.Store.GetArtifact(ctx, id)
}

// sign covers all that a link says, and the hash of the credential that it was made
// with: an id of the configuration can be another key's later.
func (s *Service) sign(id string, expires int64, key string, hash auth.Hash) string {
	mac := hmac.New(sha256.New, s.opts.Secret)
	fmt.Fprintf(mac, "artifact %q %d %q %x", id, expires, key, hash)
	return hex.EncodeToString(mac.Sum(nil))
}
