package sqlite_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"weir/store"
)

// bytesOf is a text of some length that looks like no other.
func bytesOf(n int, seed uint64) []byte {
	text := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(n)}).Read(text)
	return text
}

func (s *subject) stage(text []byte, piece int) store.Staged {
	s.Helper()
	staged := s.mail.Stage()
	for rest := text; len(rest) > 0; {
		n, err := staged.Write(rest[:min(piece, len(rest))])
		s.must(err)
		rest = rest[n:]
	}
	s.same(staged.Size(), int64(len(text)))
	return staged
}

func (s *subject) reads(m store.Mail, id store.MailID, want []byte) {
	s.Helper()
	r, err := m.Open(s.Context(), id)
	s.must(err)
	got, err := io.ReadAll(r)
	s.must(errors.Join(err, r.Close()))
	if !bytes.Equal(got, want) {
		s.Fatalf("the text of %s has %d bytes, want %d, or others", id, len(got), len(want))
	}
}

func (s *subject) putText(id store.MailID, text store.Text, to ...store.Addressee) {
	s.Helper()
	s.update(func(tx mailTx) error { return tx.PutMessage(messageOf(id), text, to) })
}

func (s *subject) refusesText(id store.MailID, text store.Text) {
	s.Helper()
	s.refuses(store.ErrInvalid, func(tx mailTx) error {
		return tx.PutMessage(messageOf(id), text, []store.Addressee{to(0)})
	})
}

// swept wants a sweep to remove so many files, and to set so many aside.
func (s *subject) swept(before time.Time, removed, setAside int) {
	s.Helper()
	n, err := s.mail.Sweep(s.Context(), before)
	s.must(err)
	s.same(n, store.Swept{Removed: removed, SetAside: setAside})
}

var sizes = []int{0, 1, 4096, store.MaxInline - 1, store.MaxInline, store.MaxInline + 1, 3 << 20}

func mailTexts(_ *testing.T, s *subject) {
	for i, size := range sizes {
		id := store.MailID(i + 1)
		staged := s.stage(bytesOf(size, 1), []int{1 << 30, 100_000, 777}[i%3])
		if l := messageOf(id); i%2 == 1 { // it is no part of the text
			staged.Note(&l, []store.Addressee{to(0), to(1)})
		}
		text, err := staged.Seal()
		s.must(err)
		s.same([]any{text.Size, text.File != ""}, []any{int64(size), size > store.MaxInline})
		s.fails(errorOf(staged.Write([]byte("more"))), store.ErrInvalid)
		s.fails(errorOf(staged.Seal()), store.ErrInvalid)
		s.putText(id, text, to(0), to(1))
		staged.Discard() // a mail has it
		staged.Discard()
		s.reads(s.mail, id, bytesOf(size, 1))
		l := get(s, mailTx.Message, id)
		s.same([]any{l.Size, l.Filed}, []any{int64(size), text.File})
		if text.File != "" { // nobody else may have it
			s.refusesText(id+100, text)
		}
	}
	s.reopen()
	s.swept(time.Now().Add(time.Hour), 0, 0)
	for i, size := range sizes {
		id := store.MailID(i + 1)
		s.reads(s.mail, id, bytesOf(size, 1))
		s.update(func(tx mailTx) error { return tx.RemoveAddressees(id, 0) })
		s.reads(s.mail, id, bytesOf(size, 1))
		r, err := s.mail.Open(s.Context(), id)
		s.must(err)
		s.update(func(tx mailTx) error { return tx.RemoveAddressees(id, 1) })
		got, err := io.ReadAll(r) // who has it open reads it to the end
		s.must(errors.Join(err, r.Close()))
		s.same(len(got), size)
		s.fails(errorOf(s.mail.Open(s.Context(), id)), store.ErrNotFound)
	}
	s.swept(time.Now().Add(time.Hour), 0, 0) // they were removed with their mails
}

func mailDiscarded(_ *testing.T, s *subject) {
	long, future := bytesOf(store.MaxInline+1, 2), time.Now().Add(time.Hour)
	s.swept(future, 0, 0) // there is nothing yet
	discarded := s.stage(long, 1<<20)
	discarded.Discard()
	s.fails(errorOf(discarded.Write(long)), store.ErrInvalid)
	s.fails(errorOf(discarded.Seal()), store.ErrInvalid)

	sealed := s.stage(long, 1<<20)
	text, err := sealed.Seal()
	s.must(err)
	no := errors.New("no")
	s.refuses(no, func(tx mailTx) error { // in the end it was not taken
		s.must(tx.PutMessage(messageOf(1), text, []store.Addressee{to(0)}))
		return no
	})
	sealed.Discard()
	s.refusesText(1, text)
	s.refusesText(1, store.Text{File: "../../etc/passwd", Size: 1})
	s.swept(future, 0, 0)

	// What is coming in is not swept, however long that takes; what a crash has left is, when it is old.
	coming, forgotten := s.stage(long, 1<<20), s.stage(long, 1<<20)
	_, err = forgotten.Seal()
	s.must(err)
	s.swept(future, 0, 0)
	text, err = coming.Seal()
	s.must(err)
	s.swept(future, 0, 0)
	s.putText(1, text, to(0))
	s.stage(long, 1<<20) // not even sealed
	s.reopen()
	s.swept(time.Now().Add(-time.Hour), 0, 0)
	s.swept(future, 1, 1)
	s.swept(future, 0, 0)
	s.reads(s.mail, 1, long)
}
