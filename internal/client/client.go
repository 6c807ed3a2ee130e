// Package client speaks /v1 to a daemon over HTTP: one method per endpoint,
// typed answers, errors with their code. The command line uses it. It decides
// nothing for its caller: no retries, no prompts, no output.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxReply bounds a JSON answer, so that a wrong address cannot fill memory.
const maxReply = 256 << 20

// maxErrorReply bounds the body of an error.
const maxErrorReply = 64 << 10

// Client calls one daemon. Its methods may be called concurrently.
type Client struct {
	base   string
	key    string
	http   *http.Client
	owners string // of files: sessions or workspaces
}

// New returns a client of the daemon at base ("http://127.0.0.1:8787") that
// sends key. It does not connect yet.
func New(base, key string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not a daemon's address: write it as http://127.0.0.1:8787", base)
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     time.Minute,
		MaxIdleConnsPerHost: 16,
	}
	return &Client{base: strings.TrimSuffix(base, "/"), key: key, http: &http.Client{Transport: transport}, owners: "sessions"}, nil
}

// URL is where the client's daemon is.
func (c *Client) URL() string { return c.base }

// Close ends connections that no call is using.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Error is an answer of the daemon that is not a success.
type Error struct {
	Status    int    `json:"-"`
	Code      string `json:"code"`
	Message   string `json:"error"`
	RequestID string `json:"request_id"`
}

func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the daemon answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return e.Message
}

// UnreachableError means that nothing answered at URL.
type UnreachableError struct {
	URL   string
	Cause error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no daemon at %s: %v", e.URL, e.Cause)
}

// Unwrap gives the network's own error.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// request makes a request to path, which begins with a slash. A body that is
// not nil is sent as JSON.
func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode %s %s: %w", method, path, err)
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.authorize(req.Header)
	return req, nil
}

func (c *Client) authorize(h http.Header) {
	if c.key != "" {
		h.Set("Authorization", "Bearer "+c.key)
	}
}

// send returns a successful response; the caller closes its body. Anything
// but a success is an *Error, and no answer at all an *UnreachableError.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(req.Context()); cause != nil {
			return nil, cause
		}
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return nil, &UnreachableError{URL: c.base, Cause: op.Err}
		}
		return nil, err
	}
	if resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	return nil, errors.Join(replyError(resp), resp.Body.Close())
}

func replyError(resp *http.Response) error {
	e := &Error{Status: resp.StatusCode}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorReply))
	if err != nil || json.Unmarshal(data, e) != nil {
		e.Message = "" // not ours: a proxy's page, or another program
	}
	if e.RequestID == "" {
		e.RequestID = resp.Header.Get("X-Request-Id")
	}
	return e
}

// call sends body and decodes the answer into out, unless out is nil.
func (c *Client) call(ctx context.Context, method, path string, body, out any) error {
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	return c.finish(req, out)
}

func (c *Client) finish(req *http.Request, out any) (err error) {
	resp, err := c.send(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	reply := io.LimitReader(resp.Body, maxReply)
	if out == nil {
		_, err = io.Copy(io.Discard, reply)
		return err
	}
	if err := json.NewDecoder(reply).Decode(out); err != nil {
		return fmt.Errorf("decode the answer to %s %s: %w", req.Method, req.URL.Path, err)
	}
	return nil
}

func sessionPath(id string, rest ...string) string {
	return "/v1/sessions/" + url.PathEscape(id) + strings.Join(rest, "")
}
