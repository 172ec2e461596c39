package sqlite_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"weir/store"
)

// A sample has one of everything that mail keeps.
type sample struct {
	message store.Message
	text    store.Text
	to      store.Addressee
	user    store.User
	memory  store.Memory
	sketch  store.Sketch
	ticket  store.Ticket
	stamp   store.Stamp
	entry   store.Entry
}

// goodSample can be put.
func goodSample() sample {
	return sample{message: messageOf(1), text: inline("text"), to: to(0), user: store.User{Name: "ann"},
		memory: store.Memory{Throttle: "outgoing", User: "ann", State: []byte("s")},
		sketch: store.Sketch{Throttle: "reach", User: "ann", State: []byte("s")},
		ticket: store.Ticket{Nonce: "n", User: "ann", Until: epoch}, stamp: stampOf(1),
		entry: store.Entry{At: epoch, By: "alice", What: "released"}}
}

// putSample puts all of a sample, up to the first error.
func (s *subject) putSample(x sample) error {
	return s.mail.Update(s.Context(), func(tx mailTx) error {
		for _, put := range []func() error{
			func() error { return tx.PutMessage(x.message, x.text, []store.Addressee{x.to}) },
			func() error { return tx.PutUser(x.user) },
			func() error { return tx.Remember(x.memory) },
			func() error { return tx.PutSketch(x.sketch) },
			func() error { return tx.PutTicket(x.ticket) },
			func() error { return errorOf(tx.Spend(x.stamp, 9)) },
			func() error { return tx.Log(x.entry) },
		} {
			if err := put(); err != nil {
				return err
			}
		}
		return nil
	})
}

// bounds are the texts of a sample that have a bound.
func (x *sample) bounds() []bound {
	return []bound{
		{&x.message.Gate, store.MaxGate}, {&x.message.User, store.MaxUser}, {&x.message.Sender, store.MaxAddress},
		{&x.message.Subject, store.MaxSubject}, {&x.message.Envelope, store.MaxEnvelope},
		{&x.to.Address, store.MaxAddress}, {&x.to.Notify, store.MaxNotify}, {&x.to.Original, store.MaxOriginal},
		{&x.to.Owner, store.MaxOwner}, {&x.to.Status, store.MaxStatus},
		{&x.user.Name, store.MaxUser}, {&x.user.Password, store.MaxPassword}, {&x.user.Contact, store.MaxAddress},
		{&x.user.Limits, store.MaxLimits}, {&x.user.Language, store.MaxLanguage},
		{&x.memory.Throttle, store.MaxThrottle}, {&x.memory.User, store.MaxUser},
		{&x.sketch.Throttle, store.MaxThrottle}, {&x.sketch.User, store.MaxUser},
		{&x.ticket.Nonce, store.MaxNonce}, {&x.ticket.User, store.MaxUser}, {&x.ticket.Throttle, store.MaxThrottle},
		{&x.ticket.Gate, store.MaxGate},
		{&x.entry.By, store.MaxUser}, {&x.entry.What, store.MaxWhat}, {&x.entry.User, store.MaxUser},
		{&x.entry.Text, store.MaxEntryText},
	}
}

// rejectsField wants a sample to make no sense when any one of some fields has a certain value.
func rejectsField[F any](s *subject, fields func(*sample) []*F, wrong F) {
	s.Helper()
	for i := range fields(new(sample)) {
		x := goodSample()
		*fields(&x)[i] = wrong
		if err := s.putSample(x); !errors.Is(err, store.ErrInvalid) {
			s.Errorf("%T %d is %v: %v", wrong, i, wrong, err)
		}
	}
}

func mailMistakes(_ *testing.T, s *subject) {
	rejectsField(s, func(x *sample) []*string {
		return []*string{&x.message.Gate, &x.to.Address, &x.user.Name, &x.memory.Throttle, &x.memory.User,
			&x.sketch.Throttle, &x.ticket.Nonce, &x.ticket.User, &x.entry.By, &x.entry.What}
	}, "")
	rejectsField(s, func(x *sample) []*time.Time {
		return []*time.Time{&x.message.Received, &x.ticket.Until, &x.stamp.Until, &x.entry.At}
	}, time.Time{})
	maybe := func(x *sample) []*time.Time {
		return []*time.Time{&x.to.Due, &x.to.Since, &x.user.Made, &x.user.Changed, &x.memory.Due, &x.stamp.Until}
	}
	rejectsField(s, maybe, time.Unix(-1, 0))
	rejectsField(s, maybe, time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC))
	rejects(s, store.ErrInvalid, map[string]func(*sample){
		"no id":                func(x *sample) { x.message.ID = 0 },
		"too large an id":      func(x *sample) { x.message.ID = 1 << 63 },
		"no UTF-8":             func(x *sample) { x.message.Subject = "\xff" },
		"a zero byte":          func(x *sample) { x.message.User = "a\x00" },
		"a line break":         func(x *sample) { x.message.Sender = "a\r\nb" },
		"a zone":               func(x *sample) { x.message.Source = zoned },
		"IPv4 in IPv6":         func(x *sample) { x.message.Source = mapped },
		"RET":                  func(x *sample) { x.message.Return = "full" },
		"a size below zero":    func(x *sample) { x.message.Size = -1 },
		"a wrong size":         func(x *sample) { x.text.Size++ },
		"two texts":            func(x *sample) { x.text.File = "x" },
		"no such file":         func(x *sample) { x.text = store.Text{File: "x", Size: 1} },
		"a broken address":     func(x *sample) { x.to.Address = "a\nb" },
		"no state":             func(x *sample) { x.to.State = 0 },
		"an unknown state":     func(x *sample) { x.to.State = store.Withheld + 1 },
		"a number below zero":  func(x *sample) { x.to.Number = -1 },
		"too large a number":   func(x *sample) { x.to.Number = store.MaxAddressees },
		"attempts below zero":  func(x *sample) { x.to.Attempt = -1 },
		"due at the epoch":     func(x *sample) { x.to.Due = time.Unix(0, 0) },
		"no sender":            func(x *sample) { x.user.Senders = []string{""} },
		"two senders in one":   func(x *sample) { x.user.Senders = []string{"a\nb"} },
		"a broken contact":     func(x *sample) { x.user.Contact = "a\rb" },
		"a sketch, no UTF-8":   func(x *sample) { x.sketch.User = "\xff" },
		"forgotten by nothing": func(x *sample) { x.sketch = store.Sketch{} },
		"a ticket of no mail":  func(x *sample) { x.ticket.Messages = []store.MailID{0} },
		"of no mail":           func(x *sample) { x.entry.Mail = 1 << 63 },
	}, goodSample(), s.putSample)
	s.empty()
	s.refuses(store.ErrInvalid, func(tx mailTx) error { return tx.PutMessage(messageOf(1), inline("text"), nil) })
	s.refuses(store.ErrInvalid, func(tx mailTx) error { return tx.PutAddressees(to(0)) }) // of no mail
	for _, f := range s.limited(-1) {
		s.fails(s.mail.Update(s.Context(), f), store.ErrInvalid)
	}
	s.fails(s.mail.View(s.Context(), func(tx mailTx) error {
		return errorOf(tx.Messages(store.MessageQuery{State: 9}, 1))
	}), store.ErrInvalid)
}

// limited is every call that has a limit.
func (s *subject) limited(limit int) []func(mailTx) error {
	return []func(mailTx) error{
		func(tx mailTx) error { return errorOf(tx.Users("", limit)) },
		func(tx mailTx) error { return errorOf(tx.Memories("u", limit)) },
		func(tx mailTx) error { return errorOf(tx.Due(epoch, limit)) },
		func(tx mailTx) error { return errorOf(tx.Stopped("", "", limit)) },
		func(tx mailTx) error { return errorOf(tx.Flagged("", "", limit)) },
		func(tx mailTx) error { return errorOf(tx.Messages(store.MessageQuery{}, limit)) },
		func(tx mailTx) error { return errorOf(tx.Messages(store.MessageQuery{After: 1 << 63}, limit)) },
		func(tx mailTx) error { return errorOf(tx.Ready(epoch, true, limit)) },
		func(tx mailTx) error { return errorOf(tx.Entries(store.EntryQuery{}, limit)) },
		func(tx mailTx) error { return tx.PruneTickets(epoch, limit) },
		func(tx mailTx) error { return tx.PruneEntries(epoch, limit) },
		func(tx mailTx) error { return errorOf(tx.PruneStamps(epoch, limit)) },
	}
}

func mailBounds(_ *testing.T, s *subject) {
	rejectsLong(s, goodSample(), (*sample).bounds, s.putSample)
	rejects(s, store.ErrTooLarge, map[string]func(*sample){
		"inline":   func(x *sample) { x.text = inline(long(store.MaxInline + 1)) },
		"a sender": func(x *sample) { x.user.Senders = []string{long(store.MaxAddress + 1)} },
		"senders":  func(x *sample) { x.user.Senders = slices.Repeat([]string{"a"}, store.MaxSenders+1) },
		"memory":   func(x *sample) { x.memory.State = make([]byte, store.MaxMemory+1) },
		"sketch":   func(x *sample) { x.sketch.State = make([]byte, store.MaxSketch+1) },
		"messages": func(x *sample) { x.ticket.Messages = slices.Repeat([]store.MailID{1}, store.MaxTicketMessages+1) },
	}, goodSample(), s.putSample)
	s.empty()
	for _, f := range s.limited(store.MaxBatch + 1) {
		s.fails(s.mail.Update(s.Context(), f), store.ErrTooLarge)
	}
	for _, f := range s.limited(store.MaxBatch) {
		s.update(f)
	}

	// All of it at its bound.
	x := goodSample()
	for _, b := range x.bounds() {
		*b.text = long(b.most)
	}
	x.text, x.message.Size = inline(long(store.MaxInline)), store.MaxInline
	x.user.Senders = slices.Repeat([]string{long(store.MaxAddress)}, store.MaxSenders)
	x.memory.State, x.sketch.State = make([]byte, store.MaxMemory), make([]byte, store.MaxSketch)
	x.ticket.Messages = slices.Repeat([]store.MailID{1<<63 - 1}, store.MaxTicketMessages)
	s.must(s.putSample(x))
	id := x.message.ID
	s.same(get2(s, mailTx.Messages, store.MessageQuery{}, 1), []store.Queued{{Message: x.message, To: of(id, x.to)}})
	s.same(get(s, mailTx.User, x.user.Name), x.user)
	s.same(get2(s, mailTx.Remembered, x.memory.Throttle, x.memory.User), x.memory)
	s.same(get2(s, mailTx.Sketch, x.sketch.Throttle, x.sketch.User), x.sketch)
	s.same(get(s, mailTx.Ticket, x.ticket.Nonce), x.ticket)
	entries := get2(s, mailTx.Entries, store.EntryQuery{}, 1)
	x.entry.ID = entries[0].ID
	s.same(entries[0], x.entry)

	all, numbers := make([]store.Addressee, store.MaxAddressees+1), make([]int, store.MaxAddressees+1)
	for i := range all {
		all[i], numbers[i] = to(i), i
	}
	all[0], x.message.ID = x.to, 2
	s.refuses(store.ErrTooLarge, func(tx mailTx) error { return tx.PutMessage(x.message, x.text, all) })
	all = all[:store.MaxAddressees]
	s.update(func(tx mailTx) error { return tx.PutMessage(x.message, x.text, all) })
	s.same(get(s, mailTx.Addressees, 2), of(2, all...))
	s.refuses(store.ErrTooLarge,
		func(tx mailTx) error { return tx.PutAddressees(append(slices.Clone(all), all[0])...) })
	s.refuses(store.ErrTooLarge, func(tx mailTx) error { return tx.RemoveAddressees(2, numbers...) })
	s.update(func(tx mailTx) error { return tx.RemoveAddressees(2, numbers[:store.MaxAddressees]...) })
	lacks(s, mailTx.Message, 2)
}
