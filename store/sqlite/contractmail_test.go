package sqlite_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"time"

	"weir/store"
)

type mailTx = store.MailTx

func (s *subject) update(f func(mailTx) error) {
	s.Helper()
	s.must(s.mail.Update(s.Context(), f))
}

func (s *subject) refuses(want error, f func(mailTx) error) {
	s.Helper()
	s.fails(s.mail.Update(s.Context(), f), want)
}

func (s *subject) view(f func(mailTx) error) {
	s.Helper()
	s.must(s.mail.View(s.Context(), f))
}

func look[T any](s *subject, f func(mailTx) (T, error)) (v T) {
	s.Helper()
	s.view(func(tx mailTx) (err error) {
		v, err = f(tx)
		return err
	})
	return v
}

// get and get2 are look, lacks and lacks2 are misses, for methods that take one or two arguments.
func get[K, V any](s *subject, f func(mailTx, K) (V, error), key K) V {
	s.Helper()
	return look(s, func(tx mailTx) (V, error) { return f(tx, key) })
}

func get2[A, B, V any](s *subject, f func(mailTx, A, B) (V, error), a A, b B) V {
	s.Helper()
	return look(s, func(tx mailTx) (V, error) { return f(tx, a, b) })
}

func lacks2[A, B, V any](s *subject, f func(mailTx, A, B) (V, error), a A, b B) {
	s.Helper()
	misses(s, func(tx mailTx) (V, error) { return f(tx, a, b) })
}

func lacks[K, V any](s *subject, f func(mailTx, K) (V, error), key K) {
	s.Helper()
	misses(s, func(tx mailTx) (V, error) { return f(tx, key) })
}

// misses wants f to find nothing.
func misses[T any](s *subject, f func(mailTx) (T, error)) {
	s.Helper()
	s.fails(s.mail.View(s.Context(), func(tx mailTx) error {
		_, err := f(tx)
		return err
	}), store.ErrNotFound)
}

func (s *subject) same(got, want any) {
	s.Helper()
	if !reflect.DeepEqual(got, want) {
		s.Fatalf("\n%+v, want\n%+v", got, want)
	}
}

// messageOf is a mail with everything that a mail can have.
func messageOf(id store.MailID) store.Message {
	return store.Message{
		ID: id, Gate: "submission", User: "ann", Sender: "ann@example.org", Subject: "Grüße",
		Source:   netip.MustParseAddr("192.0.2.1"),
		Received: epoch, UTF8: true, EightBit: true, Return: "HDRS", Envelope: "QQ314159", Own: true,
	}
}

func inline(text string) store.Text {
	return store.Text{Inline: []byte(text), Size: int64(len(text))}
}

// to is an addressee that is ready at once.
func to(number int) store.Addressee {
	return store.Addressee{Number: number, Address: fmt.Sprintf("to%d@example.org", number), State: store.Ready,
		Due: epoch, Since: epoch}
}

// in is an addressee in a state, due at a time.
func in(state store.State, number int, due time.Time) store.Addressee {
	a := to(number)
	a.State, a.Due = state, due
	return a
}

func (s *subject) put(l store.Message, to ...store.Addressee) {
	s.Helper()
	s.update(func(tx mailTx) error { return tx.PutMessage(l, inline("text"), to) })
}

// counted wants so many mails, and addressees by state, to be there.
func (s *subject) counted(messages int, addressees map[store.State]int) {
	s.Helper()
	s.view(func(tx mailTx) error {
		n, states, err := tx.Count()
		s.same([]any{n, states}, []any{messages, addressees})
		return err
	})
}

func (s *subject) empty() {
	s.Helper()
	s.counted(0, map[store.State]int{})
}

// sized is a mail as it comes back when its text was put.
func sized(l store.Message) store.Message {
	l.Size = int64(len("text"))
	return l
}

// of are addressees as they come back.
func of(id store.MailID, all ...store.Addressee) []store.Addressee {
	for i := range all {
		all[i].Mail = id
	}
	return all
}

func ids(all []store.Queued) (ids []store.MailID) {
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	return ids
}
