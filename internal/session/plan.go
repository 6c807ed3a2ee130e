package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/files"
)

// Limits of what a create request may carry.
const (
	maxEnv         = 128      // variables
	maxEnvBytes    = 64 << 10 // names and values together
	maxLabels      = 64
	maxLabelKey    = 63
	maxLabelValue  = 255
	maxImageName   = 255
	maxIdempotency = 255
	minMemoryMB    = 16
	minPids        = 8
	minDiskMB      = 16
	minCPU         = 0.01
)

// plan turns a request into the session that it asks for, in state creating
// under a new id, with every default filled in.
func (m *Manager) plan(req CreateRequest) (Session, error) {
	if err := m.checkCreate(req); err != nil {
		return Session{}, err
	}
	hash, err := requestHash(req)
	if err != nil {
		return Session{}, err
	}
	d := m.opts.Defaults
	now := clock()
	id := newID()
	s := Session{
		ID:             ID(id),
		Sandbox:        runtime.ID(id),
		Image:          cmp.Or(req.Image, d.Image),
		State:          Creating,
		WorkspaceID:    req.WorkspaceID,
		Cwd:            files.Workspace,
		Hostname:       cmp.Or(req.Hostname, d.Hostname),
		Limits:         planLimits(req.Limits, d.Limits),
		Network:        cmp.Or(req.Network, d.Network),
		ReadonlyRoot:   d.ReadonlyRoot,
		Env:            req.Env,
		Labels:         req.Labels,
		Owner:          req.Owner,
		Helper:         req.helper,
		IdempotencyKey: req.IdempotencyKey,
		RequestHash:    hash,
		CreatedAt:      now,
		LastActivity:   now,
		TTL:            d.TTL,
		MaxLifetime:    m.opts.Maxima.Lifetime,
		OnIdle:         OnIdleDestroy,
		AutoResume:     true,
		BootID:         newID(),
	}
	if s.WorkspaceID == "" && m.keeper != nil && m.opts.Workspaces.PersistByDefault {
		s.WorkspaceID = newID()
	}
	if req.ReadonlyRoot != nil {
		s.ReadonlyRoot = *req.ReadonlyRoot
	}
	return m.decide(s, req.Policy())
}

func planLimits(asked, defaults runtime.Limits) runtime.Limits {
	return runtime.Limits{
		CPU:      cmp.Or(asked.CPU, defaults.CPU),
		MemoryMB: cmp.Or(asked.MemoryMB, defaults.MemoryMB),
		Pids:     cmp.Or(asked.Pids, defaults.Pids),
		DiskMB:   cmp.Or(asked.DiskMB, defaults.DiskMB),
	}
}

// requestHash tells a retry from another request. Defaults are not part of it,
// so a retry after a change of the configuration is still one.
func requestHash(req CreateRequest) (string, error) {
	req.IdempotencyKey, req.Owner = "", ""
	text, err := json.Marshal(req) // maps come out sorted
	if err != nil {
		return "", fmt.Errorf("hash create request: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

func (m *Manager) checkCreate(req CreateRequest) error {
	checks := []func(CreateRequest) error{
		m.checkImage, m.checkWorkspace, m.checkLimits, m.checkNetwork,
		checkEnv, checkHostname, checkIdempotencyKey,
	}
	for _, check := range checks {
		if err := check(req); err != nil {
			return err
		}
	}
	return checkLabels(req.Labels)
}

func (m *Manager) checkImage(req CreateRequest) error {
	name := cmp.Or(req.Image, m.opts.Defaults.Image)
	if name == "" {
		return errdefs.Invalid("image", "must be given: this daemon has no default image")
	}
	if len(name) > maxImageName || !isPrintable(name) {
		return errdefs.Invalid("image", "must be at most %d printable characters", maxImageName)
	}
	return nil
}

func (m *Manager) checkWorkspace(req CreateRequest) error {
	switch {
	case req.WorkspaceID == "":
		return nil
	case !isWorkspaceID(req.WorkspaceID):
		return errdefs.Invalid("workspace_id", workspaceIDRule)
	case m.keeper == nil:
		return &errdefs.Error{
			Code:    errdefs.Unimplemented,
			Field:   "workspace_id",
			Message: "workspace_id needs workspaces that outlive sessions, which this daemon does not have; leave it out for one that ends with the session",
		}
	}
	return nil
}

func (m *Manager) checkLimits(req CreateRequest) error {
	l, x := req.Limits, m.opts.Maxima.Limits
	// NaN fails both comparisons of its line, so they are written to accept.
	if l.CPU != 0 && !(l.CPU >= minCPU && l.CPU <= x.CPU) {
		return errdefs.Invalid("limits.cpu", "must be between %g and %g cores", minCPU, x.CPU)
	}
	for _, c := range []struct {
		field            string
		asked, low, high int64
	}{
		{"limits.memory_mb", l.MemoryMB, minMemoryMB, x.MemoryMB},
		{"limits.pids", l.Pids, minPids, x.Pids},
		{"limits.disk_mb", l.DiskMB, minDiskMB, x.DiskMB},
	} {
		if c.asked != 0 && (c.asked < c.low || c.asked > c.high) {
			return errdefs.Invalid(c.field, "must be between %d and %d", c.low, c.high)
		}
	}
	return nil
}

func (m *Manager) checkNetwork(req CreateRequest) error {
	mode := cmp.Or(req.Network, m.opts.Defaults.Network)
	if mode != runtime.NetworkNone {
		return &errdefs.Error{
			Code:    errdefs.Unimplemented,
			Field:   "network_mode",
			Message: fmt.Sprintf("network_mode %q is not available; this version has only %q (loopback)", mode, runtime.NetworkNone),
		}
	}
	return nil
}

func checkEnv(req CreateRequest) error {
	if len(req.Env) > maxEnv {
		return errdefs.Invalid("env", "must have at most %d variables", maxEnv)
	}
	total := 0
	for name, value := range req.Env {
		total += len(name) + len(value)
		if !isEnvName(name) {
			return errdefs.Invalid("env", "must have names of letters, digits and '_' that do not start with a digit")
		}
		if strings.ContainsRune(value, 0) || !utf8.ValidString(value) {
			return errdefs.Invalid("env", "must have values of valid UTF-8 without NUL bytes")
		}
	}
	if total > maxEnvBytes {
		return errdefs.Invalid("env", "must have at most %d bytes in all", maxEnvBytes)
	}
	return nil
}

func checkHostname(req CreateRequest) error {
	h := req.Hostname
	if h == "" {
		return nil
	}
	if len(h) > 63 || strings.Trim(strings.ToLower(h), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
		strings.HasPrefix(h, "-") || strings.HasSuffix(h, "-") {
		return errdefs.Invalid("hostname", "must be 1 to 63 letters, digits and '-', and not start or end with '-'")
	}
	return nil
}

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return errdefs.Invalid("labels", "must be at most %d", maxLabels)
	}
	for k, v := range labels {
		if k == "" || len(k) > maxLabelKey || !isPrintable(k) {
			return errdefs.Invalid("labels", "must have keys of 1 to %d printable characters", maxLabelKey)
		}
		if len(v) > maxLabelValue || !isPrintable(v) {
			return errdefs.Invalid("labels", "must have values of at most %d printable characters", maxLabelValue)
		}
	}
	return nil
}

func checkIdempotencyKey(req CreateRequest) error {
	if len(req.IdempotencyKey) > maxIdempotency || !isPrintable(req.IdempotencyKey) {
		return errdefs.Invalid("Idempotency-Key", "must be at most %d printable characters", maxIdempotency)
	}
	return nil
}

// isName reports whether s is safe as a part of any name: 1 to 64 of
// [a-zA-Z0-9._-].
func isName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func isEnvName(s string) bool {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for _, c := range []byte(s) {
		if !isAlphanumeric(c) && c != '_' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// isPrintable reports whether s can be shown on one line.
func isPrintable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
