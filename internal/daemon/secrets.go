package daemon

import (
	"fmt"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/seal"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
)

// openSecrets gives sessions the key that secrets are sealed with, and those that
// owners stored.
func openSecrets(cfg config.Config, rows secrets.Store, o *session.Options) error {
	key, err := seal.Open(cfg.SecretsKeyFile())
	if err != nil {
		return fmt.Errorf("network.secrets_key_file: %w", err)
	}
	o.Secrets = secrets.Options{Store: rows, Key: key}
	o.Networks.Seal, o.Networks.Stored = key, secrets.New(o.Secrets).Reveal
	return nil
}
