package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"weir/store"
)

func mailBackup(t *testing.T, s *subject) {
	lift := banOf(client("b"))
	lift.Lifted = true
	s.must(s.bans.Put(s.Context(), banOf(client("a")), lift))
	s.update(func(tx mailTx) error {
		return errors.Join(tx.PutUser(store.User{Name: "ann"}), tx.PutSketch(sketchOf("reach", "ann", true)),
			tx.PutKnown("reach", "ann", bytesOf(1<<20, 5)),
			tx.Log(store.Entry{At: epoch, By: "alice", What: "released"}))
	})
	for i, size := range sizes {
		text, err := s.stage(bytesOf(size, 3), 1<<20).Seal()
		s.must(err)
		s.putText(store.MailID(i+1), text, to(0))
	}
	there, missing := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for _, folder := range []string{there, missing} {
		var done, total int64
		s.must(s.mail.Backup(s.Context(), folder, func(d, t int64) {
			if d < done || d > t {
				s.Errorf("%d of %d after %d of %d", d, t, done, total)
			}
			done, total = d, t
		}))
		if done != total || total < 3<<20 {
			s.Errorf("%d of %d bytes were copied", done, total)
		}
	}
	s.fails(s.mail.Backup(s.Context(), there, nil), store.ErrExists) // it is not empty any more
	s.update(func(tx mailTx) error { return tx.RemoveAddressees(store.MailID(len(sizes)), 0) })

	folder := t.TempDir()
	ctx, leave := context.WithCancel(s.Context())
	s.fails(s.mail.Backup(ctx, folder, func(int64, int64) { leave() }), context.Canceled)
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		s.Error("what is not complete is left:", left, err)
	}
	broken := filepath.Join(folder, "copy")
	s.fails(s.mail.Backup(ctx, broken, nil), context.Canceled)
	if _, err := os.Stat(broken); !os.IsNotExist(err) {
		s.Error("the folder is left:", err)
	}
	if err := s.mail.Backup(s.Context(), filepath.Join(folder, "no", "such"), nil); err == nil {
		s.Error("there is no place for it")
	}

	for _, folder := range []string{there, missing} {
		copied, err := opened(s.Context(), folder)
		s.must(err)
		for i, size := range sizes {
			s.reads(copied.Mail(), store.MailID(i+1), bytesOf(size, 3))
		}
		s.must(errorOf(keptBan(s.Context(), copied.Bans(), client("a"), epoch)))
		s.must(errorOf(keptBan(s.Context(), copied.Bans(), lift.BanKey, epoch)))
		s.must(copied.Mail().Update(s.Context(), func(tx mailTx) error {
			s.same(sure(tx.Flagged("", "", 9)), []store.Sketch{sketchOf("reach", "ann", true)})
			s.same(sure(tx.Known("reach", "ann")), bytesOf(1<<20, 5))
			return errors.Join(errorOf(tx.User("ann")), tx.RemoveAddressees(1, 0))
		}))
		s.must(copied.Close())
	}
}

// mailBackupRunning: a copy is of one moment, whatever comes and goes while it is made.
func mailBackupRunning(t *testing.T, s *subject) {
	const goroutines = 4
	text := bytesOf(store.MaxInline+1, 4)
	// Each goroutine has one mail at any moment: the next one comes in the commit in which the one before goes.
	next := func(tx mailTx, id store.MailID, text store.Text) error {
		err := tx.PutMessage(messageOf(id), text, []store.Addressee{to(0)})
		if id >= 1000 {
			err = errors.Join(err, tx.RemoveAddressees(id-1000, 0))
		}
		return err
	}
	stop := make(chan struct{})
	var wg, begun sync.WaitGroup
	begun.Add(goroutines)
	for g := range goroutines {
		wg.Go(func() {
			for id := store.MailID(g + 1); ; id += 1000 {
				staged := s.mail.Stage()
				_, err := staged.Write(text)
				sealed, err2 := staged.Seal()
				err = errors.Join(err, err2)
				if err == nil {
					err = s.mail.Update(t.Context(), func(tx mailTx) error { return next(tx, id, sealed) })
				}
				if id < 1000 {
					begun.Done()
				}
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	begun.Wait()
	var folders []string
	for range 3 {
		folder := filepath.Join(t.TempDir(), "copy")
		folders = append(folders, folder)
		if err := s.mail.Backup(t.Context(), folder, nil); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	for _, folder := range folders {
		copied, err := opened(s.Context(), folder)
		s.must(err)
		var all []store.Queued
		s.must(copied.Mail().View(t.Context(), func(tx mailTx) error {
			all = sure(tx.Messages(store.MessageQuery{}, 100))
			return nil
		}))
		s.same(len(all), goroutines)
		for i := range all {
			s.reads(copied.Mail(), all[i].ID, text)
		}
		s.must(copied.Close())
	}
	s.swept(epoch.AddDate(100, 0, 0), 0, 0) // what was kept for the copies is gone
}
