package app

import (
	"os"
	"path/filepath"
	"testing"

	"weir/console"
)

// TestBackupWithoutMail: a weir without a mail gate is backed up and restored as any other one.
func TestBackupWithoutMail(t *testing.T) {
	t.Parallel()
	b := start(t, guardedSite)
	const banned = "203.0.113.66"
	b.ban(console.BanOrder{Who: banned})
	folder := filepath.Join(t.TempDir(), "copy")
	if err := b.client.Backup(t.Context(), folder, func(_, _ int64) {}); err != nil {
		t.Fatal(err)
	}
	b.unban(banned)
	b.again(func() {
		for _, name := range []string{"weir.db", "weir.db-wal", "weir.db-shm", secretFile} {
			if err := os.Remove(filepath.Join(b.dir, name)); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		if err := os.CopyFS(b.dir, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
	})
	b.wants("whoever was banned then", b.visit(0, 1, "X-Forwarded-For", banned), 403)
}
