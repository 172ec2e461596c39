package sqlite_test

import (
	"errors"
	"testing"
	"time"

	"weir/store"
)

func mailUsers(_ *testing.T, s *subject) {
	ann := store.User{Name: "ann", Password: "$argon2id$…", Contact: "ann@home.example",
		Senders: []string{"ann@example.org", "Ännchen@example.org"},
		Limits:  "stop: 40", Language: "de", Disabled: true, Made: epoch, Changed: epoch.Add(time.Nanosecond)}
	bob, zoe := store.User{Name: "bob"}, store.User{Name: "Zoë '\"; --", Made: epoch}
	s.update(func(tx mailTx) error {
		for _, u := range []store.User{ann, bob, zoe} {
			s.must(tx.PutUser(u))
		}
		return nil
	})
	s.reopen()
	users := func(after string, limit int) []store.User { return get2(s, mailTx.Users, after, limit) }
	s.same(users("", 9), []store.User{zoe, ann, bob}) // by bytes
	s.same(users("", 2), []store.User{zoe, ann})
	s.same(users("ann", 9), []store.User{bob})
	s.same(users("amy", 1), []store.User{ann})
	s.same(users("bob", 9), []store.User(nil))
	s.same(users("", 0), []store.User(nil))
	s.same(get(s, mailTx.User, ann.Name), ann)
	lacks(s, mailTx.User, "Ann")
	lacks(s, mailTx.User, "")

	ann.Senders, ann.Disabled, ann.Password, ann.Language = nil, false, "", "pt-BR"
	s.update(func(tx mailTx) error { return tx.PutUser(ann) })
	s.same(get(s, mailTx.User, ann.Name), ann)
	ann.Language = ""
	s.update(func(tx mailTx) error { return tx.PutUser(ann) })
	s.same(get(s, mailTx.User, ann.Name), ann)
	ann.Language = "de"
	s.update(func(tx mailTx) error { return tx.PutUser(ann) })

	memory := store.Memory{Throttle: "outgoing", User: "ann", State: []byte("state"), Due: epoch, Stopped: true}
	s.put(messageOf(1), to(0))
	ticket := store.Ticket{Nonce: "ann's", User: "ann", Until: epoch}
	s.update(func(tx mailTx) error { return errors.Join(tx.Remember(memory), tx.PutTicket(ticket)) })
	s.update(func(tx mailTx) error { return errors.Join(tx.RemoveUser("nobody"), tx.RemoveUser("ann")) })
	lacks(s, mailTx.User, "ann")
	s.update(func(tx mailTx) error { return tx.PutUser(store.User{Name: "ann"}) }) // another one
	s.same(get(s, mailTx.User, "ann"), store.User{Name: "ann"})
	s.update(func(tx mailTx) error { return tx.RemoveUser("ann") })
	lacks2(s, mailTx.Remembered, "outgoing", "ann")
	lacks(s, mailTx.Ticket, ticket.Nonce)
	get(s, mailTx.Message, 1) // the mails stay
}

func mailMemories(_ *testing.T, s *subject) {
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	memory := func(throttle, user string, due time.Time, stopped bool) store.Memory {
		return store.Memory{Throttle: throttle, User: user, State: []byte{0, 1, 255}, Due: due, Stopped: stopped}
	}
	a, b, c := memory("outgoing", "a", at(3), false), memory("outgoing", "b", at(1), true),
		memory("outgoing", "c", time.Time{}, true)
	d, e := memory("bulk", "b", at(2), true), memory("bulk", "a", at(1), false)
	s.update(func(tx mailTx) error {
		for _, m := range []store.Memory{a, b, c, d, e} {
			s.must(tx.Remember(m))
		}
		return nil
	})
	s.reopen()
	for _, m := range []store.Memory{a, b, c, d, e} {
		s.same(get2(s, mailTx.Remembered, m.Throttle, m.User), m)
	}
	lacks2(s, mailTx.Remembered, "bulk", "c")
	of := func(user string, limit int) []store.Memory { return get2(s, mailTx.Memories, user, limit) }
	s.same(of("b", 9), []store.Memory{d, b})
	s.same(of("b", 1), []store.Memory{d})
	s.same(of("nobody", 9), []store.Memory(nil))
	due := func(now time.Time, limit int) []store.Memory { return get2(s, mailTx.Due, now, limit) }
	s.same(due(at(0), 9), []store.Memory(nil))
	s.same(due(at(2), 9), []store.Memory{e, b, d}) // the longest due first, of two the one of the earlier user
	s.same(due(at(9), 2), []store.Memory{e, b})
	s.same(due(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 9), []store.Memory{e, b, d, a})
	s.same(due(time.Time{}, 9), []store.Memory(nil))
	s.same(due(at(9), 0), []store.Memory(nil))
	stopped := func(throttle, user string, limit int) []store.Memory {
		s.Helper()
		return look(s, func(tx mailTx) ([]store.Memory, error) { return tx.Stopped(throttle, user, limit) })
	}
	s.same(stopped("", "", 9), []store.Memory{d, b, c})
	s.same(stopped("", "", 1), []store.Memory{d})
	s.same(stopped("bulk", "b", 9), []store.Memory{b, c})
	s.same(stopped("outgoing", "b", 9), []store.Memory{c})
	s.same(stopped("outgoing", "c", 9), []store.Memory(nil))

	b.State, b.Due, b.Stopped = []byte("other"), time.Time{}, false
	s.update(func(tx mailTx) error {
		s.must(tx.Remember(store.Memory{Throttle: "outgoing", User: "c"})) // forgotten
		s.must(tx.Remember(store.Memory{Throttle: "outgoing", User: "nobody"}))
		return tx.Remember(b)
	})
	lacks2(s, mailTx.Remembered, "outgoing", "c")
	s.same(stopped("", "", 9), []store.Memory{d})
	s.same(due(at(9), 9), []store.Memory{e, d, a})
	s.same(get2(s, mailTx.Remembered, "outgoing", "b"), b)
}
