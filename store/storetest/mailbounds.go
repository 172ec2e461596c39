package storetest

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weir/store"
)

// What may be wrong with what is put, by what it is.
type (
	letterChange = func(*store.Letter, *store.Text, *store.Addressee)
	userChange   = func(*store.User)
	memoryChange = func(*store.Memory)
	sketchChange = func(*store.Sketch)
	ticketChange = func(*store.Ticket)
	stampChange  = func(*store.Stamp)
	entryChange  = func(*store.Entry)
	changes      = map[string]any // one of the above, by what is wrong
)

// puts tries to put something that was changed, and wants an error.
func (s *subject) puts(want error, all changes) {
	s.Helper()
	for what, change := range all {
		err := s.mail.Update(s.Context(), func(tx store.MailTx) error {
			switch change := change.(type) {
			case letterChange:
				l, text, a := letterOf(1), inline("text"), to(0)
				change(&l, &text, &a)
				return tx.PutLetter(l, text, []store.Addressee{a})
			case userChange:
				u := store.User{Name: "ann"}
				change(&u)
				return tx.PutUser(u)
			case memoryChange:
				m := store.Memory{Throttle: "outgoing", User: "ann", State: []byte("s")}
				change(&m)
				return tx.Remember(m)
			case sketchChange:
				k := store.Sketch{Throttle: "reach", User: "ann", State: []byte("s")}
				change(&k)
				return tx.PutSketch(k)
			case ticketChange:
				k := store.Ticket{Nonce: "n", User: "ann", Until: epoch}
				change(&k)
				return tx.PutTicket(k)
			case stampChange:
				k := stampOf(1)
				change(&k)
				return errorOf(tx.Spend(k, 9))
			case entryChange:
				e := store.Entry{At: epoch, By: "alice", What: "released"}
				change(&e)
				return tx.Log(e)
			}
			panic(fmt.Sprintf("%s: %T", what, change))
		})
		if err == nil {
			s.Errorf("%s: no error", what)
		} else {
			s.fails(err, want)
		}
	}
	s.view(func(tx store.MailTx) error {
		letters, _, err := tx.Count()
		s.same(letters, 0)
		return err
	})
}

func mailMistakes(_ *testing.T, s *subject) {
	old, never := time.Unix(-1, 0), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
	s.puts(store.ErrInvalid, changes{
		"no id":           letterChange(func(l *store.Letter, _ *store.Text, _ *store.Addressee) { l.ID = 0 }),
		"too large an id": letterChange(func(l *store.Letter, _ *store.Text, _ *store.Addressee) { l.ID = 1 << 63 }),
		"no gate":         letterChange(func(l *store.Letter, _ *store.Text, _ *store.Addressee) { l.Gate = "" }),
		"no UTF-8": letterChange(func(l *store.Letter, _ *store.Text,
			_ *store.Addressee) {
			l.Subject = "\xff"
		}),
		"a zero byte":  letterChange(func(l *store.Letter, _ *store.Text, _ *store.Addressee) { l.User = "a\x00" }),
		"a line break": letterChange(func(l *store.Letter, _ *store.Text, _ *store.Addressee) { l.Sender = "a\r\nb" }),
		"a zone": letterChange(func(l *store.Letter, _ *store.Text, _ *store.Addressee) {
			l.Source = netip.MustParseAddr("fe80::1%eth0")
		}),
		"IPv4 in IPv6": letterChange(func(l *store.Letter, _ *store.Text, _ *store.Addressee) {
			l.Source = netip.MustParseAddr("::ffff:192.0.2.1")
		}),
		"never received": letterChange(func(l *store.Letter, _ *store.Text,
			_ *store.Addressee) {
			l.Received = time.Time{}
		}),
		"RET": letterChange(func(l *store.Letter, _ *store.Text,
			_ *store.Addressee) {
			l.Return = "full"
		}),
		"a size below zero": letterChange(func(l *store.Letter, _ *store.Text, _ *store.Addressee) { l.Size = -1 }),
		"a wrong size": letterChange(func(_ *store.Letter, text *store.Text,
			_ *store.Addressee) {
			text.Size++
		}),
		"two texts": letterChange(func(_ *store.Letter, text *store.Text,
			_ *store.Addressee) {
			text.File = "x"
		}),
		"no such file": letterChange(func(_ *store.Letter, text *store.Text,
			_ *store.Addressee) {
			*text = store.Text{File: "x", Size: 1}
		}),
		"no address": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.Address = ""
		}),
		"a broken address": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.Address = "a\nb"
		}),
		"no state": letterChange(func(_ *store.Letter, _ *store.Text, a *store.Addressee) { a.State = 0 }),
		"an unknown state": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.State = store.Withheld + 1
		}),
		"a number below zero": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.Number = -1
		}),
		"too large a number": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.Number = store.MaxAddressees
		}),
		"attempts below zero": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.Attempt = -1
		}),
		"due before the epoch": letterChange(func(_ *store.Letter, _ *store.Text, a *store.Addressee) { a.Due = old }),
		"due at the epoch": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.Due = time.Unix(0, 0)
		}),
		"since never": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.Since = never
		}),
		"no name":              userChange(func(u *store.User) { u.Name = "" }),
		"no sender":            userChange(func(u *store.User) { u.Senders = []string{""} }),
		"two senders in one":   userChange(func(u *store.User) { u.Senders = []string{"a\nb"} }),
		"a broken contact":     userChange(func(u *store.User) { u.Contact = "a\rb" }),
		"made before":          userChange(func(u *store.User) { u.Made = old }),
		"changed never":        userChange(func(u *store.User) { u.Changed = never }),
		"no throttle":          memoryChange(func(m *store.Memory) { m.Throttle = "" }),
		"no user":              memoryChange(func(m *store.Memory) { m.User = "" }),
		"remembered before":    memoryChange(func(m *store.Memory) { m.Due = old }),
		"sketched by nothing":  sketchChange(func(k *store.Sketch) { k.Throttle = "" }),
		"a sketch, no UTF-8":   sketchChange(func(k *store.Sketch) { k.User = "\xff" }),
		"forgotten by nothing": sketchChange(func(k *store.Sketch) { *k = store.Sketch{} }),
		"no nonce":             ticketChange(func(k *store.Ticket) { k.Nonce = "" }),
		"no user of a ticket":  ticketChange(func(k *store.Ticket) { k.User = "" }),
		"a ticket of no mail":  ticketChange(func(k *store.Ticket) { k.Letters = []store.MailID{0} }),
		"a ticket for good":    ticketChange(func(k *store.Ticket) { k.Until = time.Time{} }),
		"nobody":               entryChange(func(e *store.Entry) { e.By = "" }),
		"nothing":              entryChange(func(e *store.Entry) { e.What = "" }),
		"a stamp for good":     stampChange(func(k *store.Stamp) { k.Until = time.Time{} }),
		"a stamp until never":  stampChange(func(k *store.Stamp) { k.Until = never }),
		"at no time":           entryChange(func(e *store.Entry) { e.At = time.Time{} }),
		"of no mail":           entryChange(func(e *store.Entry) { e.Mail = 1 << 63 }),
	})
	s.refuses(store.ErrInvalid, func(tx store.MailTx) error { return tx.PutLetter(letterOf(1), inline("text"), nil) })
	s.refuses(store.ErrInvalid, func(tx store.MailTx) error { return tx.PutAddressees(to(0)) }) // of no mail
	for _, f := range s.limited(-1) {
		s.fails(s.mail.Update(s.Context(), f), store.ErrInvalid)
	}
	s.fails(s.mail.View(s.Context(), func(tx store.MailTx) error {
		_, err := tx.Letters(store.LetterQuery{State: 9}, 1)
		return err
	}), store.ErrInvalid)
}

// limited is every call that has a limit.
func (s *subject) limited(limit int) []func(store.MailTx) error {
	return []func(store.MailTx) error{
		func(tx store.MailTx) error { _, err := tx.Users("", limit); return err },
		func(tx store.MailTx) error { _, err := tx.Memories("u", limit); return err },
		func(tx store.MailTx) error { _, err := tx.Due(epoch, limit); return err },
		func(tx store.MailTx) error { _, err := tx.Stopped("", "", limit); return err },
		func(tx store.MailTx) error { _, err := tx.Flagged("", "", limit); return err },
		func(tx store.MailTx) error { _, err := tx.Sketches("u", limit); return err },
		func(tx store.MailTx) error { _, err := tx.Letters(store.LetterQuery{}, limit); return err },
		func(tx store.MailTx) error {
			_, err := tx.Letters(store.LetterQuery{After: 1 << 63}, limit)
			return err
		},
		func(tx store.MailTx) error { _, err := tx.Ready(epoch, true, limit); return err },
		func(tx store.MailTx) error { _, err := tx.Entries(0, limit); return err },
		func(tx store.MailTx) error { return tx.PruneTickets(epoch, limit) },
		func(tx store.MailTx) error { return tx.PruneEntries(epoch, limit) },
		func(tx store.MailTx) error { _, err := tx.PruneStamps(epoch, limit); return err },
	}
}

func mailBounds(_ *testing.T, s *subject) {
	s.puts(store.ErrTooLarge, changes{
		"gate": letterChange(func(l *store.Letter, _ *store.Text,
			_ *store.Addressee) {
			l.Gate = long(store.MaxGate + 1)
		}),
		"user": letterChange(func(l *store.Letter, _ *store.Text,
			_ *store.Addressee) {
			l.User = long(store.MaxUser + 1)
		}),
		"sender": letterChange(func(l *store.Letter, _ *store.Text,
			_ *store.Addressee) {
			l.Sender = long(store.MaxAddress + 1)
		}),
		"subject": letterChange(func(l *store.Letter, _ *store.Text,
			_ *store.Addressee) {
			l.Subject = long(store.MaxSubject + 1)
		}),
		"envelope": letterChange(func(l *store.Letter, _ *store.Text,
			_ *store.Addressee) {
			l.Envelope = long(store.MaxEnvelope + 1)
		}),
		"inline": letterChange(func(_ *store.Letter, text *store.Text,
			_ *store.Addressee) {
			*text = inline(long(store.MaxInline + 1))
		}),
		"address": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.Address = long(store.MaxAddress + 1)
		}),
		"notify": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.Notify = long(store.MaxNotify + 1)
		}),
		"original": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.Original = long(store.MaxOriginal + 1)
		}),
		"owner": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.Owner = long(store.MaxOwner + 1)
		}),
		"status": letterChange(func(_ *store.Letter, _ *store.Text,
			a *store.Addressee) {
			a.Status = long(store.MaxStatus + 1)
		}),
		"name":     userChange(func(u *store.User) { u.Name = long(store.MaxUser + 1) }),
		"password": userChange(func(u *store.User) { u.Password = long(store.MaxPassword + 1) }),
		"contact":  userChange(func(u *store.User) { u.Contact = long(store.MaxAddress + 1) }),
		"limits":   userChange(func(u *store.User) { u.Limits = long(store.MaxLimits + 1) }),
		"a sender": userChange(func(u *store.User) { u.Senders = []string{long(store.MaxAddress + 1)} }),
		"senders": userChange(func(u *store.User) {
			u.Senders = slices.Repeat([]string{"a"},
				store.MaxSenders+1)
		}),
		"throttle":        memoryChange(func(m *store.Memory) { m.Throttle = long(store.MaxThrottle + 1) }),
		"user of one":     memoryChange(func(m *store.Memory) { m.User = long(store.MaxUser + 1) }),
		"memory":          memoryChange(func(m *store.Memory) { m.State = make([]byte, store.MaxMemory+1) }),
		"sketch throttle": sketchChange(func(k *store.Sketch) { k.Throttle = long(store.MaxThrottle + 1) }),
		"sketch user":     sketchChange(func(k *store.Sketch) { k.User = long(store.MaxUser + 1) }),
		"sketch":          sketchChange(func(k *store.Sketch) { k.State = make([]byte, store.MaxSketch+1) }),
		"nonce":           ticketChange(func(k *store.Ticket) { k.Nonce = long(store.MaxNonce + 1) }),
		"ticket user":     ticketChange(func(k *store.Ticket) { k.User = long(store.MaxUser + 1) }),
		"ticket throttle": ticketChange(func(k *store.Ticket) { k.Throttle = long(store.MaxThrottle + 1) }),
		"ticket gate":     ticketChange(func(k *store.Ticket) { k.Gate = long(store.MaxGate + 1) }),
		"ticket letters": ticketChange(func(k *store.Ticket) {
			k.Letters = slices.Repeat([]store.MailID{1},
				store.MaxTicketLetters+1)
		}),
		"by":         entryChange(func(e *store.Entry) { e.By = long(store.MaxUser + 1) }),
		"what":       entryChange(func(e *store.Entry) { e.What = long(store.MaxWhat + 1) }),
		"entry user": entryChange(func(e *store.Entry) { e.User = long(store.MaxUser + 1) }),
		"entry text": entryChange(func(e *store.Entry) { e.Text = long(store.MaxEntryText + 1) }),
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
		for _, err := range []error{err, err2, err3, err4, err5} {
			s.must(err)
		}
		return nil
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
	misses(s, func(tx store.MailTx) (store.Letter, error) { return tx.Letter(l.ID) })
}
