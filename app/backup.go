package app

import (
	"context"
	"path/filepath"
)

// Backup copies the store to a folder that is empty or missing.
func (b backend) Backup(ctx context.Context, folder string, progress func(done, total int64)) error {
	k := b.kept.Load()
	if k == nil {
		return ErrNotServing
	}
	if err := k.store.Mail().Backup(ctx, folder, progress); err != nil {
		return err
	}
	// Without the secret no notice could be answered, and throttles would not know which recipients their users
	// write to.
	return writeSecret(filepath.Join(folder, secretFile), b.secret)
}
