package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// What the host is short of is no fault of the daemon's: a client may try again.
func TestShortHostIsUnavailable(t *testing.T) {
	for cause, want := range map[syscall.Errno]int{
		syscall.EMFILE: http.StatusServiceUnavailable, syscall.ENFILE: http.StatusServiceUnavailable, syscall.ENOMEM: http.StatusServiceUnavailable,
		syscall.EAGAIN: http.StatusServiceUnavailable, syscall.ENOSPC: http.StatusInsufficientStorage, syscall.EBADF: http.StatusInternalServerError,
	} {
		answer := httptest.NewRecorder()
		err := fmt.Errorf("list the images: %w", &os.PathError{Op: "open", Path: "/secret", Err: cause})
		WriteError(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), err)
		if answer.Code != want || (answer.Header().Get("Retry-After") != "") != (want == http.StatusServiceUnavailable) {
			t.Errorf("%v: %d, Retry-After %q", cause, answer.Code, answer.Header().Get("Retry-After"))
		}
	}
}

// A client that left is no failure of the daemon's, in the log, the audit log and the
// metrics; what the daemon gave up by itself is.
func TestClientThatLeft(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, tt := range map[string]struct {
		ctx  context.Context
		err  error
		want int
	}{
		"a client that left":     {gone, fmt.Errorf("wait for it: %w", context.Canceled), statusClientGone},
		"one that left too late": {gone, errdefs.New(errdefs.NotFound, "no such session"), http.StatusNotFound},
		"one that is there":      {t.Context(), context.Canceled, http.StatusServiceUnavailable},
	} {
		if _, status := Problem(tt.ctx, tt.err); status != tt.want {
			t.Errorf("%s: %d, want %d", name, status, tt.want)
		}
	}
}

// Who is over a quota learns when it frees, if time frees it.
func TestRetryWhenTheQuotaFrees(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		frees       time.Time
		least, most int
	}{
		"in an hour":    {now.Add(time.Hour), 3500, 3600},
		"in a month":    {now.Add(30 * 24 * time.Hour), 86400, 86400},
		"a moment ago":  {now.Add(-time.Second), 1, 1},
		"when one ends": {time.Time{}, 1, 1},
		"in a moment":   {now.Add(time.Millisecond), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			err := errdefs.OverQuota(errdefs.ResourceExhausted, errdefs.Quota{Name: "session_seconds_per_month", Limit: 1, FreesAt: tt.frees}, "wait")
			answer := httptest.NewRecorder()
			WriteError(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), fmt.Errorf("create: %w", err))
			got, bad := strconv.Atoi(answer.Header().Get("Retry-After"))
			if answer.Code != http.StatusTooManyRequests || bad != nil || got < tt.least || got > tt.most {
				t.Errorf("%d, Retry-After %q; want %d to %d", answer.Code, answer.Header().Get("Retry-After"), tt.least, tt.most)
			}
		})
	}
}

// Connections leave a part of the descriptors to the requests on those that there
// are.
func TestConnectionsLeaveDescriptors(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var fd uint64
	control, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := control.Control(func(n uintptr) { fd = uint64(n) }); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[uint64]bool{0: false, fd: true, fd + 1: true, fd * 2: false, 1 << 20: false} {
		c := &Connections{descriptors: func() uint64 { return limit }}
		if got := c.scarce(conn); got != want {
			t.Errorf("descriptor %d of %d is of the reserve: %v", fd, limit, got)
		}
	}
}

// TestStatusLabels: who left is told from servers in sandboxes that answer with any number.
func TestStatusLabels(t *testing.T) {
	for status, want := range map[int]string{200: "200", 503: "503", statusClientGone: "499", 299: "other", 999: "other"} {
		if got := statusLabel(status); got != want {
			t.Errorf("%d is %s, want %s", status, got, want)
		}
	}
}
