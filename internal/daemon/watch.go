package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/audit"
)

// openAudit opens the audit log, if there is to be one.
func (d *Daemon) openAudit(registry prometheus.Registerer) error {
	if !d.cfg.Audit.Enabled {
		return nil
	}
	log, err := audit.Open(audit.Options{
		Dir: d.cfg.Audit.Dir, MaxBytes: d.cfg.Audit.MaxFileMB << 20, MaxFiles: d.cfg.Audit.MaxFiles, Log: d.log,
	})
	if err != nil {
		return err
	}
	d.audit = log
	d.closers = append(d.closers, log.Close)
	return registry.Register(log)
}

// openDebug serves Go's profiler at a socket that only root can connect to, and
// nowhere else. Closing the daemon ends it.
func (d *Daemon) openDebug(ctx context.Context) error {
	socket := d.cfg.Debug.Socket
	if socket == "" {
		return nil
	}
	// That of an earlier daemon, which the lock on the data directory says is gone.
	if info, err := os.Lstat(socket); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return fmt.Errorf("debug.socket: %s is there already and no socket: choose another path", socket)
		}
		if err := os.Remove(socket); err != nil {
			return fmt.Errorf("debug.socket: %w", err)
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("debug.socket: %w", err)
	}
	// Connecting takes the right to write, which no usual umask gives to others,
	// so nobody has come before this.
	if err := os.Chmod(socket, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.log.ErrorContext(ctx, "the profiler's socket is closed", "err", err)
		}
	}()
	d.closers = append(d.closers, func() error {
		defer func() { <-served }()
		return server.Close()
	})
	return nil
}
