package v1

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/sockets"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/preview"
	"github.com/sandkasten/sandkasten/internal/rawpath"
)

// Port is a port on which a program in the session listens.
type Port struct {
	Port     int    `json:"port" example:"3000"`
	Address  string `json:"address" doc:"That it listens on: 0.0.0.0 and :: are any." example:"127.0.0.1"`
	Loopback bool   `json:"loopback" doc:"The address is one of the sandbox's own loopback, where every port can be reached from here."`
	URL      string `json:"url" doc:"Where this daemon proxies HTTP and WebSocket to it. Needs a key or a preview token." example:"http://127.0.0.1:8787/v1/sessions/f5q2bz7lq4m3k5n6p7r2s3t4u5/ports/3000/"`
}

type portsOutput struct {
	Body []Port `nullable:"false"`
}

func (s *surface) listPorts(ctx context.Context, in *SessionPath) (*portsOutput, error) {
	id, err := s.find(ctx, *in)
	if err != nil {
		return nil, err
	}
	ports, err := s.manager.Execs.Ports(ctx, api.Caller(ctx), string(id))
	if err != nil {
		return nil, err
	}
	out := &portsOutput{Body: make([]Port, 0, len(ports))}
	for _, p := range ports {
		out.Body = append(out.Body, Port{
			Port: p.Port, Address: p.Address, Loopback: p.Loopback,
			URL: s.portURL(ctx, preview.Target{Session: id, Port: p.Port}),
		})
	}
	return out, nil
}

func portPrefix(t preview.Target) string {
	return fmt.Sprintf("/v1/sessions/%s/ports/%d", t.Session, t.Port)
}

func (s *surface) portURL(ctx context.Context, t preview.Target) string {
	return s.previews.URL(ctx, t, portPrefix(t))
}

// PreviewRequest asks for a preview token.
type PreviewRequest struct {
	Port       int   `json:"port" minimum:"1" maximum:"65535" example:"3000"`
	TTLSeconds int64 `json:"ttl_seconds,omitempty" minimum:"1" maximum:"31536000" doc:"How long it opens the port: an hour if not given, at most preview.max_ttl_seconds of the configuration." example:"3600"`
}

// Preview is a token that opens one port.
type Preview struct {
	Token     string    `json:"token" doc:"Send it as X-Preview-Token, or once as preview_token in the query." example:"skp_AAAAZJKc"`
	Port      int       `json:"port" example:"3000"`
	URL       string    `json:"url" doc:"For a browser: it has the token in its query, and the first answer moves that into a cookie." example:"http://3000-f5q2bz7lq4m3k5n6p7r2s3t4u5.preview.localhost:8787/?preview_token=skp_AAAAZJKc"`
	ExpiresAt time.Time `json:"expires_at"`
}

type previewInput struct {
	SessionPath
	Body PreviewRequest
}

type previewOutput struct{ Body Preview }

func (s *surface) createPreview(ctx context.Context, in *previewInput) (*previewOutput, error) {
	id, err := s.findKnown(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	t := preview.Target{Session: id, Port: in.Body.Port}
	token, expires, err := s.previews.Issue(api.Caller(ctx), t, time.Duration(in.Body.TTLSeconds)*time.Second)
	if err != nil {
		return nil, err
	}
	return &previewOutput{Preview{
		Token: token, Port: t.Port, ExpiresAt: expires,
		URL: preview.WithToken(s.portURL(ctx, t), token),
	}}, nil
}

// proxyPort serves a port below a path of the API, with any method.
func (s *surface) proxyPort(w http.ResponseWriter, r *http.Request) {
	t, err := preview.ParseTarget(r.PathValue("id"), r.PathValue("port"))
	if err != nil {
		api.WriteError(w, r, err)
		return
	}
	// As the client has it: with the session's name where it wrote that.
	parts := strings.SplitN(rawpath.Of(r).Path, "/", 7)
	s.previews.Serve(w, r, t, strings.Join(parts[:min(6, len(parts))], "/"))
}

// portTicket lets a preview token open the port that it is for.
func (s *surface) portTicket(r *http.Request) (p auth.Principal, shown bool, err error) {
	t, err := preview.ParseTarget(r.PathValue("id"), r.PathValue("port"))
	if err != nil {
		return p, false, nil // who has a key learns what is wrong
	}
	return s.previews.Ticket(r, t)
}

type tunnelInput struct {
	SessionPath
	Port int `query:"port" required:"true" minimum:"1" maximum:"65535" example:"5432"`
}

func (s *surface) tunnel(ctx context.Context, in *tunnelInput) (*kit.Stream, error) {
	id, err := s.findKnown(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		if err := sockets.Wanted(r); err != nil {
			api.WriteError(w, r, err)
			return
		}
		// Before the upgrade, so that a refusal is an ordinary answer.
		conn, err := s.manager.Execs.Dial(ctx, api.Caller(ctx), string(id), in.Port)
		if err != nil {
			api.WriteError(w, r, err)
			return
		}
		sockets.ServeTunnel(w, r, conn)
	}), nil
}
