package storetest

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weir/store"
)

// A sample has one of everything that mail keeps.
type sample struct {
	letter store.Letter
	text   store.Text
	to     store.Addressee
	user   store.User
	memory store.Memory
	sketch store.Sketch
	ticket store.Ticket
	stamp  store.Stamp
	entry  store.Entry
}

// puts tries to put samples that were changed, and wants an error for each.
func (s *subject) puts(want error, all map[string]func(*sample)) {
	s.Helper()
	rejects(s, want, all, func() sample {
		return sample{letter: letterOf(1), text: inline("text"), to: to(0), user: store.User{Name: "ann"},
			memory: store.Memory{Throttle: "outgoing", User: "ann", State: []byte("s")},
			sketch: store.Sketch{Throttle: "reach", User: "ann", State: []byte("s")},
			ticket: store.Ticket{Nonce: "n", User: "ann", Until: epoch}, stamp: stampOf(1),
			entry: store.Entry{At: epoch, By: "alice", What: "released"}}
	}, func(x sample) error {
		return s.mail.Update(s.Context(), func(tx store.MailTx) error {
			for _, put := range []func() error{
				func() error { return tx.PutLetter(x.letter, x.text, []store.Addressee{x.to}) },
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
	})
	s.view(func(tx store.MailTx) error {
		letters, _, err := tx.Count()
		s.same(letters, 0)
		return err
	})
}

func mailMistakes(_ *testing.T, s *subject) {
	old, never := time.Unix(-1, 0), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
	s.puts(store.ErrInvalid, map[string]func(*sample){
		"no id":                func(x *sample) { x.letter.ID = 0 },
		"too large an id":      func(x *sample) { x.letter.ID = 1 << 63 },
		"no gate":              func(x *sample) { x.letter.Gate = "" },
		"no UTF-8":             func(x *sample) { x.letter.Subject = "\xff" },
		"a zero byte":          func(x *sample) { x.letter.User = "a\x00" },
		"a line break":         func(x *sample) { x.letter.Sender = "a\r\nb" },
		"a zone":               func(x *sample) { x.letter.Source = netip.MustParseAddr("fe80::1%eth0") },
		"IPv4 in IPv6":         func(x *sample) { x.letter.Source = netip.MustParseAddr("::ffff:192.0.2.1") },
		"never received":       func(x *sample) { x.letter.Received = time.Time{} },
		"RET":                  func(x *sample) { x.letter.Return = "full" },
		"a size below zero":    func(x *sample) { x.letter.Size = -1 },
		"a wrong size":         func(x *sample) { x.text.Size++ },
		"two texts":            func(x *sample) { x.text.File = "x" },
		"no such file":         func(x *sample) { x.text = store.Text{File: "x", Size: 1} },
		"no address":           func(x *sample) { x.to.Address = "" },
		"a broken address":     func(x *sample) { x.to.Address = "a\nb" },
		"no state":             func(x *sample) { x.to.State = 0 },
		"an unknown state":     func(x *sample) { x.to.State = store.Withheld + 1 },
		"a number below zero":  func(x *sample) { x.to.Number = -1 },
		"too large a number":   func(x *sample) { x.to.Number = store.MaxAddressees },
		"attempts below zero":  func(x *sample) { x.to.Attempt = -1 },
		"due before the epoch": func(x *sample) { x.to.Due = old },
		"due at the epoch":     func(x *sample) { x.to.Due = time.Unix(0, 0) },
		"since never":          func(x *sample) { x.to.Since = never },
		"no name":              func(x *sample) { x.user.Name = "" },
		"no sender":            func(x *sample) { x.user.Senders = []string{""} },
		"two senders in one":   func(x *sample) { x.user.Senders = []string{"a\nb"} },
		"a broken contact":     func(x *sample) { x.user.Contact = "a\rb" },
		"made before":          func(x *sample) { x.user.Made = old },
		"changed never":        func(x *sample) { x.user.Changed = never },
		"no throttle":          func(x *sample) { x.memory.Throttle = "" },
		"no user":              func(x *sample) { x.memory.User = "" },
		"remembered before":    func(x *sample) { x.memory.Due = old },
		"sketched by nothing":  func(x *sample) { x.sketch.Throttle = "" },
		"a sketch, no UTF-8":   func(x *sample) { x.sketch.User = "\xff" },
		"forgotten by nothing": func(x *sample) { x.sketch = store.Sketch{} },
		"no nonce":             func(x *sample) { x.ticket.Nonce = "" },
		"no user of a ticket":  func(x *sample) { x.ticket.User = "" },
		"a ticket of no mail":  func(x *sample) { x.ticket.Letters = []store.MailID{0} },
		"a ticket for good":    func(x *sample) { x.ticket.Until = time.Time{} },
		"nobody":               func(x *sample) { x.entry.By = "" },
		"nothing":              func(x *sample) { x.entry.What = "" },
		"a stamp for good":     func(x *sample) { x.stamp.Until = time.Time{} },
		"a stamp until never":  func(x *sample) { x.stamp.Until = never },
		"at no time":           func(x *sample) { x.entry.At = time.Time{} },
		"of no mail":           func(x *sample) { x.entry.Mail = 1 << 63 },
	})
	s.refuses(store.ErrInvalid, func(tx store.MailTx) error { return tx.PutLetter(letterOf(1), inline("text"), nil) })
	s.refuses(store.ErrInvalid, func(tx store.MailTx) error { return tx.PutAddressees(to(0)) }) // of no mail
	for _, f := range s.limited(-1) {
		s.fails(s.mail.Update(s.Context(), f), store.ErrInvalid)
	}
	s.fails(s.mail.View(s.Context(), func(tx store.MailTx) error {
		return errorOf(tx.Letters(store.LetterQuery{State: 9}, 1))
	}), store.ErrInvalid)
}

// limited is every call that has a limit.
func (s *subject) limited(limit int) []func(store.MailTx) error {
	return []func(store.MailTx) error{
		func(tx store.MailTx) error { return errorOf(tx.Users("", limit)) },
		func(tx store.MailTx) error { return errorOf(tx.Memories("u", limit)) },
		func(tx store.MailTx) error { return errorOf(tx.Due(epoch, limit)) },
		func(tx store.MailTx) error { return errorOf(tx.Stopped("", "", limit)) },
		func(tx store.MailTx) error { return errorOf(tx.Flagged("", "", limit)) },
		func(tx store.MailTx) error { return errorOf(tx.Letters(store.LetterQuery{}, limit)) },
		func(tx store.MailTx) error { return errorOf(tx.Letters(store.LetterQuery{After: 1 << 63}, limit)) },
		func(tx store.MailTx) error { return errorOf(tx.Ready(epoch, true, limit)) },
		func(tx store.MailTx) error { return errorOf(tx.Entries(0, limit)) },
		func(tx store.MailTx) error { return tx.PruneTickets(epoch, limit) },
		func(tx store.MailTx) error { return tx.PruneEntries(epoch, limit) },
		func(tx store.MailTx) error { return errorOf(tx.PruneStamps(epoch, limit)) },
	}
}

func mailBounds(_ *testing.T, s *subject) {
	s.puts(store.ErrTooLarge, map[string]func(*sample){
		"gate":            func(x *sample) { x.letter.Gate = long(store.MaxGate + 1) },
		"user":            func(x *sample) { x.letter.User = long(store.MaxUser + 1) },
		"sender":          func(x *sample) { x.letter.Sender = long(store.MaxAddress + 1) },
		"subject":         func(x *sample) { x.letter.Subject = long(store.MaxSubject + 1) },
		"envelope":        func(x *sample) { x.letter.Envelope = long(store.MaxEnvelope + 1) },
		"inline":          func(x *sample) { x.text = inline(long(store.MaxInline + 1)) },
		"address":         func(x *sample) { x.to.Address = long(store.MaxAddress + 1) },
		"notify":          func(x *sample) { x.to.Notify = long(store.MaxNotify + 1) },
		"original":        func(x *sample) { x.to.Original = long(store.MaxOriginal + 1) },
		"owner":           func(x *sample) { x.to.Owner = long(store.MaxOwner + 1) },
		"status":          func(x *sample) { x.to.Status = long(store.MaxStatus + 1) },
		"name":            func(x *sample) { x.user.Name = long(store.MaxUser + 1) },
		"password":        func(x *sample) { x.user.Password = long(store.MaxPassword + 1) },
		"contact":         func(x *sample) { x.user.Contact = long(store.MaxAddress + 1) },
		"limits":          func(x *sample) { x.user.Limits = long(store.MaxLimits + 1) },
		"a sender":        func(x *sample) { x.user.Senders = []string{long(store.MaxAddress + 1)} },
		"senders":         func(x *sample) { x.user.Senders = slices.Repeat([]string{"a"}, store.MaxSenders+1) },
		"throttle":        func(x *sample) { x.memory.Throttle = long(store.MaxThrottle + 1) },
		"user of one":     func(x *sample) { x.memory.User = long(store.MaxUser + 1) },
		"memory":          func(x *sample) { x.memory.State = make([]byte, store.MaxMemory+1) },
		"sketch throttle": func(x *sample) { x.sketch.Throttle = long(store.MaxThrottle + 1) },
		"sketch user":     func(x *sample) { x.sketch.User = long(store.MaxUser + 1) },
		"sketch":          func(x *sample) { x.sketch.State = make([]byte, store.MaxSketch+1) },
		"nonce":           func(x *sample) { x.ticket.Nonce = long(store.MaxNonce + 1) },
		"ticket user":     func(x *sample) { x.ticket.User = long(store.MaxUser + 1) },
		"ticket throttle": func(x *sample) { x.ticket.Throttle = long(store.MaxThrottle + 1) },
		"ticket gate":     func(x *sample) { x.ticket.Gate = long(store.MaxGate + 1) },
		"ticket letters": func(x *sample) {
			x.ticket.Letters = slices.Repeat([]store.MailID{1}, store.MaxTicketLetters+1)
		},
		"by":         func(x *sample) { x.entry.By = long(store.MaxUser + 1) },
		"what":       func(x *sample) { x.entry.What = long(store.MaxWhat + 1) },
		"entry user": func(x *sample) { x.entry.User = long(store.MaxUser + 1) },
		"entry text": func(x *sample) { x.entry.Text = long(store.MaxEntryText + 1) },
	})
	for _, f := range s.limited(store.MaxBatch + 1) {
		s.fails(s.mail.Update(s.Context(), f), store.ErrTooLarge)
	}
	for _, f := range s.limited(store.MaxBatch) {
		s.update(f)
	}

	// All of it at its bound.
	l := letterOf(2)
	l.Gate, l.User, l.Sender, l.Subject = long(store.MaxGate), long(store.MaxUser), long(store.MaxAddress),
		long(store.MaxSubject)
	l.Envelope, l.Size = long(store.MaxEnvelope), store.MaxInline
	all := make([]store.Addressee, store.MaxAddressees+1)
	for i := range all {
		all[i] = to(i)
	}
	all[0].Address, all[0].Notify, all[0].Original = long(store.MaxAddress), long(store.MaxNotify),
		long(store.MaxOriginal)
	all[0].Owner, all[0].Status = long(store.MaxOwner), long(store.MaxStatus)
	u := store.User{Name: long(store.MaxUser), Password: long(store.MaxPassword), Contact: long(store.MaxAddress),
		Limits:  long(store.MaxLimits),
		Senders: slices.Repeat([]string{long(store.MaxAddress)}, store.MaxSenders)}
	m := store.Memory{Throttle: long(store.MaxThrottle), User: long(store.MaxUser),
		State: make([]byte, store.MaxMemory)}
	k := store.Ticket{Nonce: long(store.MaxNonce), User: long(store.MaxUser), Throttle: long(store.MaxThrottle),
		Gate: long(store.MaxGate), Until: epoch,
		Letters: slices.Repeat([]store.MailID{1<<63 - 1}, store.MaxTicketLetters)}
	e := store.Entry{At: epoch, By: long(store.MaxUser), What: long(store.MaxWhat), User: long(store.MaxUser),
		Text: long(store.MaxEntryText)}
	s.refuses(store.ErrTooLarge,
		func(tx store.MailTx) error { return tx.PutLetter(l, inline(long(store.MaxInline)), all) })
	all = all[:store.MaxAddressees]
	s.update(func(tx store.MailTx) error {
		s.must(tx.PutLetter(l, inline(long(store.MaxInline)), all))
		s.must(tx.PutUser(u))
		s.must(tx.Remember(m))
		s.must(tx.PutTicket(k))
		return tx.Log(e)
	})
	s.view(func(tx store.MailTx) error {
		queued, err := tx.Letters(store.LetterQuery{}, 1)
		s.same(queued, []store.Queued{{Letter: l, To: of(l.ID, slices.Clone(all)...)}})
		user, err2 := tx.User(u.Name)
		s.same(user, u)
		memory, err3 := tx.Remembered(m.Throttle, m.User)
		s.same(memory, m)
		ticket, err4 := tx.Ticket(k.Nonce)
		s.same(ticket, k)
		entries, err5 := tx.Entries(0, 1)
		e.ID = entries[0].ID
		s.same(entries[0], e)
		return errors.Join(err, err2, err3, err4, err5)
	})
	all = of(l.ID, all...)
	s.refuses(store.ErrTooLarge,
		func(tx store.MailTx) error { return tx.PutAddressees(append(slices.Clone(all), all[0])...) })
	numbers := make([]int, store.MaxAddressees+1)
	for i := range numbers {
		numbers[i] = i
	}
	s.refuses(store.ErrTooLarge, func(tx store.MailTx) error { return tx.RemoveAddressees(l.ID, numbers...) })
	s.update(func(tx store.MailTx) error { return tx.RemoveAddressees(l.ID, numbers[:store.MaxAddressees]...) })
	lacks(s, store.MailTx.Letter, l.ID)
}
