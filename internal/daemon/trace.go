package daemon

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/tracing"
	"github.com/sandkasten/sandkasten/internal/tracing/otlp"
)

// trace begins to send traces where the configuration says. Without that there
// is no Tracer.
func (d *Daemon) trace(ctx context.Context) (*tracing.Tracer, error) {
	if d.cfg.Tracing.Endpoint == "" {
		return nil, nil //nolint:nilnil // a nil Tracer traces nothing
	}
	exporter, err := otlp.New(ctx, otlp.Options{
		Endpoint: d.cfg.Tracing.Endpoint, Ratio: d.cfg.Tracing.Ratio, Version: d.opts.Version, Log: d.log,
	})
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, func() error {
		exporter.Close(context.WithoutCancel(ctx))
		return nil
	})
	return exporter.Tracer(), nil
}
