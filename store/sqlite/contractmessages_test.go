package sqlite_test

import (
	"testing"
	"time"

	"weir/store"
)

func mailMessages(_ *testing.T, s *subject) {
	full, bare := messageOf(1), store.Message{ID: 1<<63 - 1, Gate: "g", Received: epoch}
	waiting := store.Addressee{Number: 7, Address: "Ännchen@example.org", Notify: "FAILURE,DELAY",
		Original: "rfc822;a+2Bb@example.org", State: store.Sending,
		Due: epoch.Add(1), Since: epoch.Add(2), Attempt: 3, Owner: "host/1", Status: "451 4.3.0 later", Warned: true}
	mine := []store.Addressee{to(3), waiting, {Number: 0, Address: "a", State: store.Held}}
	s.put(full, mine...)
	s.put(bare, to(0))
	mine[0].Address = "changed" // it is the caller's
	s.reopen()
	s.same(get(s, mailTx.Message, 1), sized(full))
	s.same(get(s, mailTx.Message, bare.ID), sized(bare))
	s.same(get(s, mailTx.Addressees, 1),
		of(1, store.Addressee{Number: 0, Address: "a", State: store.Held}, to(3), waiting))
	for _, id := range []store.MailID{0, 2, 1 << 63, 1<<64 - 1} {
		lacks(s, mailTx.Message, id)
		s.same(get(s, mailTx.Addressees, id), []store.Addressee(nil))
		s.fails(errorOf(s.mail.Open(s.Context(), id)), store.ErrNotFound)
	}
	s.refuses(store.ErrExists,
		func(tx mailTx) error { return tx.PutMessage(bare, inline("again"), []store.Addressee{to(0)}) })

	// The last addressee takes the mail with it.
	remove := func(id store.MailID, numbers ...int) {
		s.Helper()
		s.update(func(tx mailTx) error { return tx.RemoveAddressees(id, numbers...) })
	}
	remove(1, 3, 7, 99)
	remove(1)
	s.same(get(s, mailTx.Message, 1), sized(full))
	remove(1, 0)
	lacks(s, mailTx.Message, 1)
	s.fails(errorOf(s.mail.Open(s.Context(), 1)), store.ErrNotFound)
	remove(1, 0)
	remove(0, 0)
	s.counted(1, map[store.State]int{store.Ready: 1})
	s.put(full, to(0)) // the id is free again
}

func mailQueries(_ *testing.T, s *subject) {
	message := func(id store.MailID, user string) store.Message {
		l := messageOf(id)
		l.User = user
		return l
	}
	s.put(message(5, "ann"), to(0))
	s.put(message(3, "bob"), in(store.Held, 0, time.Time{}), in(store.Held, 1, time.Time{}),
		in(store.Delayed, 2, time.Time{}))
	s.put(message(4, "ann"), in(store.Held, 0, time.Time{}), in(store.Sending, 1, epoch), to(2))
	s.put(message(1, "ann"), in(store.Pooled, 0, epoch), in(store.Delayed, 1, time.Time{}),
		in(store.Withheld, 2, time.Time{}))
	for _, test := range []struct {
		q     store.MessageQuery
		limit int
		want  []store.MailID
	}{
		{store.MessageQuery{}, 9, []store.MailID{1, 3, 4, 5}},
		{store.MessageQuery{}, 2, []store.MailID{1, 3}},
		{store.MessageQuery{}, 0, nil},
		{store.MessageQuery{After: 3}, 9, []store.MailID{4, 5}},
		{store.MessageQuery{After: 5}, 9, nil},
		{store.MessageQuery{After: 1 << 63}, 9, nil},
		{store.MessageQuery{User: "ann"}, 9, []store.MailID{1, 4, 5}},
		{store.MessageQuery{User: "ann", After: 1}, 1, []store.MailID{4}},
		{store.MessageQuery{User: "nobody"}, 9, nil},
		{store.MessageQuery{State: store.Ready}, 9, []store.MailID{4, 5}},
		{store.MessageQuery{State: store.Ready}, 1, []store.MailID{4}},
		{store.MessageQuery{State: store.Ready, After: 4}, 9, []store.MailID{5}},
		{store.MessageQuery{State: store.Sending}, 9, []store.MailID{4}},
		{store.MessageQuery{State: store.Delayed}, 9, []store.MailID{1, 3}},
		{store.MessageQuery{State: store.Held}, 9, []store.MailID{3, 4}},
		{store.MessageQuery{State: store.Held}, 1, []store.MailID{3}}, // it is held for two, and one mail
		{store.MessageQuery{State: store.Held, After: 3}, 9, []store.MailID{4}},
		{store.MessageQuery{State: store.Pooled}, 9, []store.MailID{1}},
		{store.MessageQuery{State: store.Withheld}, 9, []store.MailID{1}},
		{store.MessageQuery{State: store.Withheld, After: 1}, 9, nil},
		{store.MessageQuery{State: store.Withheld, User: "ann"}, 9, []store.MailID{1}},
		{store.MessageQuery{State: store.Withheld, User: "bob"}, 9, nil},
		{store.MessageQuery{State: store.Held, User: "ann"}, 9, []store.MailID{4}},
		{store.MessageQuery{State: store.Ready, User: "ann"}, 9, []store.MailID{4, 5}},
		{store.MessageQuery{State: store.Ready, User: "ann", After: 4}, 9, []store.MailID{5}},
		{store.MessageQuery{State: store.Ready, User: "bob"}, 9, nil},
	} {
		got := get2(s, mailTx.Messages, test.q, test.limit)
		s.same(ids(got), test.want)
		for _, one := range got { // all of their addressees, whatever was asked for
			s.same(one.To, get(s, mailTx.Addressees, one.ID))
			s.same(one.Message, get(s, mailTx.Message, one.ID))
		}
	}
	s.counted(4, map[store.State]int{store.Ready: 2, store.Sending: 1, store.Delayed: 2, store.Held: 3, store.Pooled: 1,
		store.Withheld: 1})
}

func mailAddressees(_ *testing.T, s *subject) {
	s.put(messageOf(1), to(0), to(1))
	s.put(messageOf(2), to(0))
	changed := of(1, store.Addressee{Number: 1, Address: "other@example.org", Notify: "NEVER", Original: "rfc822;x",
		State: store.Delayed, Due: epoch.Add(9),
		Since: epoch.Add(8), Attempt: 7, Owner: "host/2", Status: "451", Warned: true})[0]
	for _, state := range store.States {
		changed.State = state
		s.update(func(tx mailTx) error { return tx.PutAddressees(changed, of(2, in(state, 0, time.Time{}))[0]) })
		s.same(get(s, mailTx.Addressees, 1), append(of(1, to(0)), changed))
		s.same(get(s, mailTx.Addressees, 2), of(2, in(state, 0, time.Time{})))
	}
	s.update(func(tx mailTx) error { return tx.PutAddressees() })
	s.refuses(store.ErrNotFound, func(tx mailTx) error { return tx.PutAddressees(of(1, to(2))...) })
	s.refuses(store.ErrNotFound, func(tx mailTx) error { return tx.PutAddressees(of(3, to(0))...) })
	s.refuses(store.ErrNotFound, func(tx mailTx) error {
		return tx.PutAddressees(append(of(1, in(store.Held, 0, epoch)), of(3, to(0))...)...)
	})
	s.same(get(s, mailTx.Addressees, 1)[0], of(1, to(0))[0])
}

func mailReady(_ *testing.T, s *subject) {
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	next := func() time.Time { return look(s, mailTx.NextDue) }
	ready := func(now time.Time, pooled bool, limit int, want ...store.Addressee) {
		s.Helper()
		s.same(look(s, func(tx mailTx) ([]store.Addressee, error) { return tx.Ready(now, pooled, limit) }), want)
	}
	ready(at(0), true, 9)
	s.same(next(), time.Time{})
	s.put(messageOf(1), in(store.Delayed, 0, at(0)), in(store.Held, 1, at(0)), in(store.Pooled, 2, at(1)),
		in(store.Withheld, 3, at(0)))
	s.same(next(), time.Time{})
	s.put(messageOf(3), in(store.Ready, 0, at(5)), in(store.Sending, 1, at(3)), in(store.Pooled, 2, at(4)),
		in(store.Pooled, 3, at(8)))
	s.put(messageOf(2), in(store.Ready, 0, at(5)), in(store.Ready, 4, at(2)), in(store.Ready, 1, at(2)))
	s.same(next(), at(2))
	ready(at(1), false, 9)
	ready(at(1), true, 9, of(1, in(store.Pooled, 2, at(1)))...)
	early := of(2, in(store.Ready, 1, at(2)), in(store.Ready, 4, at(2)))
	lease, pool := of(3, in(store.Sending, 1, at(3)))[0], of(3, in(store.Pooled, 2, at(4)))[0]
	late := []store.Addressee{of(2, in(store.Ready, 0, at(5)))[0], of(3, in(store.Ready, 0, at(5)))[0]}
	ready(at(2), false, 9, early...)
	ready(at(5), false, 9, early[0], early[1], lease, late[0], late[1])
	ready(at(5), false, 4, early[0], early[1], lease, late[0])
	ready(at(5), true, 9, of(1, in(store.Pooled, 2, at(1)))[0], early[0], early[1], lease, pool, late[0], late[1])
	ready(at(5), true, 5, of(1, in(store.Pooled, 2, at(1)))[0], early[0], early[1], lease, pool)
	ready(at(5), true, 0)

	memory := store.Memory{Throttle: "outgoing", User: "ann", State: []byte("s"), Due: at(1)}
	s.update(func(tx mailTx) error { return tx.Remember(memory) })
	s.same(next(), at(1))
	memory.Due = at(30)
	s.update(func(tx mailTx) error {
		return tx.PutAddressees(append(of(2, in(store.Ready, 1, at(40)), in(store.Held, 4, at(2)),
			in(store.Ready, 0, at(50))), of(3, in(store.Ready, 0, at(60)), in(store.Sending, 1, at(70)))...)...)
	})
	s.update(func(tx mailTx) error { return tx.Remember(memory) })
	s.same(next(), at(30))
	s.update(func(tx mailTx) error { return tx.RemoveUser("ann") })
	s.same(next(), at(40))
	// at once
	s.update(func(tx mailTx) error { return tx.PutAddressees(of(2, in(store.Ready, 1, time.Time{}))...) })
	ready(at(0), false, 9, of(2, in(store.Ready, 1, time.Time{}))...)
	if now := next(); now.IsZero() || now.After(at(0)) {
		s.Error(now)
	}
}
