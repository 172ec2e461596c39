package sqlite_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"weir/store"
)

func mailTickets(t *testing.T, s *subject) {
	ticket := store.Ticket{Nonce: "nonce", User: "ann", Throttle: "outgoing", Gate: "submission",
		Messages: []store.MailID{7, 1<<63 - 1, 3}, Until: epoch.Add(time.Hour)}
	other := store.Ticket{Nonce: "other", User: "bob", Until: epoch}
	s.update(func(tx mailTx) error { return errors.Join(tx.PutTicket(ticket), tx.PutTicket(other)) })
	s.reopen()
	s.same(get(s, mailTx.Ticket, "nonce"), ticket)
	s.same(get(s, mailTx.Ticket, "other"), other)
	lacks(s, mailTx.Ticket, "")

	mine := store.Ticket{Nonce: "mine", User: "zoe", Until: epoch.Add(time.Hour)}
	s.update(func(tx mailTx) error { return tx.PutTicket(mine) })
	s.update(func(tx mailTx) error { return errors.Join(tx.RemoveTickets("zoe"), tx.RemoveTickets("nobody")) })
	lacks(s, mailTx.Ticket, "mine")
	s.same(get(s, mailTx.Ticket, "nonce"), ticket)

	s.onlyOne(t, func(tx mailTx) (bool, error) {
		k, err := tx.Ticket("nonce")
		if err != nil || k.Used {
			return false, err
		}
		k.Used = true
		return true, tx.PutTicket(k)
	})
	ticket.Used = true
	s.same(get(s, mailTx.Ticket, "nonce"), ticket)

	prune := func(now time.Time, limit int) {
		s.Helper()
		s.update(func(tx mailTx) error { return tx.PruneTickets(now, limit) })
	}
	prune(epoch.Add(-1), 9)
	prune(epoch.Add(9*time.Hour), 0)
	get(s, mailTx.Ticket, "other")
	prune(epoch.Add(time.Hour), 1) // the one that is over for longest
	lacks(s, mailTx.Ticket, "other")
	prune(epoch.Add(time.Hour-1), 9)
	get(s, mailTx.Ticket, "nonce")
	prune(epoch.Add(time.Hour), 9) // at that very moment
	lacks(s, mailTx.Ticket, "nonce")
}

func mailEntries(_ *testing.T, s *subject) {
	var want []store.Entry
	for i := range 5 {
		e := store.Entry{At: epoch.Add(time.Duration(i) * time.Second), By: "alice", What: "released", User: "ann",
			Mail: store.MailID(i), Text: "number " + strconv.Itoa(i)}
		s.update(func(tx mailTx) error { return tx.Log(e) })
		want = append([]store.Entry{e}, want...)
	}
	s.reopen()
	entries := func(before int64, limit int) []store.Entry {
		return get2(s, mailTx.Entries, store.EntryQuery{Before: before}, limit)
	}
	got := entries(0, 9)
	s.same(len(got), len(want))
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
		s.update(func(tx mailTx) error { return tx.PruneEntries(before, limit) })
	}
	prune(epoch.Add(2*time.Second), 1) // the oldest
	s.same(entries(0, 9), want[:4])
	prune(epoch.Add(2*time.Second), 9) // not the one of that very moment
	s.same(entries(0, 9), want[:3])
	prune(epoch.Add(time.Hour), 9)
	s.same(entries(0, 9), []store.Entry(nil))
	s.update(func(tx mailTx) error { return tx.Log(want[0]) })
	if again := entries(0, 9); len(again) != 1 || again[0].ID <= want[0].ID {
		s.Errorf("an id is given twice: %+v", again)
	}
}
