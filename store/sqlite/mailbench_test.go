package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/store"
)

// BenchmarkMail measures mails that are accepted, claimed and done with, each step a commit of its own for which
// somebody waits.
func BenchmarkMail(b *testing.B) {
	for _, sessions := range []int{1, 20, 64} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			s := mustOpen(b, Options{Folder: b.TempDir()})
			ids := &store.MailIDs{}
			var next atomic.Int64
			var wg sync.WaitGroup
			text := bytes.Repeat([]byte("4 KiB of mail..\n"), 256)
			b.ReportAllocs()
			b.ResetTimer()
			for w := range sessions {
				user := fmt.Sprintf("192.0.2.%d", w)
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						if err := cycle(s.Mail(), ids.Next(epoch), user, text); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			stats := s.Stats()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "mails/s")
			b.ReportMetric(float64(stats.Writes)/float64(max(stats.Commits, 1)), "writes/commit")
		})
	}
}

// cycle is the life of a mail to one that it reaches at once.
func cycle(m store.Mail, id store.MailID, user string, text []byte) error {
	ctx := context.Background()
	to := store.Addressee{Mail: id, Address: "somebody@example.org", State: store.Ready, Due: epoch, Since: epoch}
	state := make([]byte, 120)
	err := m.Update(ctx, func(tx store.MailTx) error {
		if _, err := tx.User(user); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if _, err := tx.Remembered("outgoing", user); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		l := store.Message{ID: id, Gate: "smtp", User: user, Sender: "me@example.org", Subject: "Hello", Received: epoch}
		inline := store.Text{Inline: text, Size: int64(len(text))}
		if err := tx.PutMessage(l, inline, []store.Addressee{to}); err != nil {
			return err
		}
		return tx.Remember(store.Memory{Throttle: "outgoing", User: user, State: state, Due: epoch.Add(time.Hour)})
	})
	if err != nil {
		return err
	}
	to.State, to.Owner, to.Attempt, to.Due = store.Sending, "host/1234", 1, epoch.Add(10*time.Minute)
	if err := m.Update(ctx, func(tx store.MailTx) error { return tx.PutAddressees(to) }); err != nil {
		return err
	}
	return m.Update(ctx, func(tx store.MailTx) error { return tx.RemoveAddressees(id, 0) })
}
