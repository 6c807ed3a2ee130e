package images

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// PullRequest is an image in a registry to store.
type PullRequest struct {
	Ref  string // as for docker pull: python:3.12-slim, ghcr.io/a/b@sha256:...
	Name string // empty takes Ref's
	// Insecure allows plain HTTP to a registry other than on this host.
	Insecure bool
	Progress ProgressFunc
}

// Pull stores the linux/amd64 image of a registry. Credentials are those of
// `docker login` or `podman login` of the user who runs this process. Every
// size and digest is verified before a layer is unpacked; layers that the
// store has are not downloaded. On error no image was stored, though finished
// layers stay for the next try.
//
// Errors are those of Import; also NotFound if the registry has no such image,
// PermissionDenied if it wants other credentials, Unavailable if it cannot be
// reached.
func (s *Store) Pull(ctx context.Context, req PullRequest) (Image, error) {
	local, err := PulledName(req)
	if err != nil {
		return Image{}, err
	}
	r, err := newRegistry(req)
	if err != nil {
		return Image{}, err
	}
	defer r.transport.CloseIdleConnections()
	req.Progress.report(Progress{Phase: "resolve " + req.Ref})
	root, err := r.root(ctx)
	if err != nil {
		return Image{}, err
	}
	img, err := findImage(ctx, r, root)
	if err != nil {
		return Image{}, err
	}
	source := config{source: r.ref.Name() + "@" + root.Digest.String()}
	return s.transact(func(t *transaction) (Image, error) {
		ahead := s.fetchAhead(ctx, r, img, t.dir, req.Progress)
		stored, err := s.importImage(ctx, t, local, img, ahead, source, req.Progress)
		return stored, errors.Join(err, ahead.stop())
	})
}

// PulledName returns the name that Pull gives an image. The error is
// InvalidArgument for a request that Pull would refuse without asking anybody.
func PulledName(req PullRequest) (string, error) {
	if req.Name == "" {
		req.Name, _, _ = strings.Cut(req.Ref, "@")
	}
	if _, err := req.reference(); err != nil {
		return "", err
	}
	return parseName(req.Name)
}

// reference parses Ref.
func (req PullRequest) reference() (name.Reference, error) {
	var opts []name.Option
	if req.Insecure {
		opts = append(opts, name.Insecure)
	}
	ref, err := name.ParseReference(req.Ref, opts...)
	if err == nil && strings.HasPrefix(req.Ref, "-") {
		err = errors.New("it begins with a dash")
	}
	if err != nil {
		return nil, errdefs.Wrap(err, errdefs.InvalidArgument, "ref %.100q is not an image reference", req.Ref)
	}
	return ref, nil
}

// registry reads from one repository.
type registry struct {
	ref       name.Reference
	puller    *remote.Puller
	transport *http.Transport
	rootID    v1.Hash
	first     []byte // the document that ref stands for
}

func newRegistry(req PullRequest) (*registry, error) {
	ref, err := req.reference()
	if err != nil {
		return nil, err
	}
	tr := newTransport(ref.Context())
	puller, err := remote.NewPuller(
		remote.WithTransport(guarded{next: tr, insecure: req.Insecure}),
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithUserAgent("sandkasten"))
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	return &registry{ref: ref, puller: puller, transport: tr}, nil
}

// root asks what the reference stands for now.
func (r *registry) root(ctx context.Context) (v1.Descriptor, error) {
	got, err := r.puller.Get(ctx, r.ref)
	if err != nil {
		return v1.Descriptor{}, r.explain(err)
	}
	r.rootID, r.first = got.Digest, got.Manifest
	return v1.Descriptor{MediaType: got.MediaType, Size: got.Size, Digest: got.Digest}, nil
}

func (r *registry) document(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	if d.Digest == r.rootID {
		return io.NopCloser(bytes.NewReader(r.first)), nil
	}
	got, err := r.puller.Get(ctx, r.ref.Context().Digest(d.Digest.String()))
	if err != nil {
		return nil, r.explain(err)
	}
	return io.NopCloser(bytes.NewReader(got.Manifest)), nil
}

func (r *registry) blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	l, err := r.puller.Layer(ctx, r.ref.Context().Digest(d.Digest.String()))
	if err != nil {
		return nil, r.explain(err)
	}
	body, err := l.Compressed()
	if err != nil {
		return nil, r.explain(err)
	}
	return body, nil
}

// explain tells a person what a registry's answer means.
func (r *registry) explain(err error) error {
	if _, ok := errors.AsType[*errdefs.Error](err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	host := r.ref.Context().RegistryStr()
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		switch answer.StatusCode {
		case http.StatusNotFound:
			return errdefs.Wrap(err, errdefs.NotFound, "registry %s has no image %s", host, r.ref)
		case http.StatusUnauthorized, http.StatusForbidden:
			return errdefs.Wrap(err, errdefs.PermissionDenied,
				"registry %s does not give out %s without other credentials (%d); check the name, or log in with `docker login %s` as the daemon's user", host, r.ref, answer.StatusCode, host)
		}
	}
	return errdefs.Wrap(err, errdefs.Unavailable, "registry %s cannot be used: %s", host, whyUnreachable(err))
}

func newTransport(of name.Repository) *http.Transport {
	d := newDialer(of)
	return &http.Transport{
		Proxy:                 d.proxy,
		DialContext:           d.dial,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   downloads,
		IdleConnTimeout:       time.Minute,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: time.Minute,
	}
}

// guarded refuses plain HTTP, also after a redirect, and documents without end.
type guarded struct {
	next     http.RoundTripper
	insecure bool
}

func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !g.insecure && !isLoopback(req.URL.Hostname()) {
		return nil, errdefs.New(errdefs.InvalidArgument,
			"registry %s wants plain HTTP; allow it with --insecure if you trust the network", req.URL.Host)
	}
	resp, err := g.next.RoundTrip(req)
	if err == nil && strings.Contains(req.URL.Path, "/manifests/") {
		resp.Body = capped{Reader: io.LimitReader(resp.Body, maxDocument+1), Closer: resp.Body}
	}
	return resp, err
}

type capped struct {
	io.Reader
	io.Closer
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.IsLoopback())
}

// EngineCredentials returns what this user's `docker login` knows of the registry
// of an image, as a Docker engine's API takes it; "" if that is nothing.
func EngineCredentials(image string) (string, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return "", errdefs.Wrap(err, errdefs.InvalidArgument, "%.100q is not an image reference", image)
	}
	known, err := authn.DefaultKeychain.Resolve(ref.Context())
	if err != nil || known == authn.Anonymous {
		return "", err
	}
	login, err := known.Authorization()
	if err != nil {
		return "", fmt.Errorf("read the credentials of %s: %w", ref.Context().RegistryStr(), err)
	}
	header, err := json.Marshal(map[string]string{
		"username": login.Username, "password": login.Password, "auth": login.Auth,
		"identitytoken": login.IdentityToken, "registrytoken": login.RegistryToken,
		"serveraddress": ref.Context().RegistryStr(),
	})
	return base64.URLEncoding.EncodeToString(header), err
}
