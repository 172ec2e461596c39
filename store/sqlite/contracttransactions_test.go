package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weir/store"
)

func mailAllOrNothing(_ *testing.T, s *subject) {
	enough := errors.New("enough")
	nothing := func() {
		s.Helper()
		s.empty()
		lacks2(s, mailTx.Remembered, "outgoing", "ann")
		lacks2(s, mailTx.Sketch, "reach", "ann")
		lacks2(s, mailTx.Known, "reach", "ann")
		lacks(s, mailTx.User, "ann")
		s.same(get2(s, mailTx.Entries, store.EntryQuery{}, 9), []store.Entry(nil))
	}
	everything := func(tx mailTx) error {
		return errors.Join(tx.PutUser(store.User{Name: "ann"}),
			tx.PutMessage(messageOf(1), inline("text"), []store.Addressee{to(0)}),
			tx.Remember(store.Memory{Throttle: "outgoing", User: "ann", State: []byte("state")}),
			tx.PutSketch(store.Sketch{Throttle: "reach", User: "ann", State: []byte("sketch")}),
			tx.PutKnown("reach", "ann", []byte("known")), tx.Log(store.Entry{At: epoch, By: "weir", What: "stopped"}))
	}
	if err := s.mail.Update(s.Context(),
		func(tx mailTx) error { s.must(everything(tx)); return enough }); err != enough {
		s.Errorf("the error of the function is %v", err)
	}
	nothing()

	// What it has written it sees.
	var leaked mailTx
	s.update(func(tx mailTx) error {
		leaked = tx
		s.must(everything(tx))
		s.same(sure(tx.Addressees(1)), of(1, to(0)))
		s.same(string(sure(tx.Remembered("outgoing", "ann")).State), "state")
		s.same(string(sure(tx.Sketch("reach", "ann")).State), "sketch")
		s.same(string(sure(tx.Known("reach", "ann"))), "known")
		return errors.Join(tx.RemoveAddressees(1, 0), tx.RemoveUser("ann"), tx.PruneEntries(epoch.Add(1), 9))
	})
	nothing()
	s.fails(errorOf(leaked.User("ann")), store.ErrInvalid)
	s.fails(leaked.PutUser(store.User{Name: "ann"}), store.ErrInvalid)
	s.fails(errorOf(leaked.Known("reach", "ann")), store.ErrInvalid)
	s.fails(leaked.PutKnown("reach", "ann", nil), store.ErrInvalid)

	// A call that fails halfway takes the others with it, whatever the function makes of it.
	s.refuses(store.ErrInvalid, func(tx mailTx) error {
		err := tx.PutMessage(messageOf(1), inline("text"), []store.Addressee{to(0), to(1), to(0)})
		s.fails(err, store.ErrInvalid)
		return nil
	})
	nothing()
	s.put(messageOf(1), to(0), to(1))
	s.refuses(store.ErrNotFound, func(tx mailTx) error {
		s.fails(tx.PutAddressees(of(1, in(store.Held, 0, epoch), to(7))...), store.ErrNotFound)
		return nil
	})
	s.same(get(s, mailTx.Addressees, 1), of(1, to(0), to(1)))
	s.update(func(tx mailTx) error { // what has done nothing takes nothing with it
		s.fails(tx.PutMessage(messageOf(1), inline("other"), []store.Addressee{to(0)}), store.ErrExists)
		s.fails(tx.PutAddressees(of(2, to(0))...), store.ErrNotFound)
		return tx.RemoveAddressees(1, 0, 1)
	})
	nothing()
}

func mailPanics(t *testing.T, s *subject) {
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			err := s.mail.Update(t.Context(), func(tx mailTx) error {
				if err := tx.PutUser(store.User{Name: fmt.Sprintf("user-%02d", i)}); err != nil {
					return err
				}
				if i%4 == 1 {
					panic("oh, no")
				}
				return nil
			})
			if failed := err != nil && strings.Contains(err.Error(), "oh, no"); failed != (i%4 == 1) {
				t.Errorf("%d: %v", i, err)
			}
		})
		wg.Go(func() {
			if i%8 != 2 {
				return
			}
			err := s.mail.Update(t.Context(), func(tx mailTx) error {
				defer runtime.Goexit() // as a test does that fails
				return tx.PutUser(store.User{Name: "nobody"})
			})
			if err == nil {
				t.Error("it has returned")
			}
		})
	}
	wg.Wait()
	s.same(len(get2(s, mailTx.Users, "", 100)), 30)
	func() {
		defer func() { s.same(recover(), "oh, no") }()
		s.view(func(mailTx) error { panic("oh, no") })
	}()
	s.same(len(get2(s, mailTx.Users, "", 100)), 30)
}

// mailNoLostUpdate: what a function reads is still true when it writes.
func mailNoLostUpdate(t *testing.T, s *subject) {
	const goroutines, each = 16, 30
	add := func(tx mailTx) error {
		m, err := tx.Remembered("outgoing", "ann")
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		n, _ := strconv.Atoi(string(m.State))
		return tx.Remember(store.Memory{Throttle: "outgoing", User: "ann", State: []byte(strconv.Itoa(n + 1))})
	}
	no := errors.New("no")
	var wg sync.WaitGroup
	for w := range goroutines {
		wg.Go(func() {
			for i := range each {
				if (w+i)%5 == 0 { // in between, some that change their minds
					if err := s.mail.Update(t.Context(),
						func(tx mailTx) error { return errors.Join(add(tx), no) }); !errors.Is(err, no) {
						t.Error(err)
					}
				}
				if err := s.mail.Update(t.Context(), add); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s.reopen()
	s.same(string(get2(s, mailTx.Remembered, "outgoing", "ann").State), strconv.Itoa(goroutines*each))
}

func mailView(t *testing.T, s *subject) {
	s.put(messageOf(1), to(0))
	s.view(func(tx mailTx) error {
		s.must(errorOf(tx.Message(1)))
		s.update(func(tx mailTx) error { return tx.RemoveAddressees(1, 0) })
		s.put(messageOf(2), to(0))
		s.same(ids(sure(tx.Messages(store.MessageQuery{}, 9))), []store.MailID{1})
		return nil
	})
	s.same(ids(get2(s, mailTx.Messages, store.MessageQuery{}, 9)), []store.MailID{2})
	s.view(func(tx mailTx) error {
		for _, err := range []error{
			tx.PutUser(store.User{Name: "a"}), tx.RemoveUser("a"),
			tx.Remember(store.Memory{Throttle: "t", User: "a", State: []byte("s")}),
			tx.PutSketch(store.Sketch{Throttle: "t", User: "a", State: []byte("s")}),
			tx.PutSketch(store.Sketch{Throttle: "t", User: "a"}),
			tx.PutKnown("t", "a", []byte("k")), tx.PutKnown("t", "a", nil),
			tx.PutMessage(messageOf(3), inline("text"), []store.Addressee{to(0)}), tx.PutAddressees(of(2, to(0))...),
			tx.RemoveAddressees(2, 0),
			tx.PutTicket(store.Ticket{Nonce: "n", User: "a", Until: epoch}), tx.PruneTickets(epoch, 1),
			tx.RemoveTickets("a"),
			tx.Log(store.Entry{At: epoch, By: "a", What: "b"}), tx.PruneEntries(epoch, 1),
			errorOf(tx.Spend(stampOf(1), 9)), errorOf(tx.PruneStamps(epoch, 1)),
		} {
			s.fails(err, store.ErrInvalid)
		}
		return nil
	})
	enough := errors.New("enough")
	s.fails(s.mail.View(s.Context(), func(mailTx) error { return enough }), enough)
	var wg sync.WaitGroup
	for range 20 { // more than there are connections
		wg.Go(func() {
			if err := s.mail.View(t.Context(), func(tx mailTx) error { return errorOf(tx.Message(2)) }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func mailCallerLeaves(_ *testing.T, s *subject) {
	ctx, leave := context.WithCancel(s.Context())
	ran := 0
	s.must(s.mail.Update(ctx, func(tx mailTx) error {
		leave() // too late: it is under way
		ran++
		return tx.PutUser(store.User{Name: "ann"})
	}))
	s.same(ran, 1)
	get(s, mailTx.User, "ann")
	s.allFail(ctx, context.Canceled)
}
