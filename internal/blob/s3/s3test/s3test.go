// Package s3test runs a real S3 server for tests. What breaks on the way to it belongs
// to the test, which puts a proxy of its own before it, or takes Breakable.
package s3test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// What a client of the server needs beside its address.
const (
	AccessKey = "test-access-key"
	SecretKey = "test-secret-key"
	Region    = "eu-test-1"
)

// Forward passes requests on to the server at a socket as they are: their signatures
// cover the host. The caller says what becomes of failures.
func Forward(socket string) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", "server", p.In.Host
		},
		Transport: &http.Transport{
			DisableKeepAlives:  true,
			DisableCompression: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			},
		},
	}
}

// Start runs a server until the test ends. It listens on a socket, so that no port has
// to be guessed, and its buckets are the directories in one that it returns.
func Start(t *testing.T) (buckets, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "s3") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	buckets, socket = filepath.Join(dir, "buckets"), filepath.Join(dir, "socket")
	if err := os.Mkdir(buckets, 0o700); err != nil {
		t.Fatal(err)
	}
	program := testenv.Tool(t, "tools/s3", "github.com/versity/versitygw/cmd/versitygw")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--port", socket, "--access", AccessKey, "--secret", SecretKey, "--region", Region, "--quiet", "posix", buckets)
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // killed below
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		<-gone
		if t.Failed() {
			t.Logf("the S3 server wrote:\n%s", log)
		}
	})
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
			return buckets, socket
		}
		select {
		case <-gone:
			t.Fatal("the S3 server ended")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
