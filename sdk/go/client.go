// Package sandkasten is the client of a Sandkasten daemon: Linux sandboxes for
// AI agents, with a shell that keeps its state, files, processes and ports.
//
//	client, err := sandkasten.New(sandkasten.Options{}) // of SANDKASTEN_URL and SANDKASTEN_API_KEY
//	session, err := client.CreateSession(ctx, &sandkasten.CreateOptions{Image: "python"})
//	defer session.Destroy(ctx)
//	result, err := session.Exec(ctx, "python3 -c 'print(6 * 7)'", nil)
//
// Options are pointers: nil, and a field that is zero, leave the choice to the
// daemon. A command that fails or is out of time is a result and no error. What
// the daemon refuses is an [*APIError], which [errors.Is] compares with
// [ErrNotFound] and its like; no answer is a [*ConnectionError].
//
// A call whose context ends returns at once with the context's error. What it
// asked for goes on in the daemon: to end a command give it a timeout, or kill it.
package sandkasten

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// DefaultURL is where a daemon listens that nobody has told otherwise.
const DefaultURL = "http://127.0.0.1:8787"

const (
	defaultRetries   = 2
	defaultRetryTime = 30 * time.Second
)

// Options is what a client is made with. Its zero value takes all from the
// environment.
type Options struct {
	URL        string       // of the daemon; empty is SANDKASTEN_URL, or else DefaultURL
	APIKey     string       // empty is SANDKASTEN_API_KEY
	MaxRetries int          // how often a request that may be repeated is at least; 0 is twice, less is never
	HTTPClient *http.Client // nil is one of its own; else a copy is used, without redirects. It must not have a Timeout, which would end streams

	// WrapTransport is called with what makes the requests of the client's own
	// HTTPClient, and returns what makes them instead: for tracing and the like. With
	// an HTTPClient it is not called.
	WrapTransport func(http.RoundTripper) http.RoundTripper

	// RetryTime is how long a request or stream is repeated that found no daemon, or
	// one that was not ready, so that it outlives a restart; 3 s at most while nothing
	// has ever answered at the address. 0 is 30 s, less is MaxRetries alone.
	RetryTime time.Duration
}

// Client calls one daemon. Its methods may be called concurrently.
type Client struct {
	base         string
	key          string
	http         *http.Client
	own          *http.Transport // of http, or nil
	maxRetries   int
	retryTime    time.Duration
	met          atomic.Bool   // something has answered at the address
	firstContact time.Duration // instead of retryTime until then
	firstPause   time.Duration // before the first repetition; it grows from there
	silence      time.Duration // without a byte, after which a stream counts as broken
}

// New returns a client. It does not connect yet. The error says what is missing
// or wrong in the options or the environment.
func New(o Options) (*Client, error) {
	base := firstOf(o.URL, os.Getenv("SANDKASTEN_URL"), DefaultURL)
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return nil, fmt.Errorf("%q is not a daemon's address: write it as %s", base, DefaultURL)
	}
	key := firstOf(o.APIKey, os.Getenv("SANDKASTEN_API_KEY"))
	if key == "" {
		return nil, errors.New("no API key: set Options.APIKey or SANDKASTEN_API_KEY; the daemon keeps its own in the file api_key of its data directory")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' }) {
		return nil, errors.New("the API key has characters that no header can have")
	}
	c := &Client{
		base:         strings.TrimRight(base, "/"),
		key:          key,
		http:         o.HTTPClient,
		maxRetries:   max(o.MaxRetries, 0),
		retryTime:    max(o.RetryTime, 0),
		firstContact: 3 * time.Second, // it may be a wrong address
		firstPause:   250 * time.Millisecond,
		silence:      50 * time.Second, // a stream has a comment every 15 s
	}
	if o.MaxRetries == 0 {
		c.maxRetries = defaultRetries
	}
	if o.RetryTime == 0 {
		c.retryTime = defaultRetryTime
	}
	if c.http == nil {
		c.own = newTransport()
		c.http = &http.Client{Transport: c.own}
		if o.WrapTransport != nil {
			c.http.Transport = o.WrapTransport(c.own)
		}
	}
	c.http = withoutRedirects(c.http)
	return c, nil
}

// withoutRedirects returns a copy that follows none. The API never redirects, and a
// server in a sandbox would else choose what is asked with the key.
func withoutRedirects(client *http.Client) *http.Client {
	copied := *client
	copied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &copied
}

// newTransport has a limit for everything but the time until an answer, which is
// that of a command.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     time.Minute,
		MaxIdleConnsPerHost: 20,
	}
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// Close ends the connections that no call is using. Sessions go on.
func (c *Client) Close() {
	if c.own != nil { // what wraps it may not hand the call on
		c.own.CloseIdleConnections()
	}
	c.http.CloseIdleConnections()
}

// DaemonInfo is what a daemon says of itself.
type DaemonInfo struct {
	Version       string           `json:"version"`
	API           string           `json:"api"`
	Driver        string           `json:"driver"`                   // of a session that asks for none
	Drivers       []string         `json:"drivers"`                  // all that a session may ask for
	AbsentDrivers []string         `json:"absent_drivers,omitempty"` // those that do not answer now
	Defaults      DaemonDefaults   `json:"defaults"`
	Limits        DaemonLimits     `json:"limits"`
	Workspaces    *DaemonWorkspace `json:"workspaces,omitempty"` // nil if the driver has none
}

// DaemonDefaults is what a session has that was not given anything else.
type DaemonDefaults struct {
	Image              string `json:"image"`
	Limits             Limits `json:"limits"`
	NetworkMode        string `json:"network_mode"`
	ReadonlyRootfs     bool   `json:"readonly_rootfs"`
	TTLSeconds         int64  `json:"ttl_seconds"`
	OnExpiry           string `json:"on_expiry,omitempty"` // after TTLSeconds: named, stop or destroy; named is stop for a session with a name
	IdleTimeoutSeconds int64  `json:"idle_timeout_seconds"`
	RetentionSeconds   int64  `json:"stopped_retention_seconds"` // of a stopped session
	TimeoutMS          int64  `json:"timeout_ms"`                // of a command
}

// DaemonLimits is the most that can be asked for. A 0 is no limit.
type DaemonLimits struct {
	Limits          Limits `json:"limits"`
	TTLSeconds      int64  `json:"ttl_seconds"`
	LifetimeSeconds int64  `json:"lifetime_seconds,omitempty"`
	TimeoutMS       int64  `json:"timeout_ms"`
	CommandBytes    int64  `json:"command_bytes"`
	OutputBytes     int64  `json:"output_bytes"` // kept of a command's
	FileBytes       int64  `json:"file_bytes"`   // of one file; the next three are for calls that the SDK does not use
	UploadBytes     int64  `json:"upload_bytes"`
	ReadBytes       int64  `json:"read_bytes"`
	WriteBytes      int64  `json:"write_bytes"`
	Sessions        int64  `json:"sessions,omitempty"`
	SessionsPerKey  int64  `json:"sessions_per_key,omitempty"`
}

// DaemonWorkspace is what holds for workspaces.
type DaemonWorkspace struct {
	DefaultSizeMB    int64 `json:"default_size_mb"`
	MaxSizeMB        int64 `json:"max_size_mb"`
	MaxCount         int64 `json:"max_count,omitempty"`         // 0 is any number
	RetentionSeconds int64 `json:"retention_seconds,omitempty"` // without use, after which one is removed; 0 is never
	PersistByDefault bool  `json:"persist_by_default"`          // a session that names no workspace gets one that outlives it
}

// Info returns the daemon's version, defaults and limits.
func (c *Client) Info(ctx context.Context) (DaemonInfo, error) {
	var info DaemonInfo
	err := c.call(ctx, get("/v1/info"), &info)
	return info, err
}
