package sqlite

import (
	"os"
	"syscall"
	"testing"

	"weir/internal/testkit/needs"
	"weir/store"
)

// TestSmallDisk: on a disk of 24 MB that is full of mail, the log of the store is small, and all of the mail can be
// delivered. Then there is space again for as much: what was deleted leaves it inside of the database.
func TestSmallDisk(t *testing.T) {
	if os.Getuid() != 0 {
		needs.Skip(t, "a disk of its own takes root")
	}
	folder := t.TempDir()
	if err := syscall.Mount("weir", folder, "tmpfs", 0, "size=24m,mode=700"); err != nil {
		needs.Skip(t, err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	s := mustOpen(t, Options{Folder: folder})
	text := make([]byte, store.MaxInline)
	hasSpace := func() bool {
		disk, inside := s.Mail().(mail).Space()
		return max(disk, inside) > int64(len(text))
	}
	least := store.MailID(250)
	for first := store.MailID(1); first < 2000; first += 1000 {
		last := first
		for ; hasSpace(); last++ {
			staged := s.Mail().Stage()
			if _, err := staged.Write(text); err != nil {
				t.Fatal(err)
			}
			sealed, err := staged.Seal()
			if err == nil {
				err = s.Mail().Update(t.Context(), func(tx store.MailTx) error { return message(tx, last, sealed) })
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		log, err := os.Stat(s.files.db + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		if last-first < least || log.Size() > 3<<20 {
			t.Errorf("there was room for %d mails, and the log has %d bytes", last-first, log.Size())
		}
		for id := first; id < last; id++ {
			if err := s.Mail().Update(t.Context(),
				func(tx store.MailTx) error { return tx.RemoveAddressees(id, 0) }); err != nil {
				t.Fatalf("mail %d of %d cannot leave: %v", id, last, err)
			}
		}
		least = (last - first) * 9 / 10
	}
}
