package daemon

import (
	"fmt"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/seal"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
)

func secretOptions(cfg config.Config, rows secrets.Store) (secrets.Options, error) {
	key, err := seal.Open(cfg.SecretsKeyFile())
	if err != nil {
		return secrets.Options{}, fmt.Errorf("network.secrets_key_file: %w", err)
	}
	return secrets.Options{Store: rows, Key: key}, nil
}
