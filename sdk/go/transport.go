package sandkasten

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const (
	maxReply      = 256 << 20 // bytes of a JSON answer, so that a wrong address cannot fill memory
	maxErrorReply = 64 << 10  // bytes of an error's body
)

// Version is the SDK's.
const Version = "0.1.0"

// request is one request of the API.
type request struct {
	method string
	path   string
	query  url.Values
	header http.Header
	json   any     // the body, if not nil
	body   *source // or this
	safe   bool    // it may be sent again when nobody knows whether it was carried out
	opened func()  // called, if not nil, when a stream's answer begins
}

func get(path string) request { return request{method: http.MethodGet, path: path, safe: true} }

// post makes a request that is sent again only if nothing can have come of it.
func post(path string, body any) request {
	return request{method: http.MethodPost, path: path, json: body}
}

// postSame makes a request that changes nothing more when the daemon carries it out
// again.
func postSame(path string, body any) request {
	r := post(path, body)
	r.safe = true
	return r
}

// postOnce makes a request that the daemon carries out once, however often it is
// sent. An empty key takes a new one.
func postOnce(path, key string, body any) request {
	if key == "" {
		key = crand.Text()
	}
	r := post(path, body)
	r.header = http.Header{"Idempotency-Key": {key}}
	r.safe = true
	return r
}

func remove(path string) request { return request{method: http.MethodDelete, path: path, safe: true} }

func (r request) op() string { return r.method + " " + r.path }

// set adds a parameter of the query, unless it is empty.
func (r *request) set(name, value string) {
	if value == "" {
		return
	}
	if r.query == nil {
		r.query = url.Values{}
	}
	r.query.Set(name, value)
}

// setAll sends each value by itself.
func (r *request) setAll(name string, values []string) {
	if len(values) == 0 {
		return
	}
	if r.query == nil {
		r.query = url.Values{}
	}
	r.query[name] = values
}

func (r *request) setNumber(name string, n int64) {
	if n != 0 {
		r.set(name, strconv.FormatInt(n, 10))
	}
}

func (r *request) setFlag(name string, set bool) {
	if set {
		r.set(name, "true")
	}
}

// segment is a name as one segment of a path, whatever is in it.
func segment(name string) string {
	return strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
}

// call sends a request and decodes the answer into out, unless out is nil.
func (c *Client) call(ctx context.Context, r request, out any) error {
	return c.retry(ctx, r, func() error {
		resp, err := c.send(ctx, r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
		if err != nil {
			return c.broken(ctx, r, err)
		}
		if out == nil {
			return nil
		}
		if err := json.Unmarshal(data, out); err != nil {
			return fmt.Errorf("%s: the answer is not Sandkasten's: %w", r.op(), err)
		}
		return nil
	})
}

// open sends a request and returns the answer when its header is there. The
// caller closes its body.
func (c *Client) open(ctx context.Context, r request) (resp *http.Response, err error) {
	err = c.retry(ctx, r, func() error {
		resp, err = c.send(ctx, r)
		return err
	})
	return resp, err
}

// send sends a request once. Anything but a success is an error.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	req, err := c.build(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.op(), err)
	}
	if req.Body != nil {
		defer req.Body.Close() // nothing reads the caller's reader when we have returned
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.broken(ctx, r, err)
	}
	c.met.Store(true)
	success := resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices
	if success || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, nil
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorReply))
	if err != nil {
		return nil, c.broken(ctx, r, err)
	}
	return nil, newAPIError(resp.StatusCode, resp.Header, data)
}

func (c *Client) build(ctx context.Context, r request) (*http.Request, error) {
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.json != nil {
		data, err := json.Marshal(r.json)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if r.json != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.body != nil {
		req.Header.Set("Content-Type", r.body.kind)
		if req.ContentLength = r.body.size; r.body.size != 0 { // or it would be taken for unknown
			req.Body = &sending{reader: r.body.reader}
		}
	}
	c.authorize(req.Header)
	return req, nil
}

func (c *Client) authorize(h http.Header) {
	h.Set("Authorization", "Bearer "+c.key)
	h.Set("User-Agent", "sandkasten-go/"+Version)
}

// broken is the error for a request that got no whole answer because of err.
func (c *Client) broken(ctx context.Context, r request, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", r.op(), context.Cause(ctx))
	}
	var outer *url.Error
	if errors.As(err, &outer) { // it would repeat the method and the address
		err = outer.Err
	}
	var dial *net.OpError
	sent := !errors.As(err, &dial) || dial.Op != "dial"
	return &ConnectionError{URL: c.base, Op: r.op(), Sent: sent, Err: err}
}
