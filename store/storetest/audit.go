package storetest

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/store"
)

func mailTickets(t *testing.T, s *subject) {
	ticket := store.Ticket{Nonce: "nonce", User: "ann", Throttle: "outgoing", Gate: "submission",
		Letters: []store.MailID{7, 1<<63 - 1, 3}, Until: epoch.Add(time.Hour)}
	other := store.Ticket{Nonce: "other", User: "bob", Until: epoch}
	s.update(func(tx store.MailTx) error { return errors.Join(tx.PutTicket(ticket), tx.PutTicket(other)) })
	s.reopen()
	s.same(get(s, store.MailTx.Ticket, "nonce"), ticket)
	s.same(get(s, store.MailTx.Ticket, "other"), other)
	lacks(s, store.MailTx.Ticket, "")

	mine := store.Ticket{Nonce: "mine", User: "zoe", Until: epoch.Add(time.Hour)}
	s.update(func(tx store.MailTx) error { return tx.PutTicket(mine) })
	s.update(func(tx store.MailTx) error { return errors.Join(tx.RemoveTickets("zoe"), tx.RemoveTickets("nobody")) })
	lacks(s, store.MailTx.Ticket, "mine")
	s.same(get(s, store.MailTx.Ticket, "nonce"), ticket)

	// Of many who use it at once, one does.
	used := errors.New("used")
	var served atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			err := s.mail.Update(t.Context(), func(tx store.MailTx) error {
				k, err := tx.Ticket("nonce")
				if err != nil {
					return err
				}
				if k.Used {
					return used
				}
				k.Used = true
				return tx.PutTicket(k)
			})
			if err == nil {
				served.Add(1)
			} else if !errors.Is(err, used) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s.same(served.Load(), int32(1))
	ticket.Used = true
	s.same(get(s, store.MailTx.Ticket, "nonce"), ticket)

	prune := func(now time.Time, limit int) {
		s.Helper()
		s.update(func(tx store.MailTx) error { return tx.PruneTickets(now, limit) })
	}
	prune(epoch.Add(-1), 9)
	prune(epoch.Add(9*time.Hour), 0)
	get(s, store.MailTx.Ticket, "other")
	prune(epoch.Add(time.Hour), 1) // the one that is over for longest
	lacks(s, store.MailTx.Ticket, "other")
	prune(epoch.Add(time.Hour-1), 9)
	get(s, store.MailTx.Ticket, "nonce")
	prune(epoch.Add(time.Hour), 9) // at that very moment
	lacks(s, store.MailTx.Ticket, "nonce")
}

func mailEntries(_ *testing.T, s *subject) {
	var want []store.Entry
	for i := range 5 {
		e := store.Entry{At: epoch.Add(time.Duration(i) * time.Second), By: "alice", What: "released", User: "ann",
			Mail: store.MailID(i), Text: "number " + strconv.Itoa(i)}
		s.update(func(tx store.MailTx) error { return tx.Log(e) })
		want = append([]store.Entry{e}, want...)
	}
	s.reopen()
	entries := func(before int64, limit int) []store.Entry { return get2(s, store.MailTx.Entries, before, limit) }
	got := entries(0, 9)
	s.same(len(got), 5)
	for i := range got {
		if i > 0 && got[i].ID >= got[i-1].ID {
			s.Errorf("%d comes after %d", got[i].ID, got[i-1].ID)
		}
		want[i].ID = got[i].ID
	}
	s.same(got, want)
	s.same(entries(0, 2), want[:2])
	s.same(entries(want[1].ID, 2), want[2:4])
	s.same(entries(want[4].ID, 2), []store.Entry(nil))
	prune := func(before time.Time, limit int) {
		s.Helper()
		s.update(func(tx store.MailTx) error { return tx.PruneEntries(before, limit) })
	}
	prune(epoch.Add(2*time.Second), 1) // the oldest
	s.same(entries(0, 9), want[:4])
	prune(epoch.Add(2*time.Second), 9) // not the one of that very moment
	s.same(entries(0, 9), want[:3])
	prune(epoch.Add(time.Hour), 9)
	s.same(entries(0, 9), []store.Entry(nil))
	s.update(func(tx store.MailTx) error { return tx.Log(want[0]) })
	if again := entries(0, 9); len(again) != 1 || again[0].ID <= want[0].ID {
		s.Errorf("an id is given twice: %+v", again)
	}
}
