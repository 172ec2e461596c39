package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/store"
)

// message adds a mail to one.
func message(tx store.MailTx, id store.MailID, text store.Text) error {
	return tx.PutMessage(store.Message{ID: id, Gate: "submission", User: "ann", Received: epoch}, text,
		[]store.Addressee{{Address: "bob@example.org", State: store.Ready, Due: epoch}})
}

func inline(text string) store.Text { return store.Text{Inline: []byte(text), Size: int64(len(text))} }

// names are those of all users.
func names(t *testing.T, s *Store) (names []string) {
	t.Helper()
	if err := s.Mail().View(t.Context(), func(tx store.MailTx) error {
		all, err := tx.Users("", store.MaxBatch)
		for _, u := range all {
			names = append(names, u.Name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// What somebody else wrote and makes no sense is told as what it is.
func TestDamagedMail(t *testing.T) {
	for change, read := range map[string]func(store.MailTx) error{
		`UPDATE addressees SET state = 77`: func(tx store.MailTx) error {
			_,
				err := tx.Addressees(1)
			return err
		},
		`UPDATE addressees SET due = -5`: func(tx store.MailTx) error {
			_,
				err := tx.Ready(epoch, false, 9)
			return err
		},
		`UPDATE messages SET source = 'x'`: func(tx store.MailTx) error {
			_,
				err := tx.Message(1)
			return err
		},
		`UPDATE messages SET gate = ''`: func(tx store.MailTx) error {
			_,
				err := tx.Messages(store.MessageQuery{}, 9)
			return err
		},
		`UPDATE users SET senders = char(10)`: func(tx store.MailTx) error {
			_,
				err := tx.User("ann")
			return err
		},
		`UPDATE users SET made = -1`: func(tx store.MailTx) error {
			_,
				err := tx.Users("", 9)
			return err
		},
		`UPDATE memories SET state = zeroblob(5000000)`: func(tx store.MailTx) error {
			_,
				err := tx.Remembered("outgoing", "ann")
			return err
		},
		`UPDATE memories SET due = -1`: func(tx store.MailTx) error {
			_,
				err := tx.Due(epoch, 9)
			return err
		},
		`UPDATE sketches SET state = zeroblob(600000)`: func(tx store.MailTx) error {
			_,
				err := tx.Sketch("reach", "ann")
			return err
		},
		`UPDATE sketches SET user = char(0)`: func(tx store.MailTx) error {
			_,
				err := tx.Flagged("", "", 9)
			return err
		},
		`UPDATE sketches SET throttle = ''`: func(tx store.MailTx) error {
			_,
				err := tx.Flagged("", "", 9)
			return err
		},
		`UPDATE known SET data = zeroblob(5000000)`: func(tx store.MailTx) error {
			_,
				err := tx.Known("reach", "ann")
			return err
		},
		`UPDATE tickets SET messages = 'ÄÖÜ'`: func(tx store.MailTx) error { _, err := tx.Ticket("n"); return err },
		`UPDATE entries SET at = -1`:          func(tx store.MailTx) error { _, err := tx.Entries(store.EntryQuery{}, 9); return err },
	} {
		s := mustOpen(t, Options{Folder: t.TempDir()})
		if err := s.Mail().Update(t.Context(), func(tx store.MailTx) error {
			return errors.Join(message(tx, 1, inline("text")), tx.PutUser(store.User{Name: "ann"}),
				tx.PutTicket(store.Ticket{Nonce: "n", User: "ann", Until: epoch}),
				tx.Remember(store.Memory{Throttle: "outgoing", User: "ann", State: []byte("s"), Due: epoch}),
				tx.Log(store.Entry{At: epoch, By: "a", What: "b"}),
				tx.PutSketch(store.Sketch{Throttle: "reach", User: "ann", State: []byte("s"), Flagged: true}),
				tx.PutKnown("reach", "ann", []byte("k")))
		}); err != nil {
			t.Fatal(err)
		}
		execute(t, raw(t, s.files.folder), change)
		if err := s.Mail().View(t.Context(), read); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v", change, err)
		}
		if err := s.Mail().Update(t.Context(), read); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v", change, err)
		}
		if err := s.Mail().Update(t.Context(),
			func(tx store.MailTx) error { return message(tx, 2, inline("text")) }); err != nil {
			t.Error("what is whole does not work:", err)
		}
	}
}

// No call reads more than it returns, but those that count.
func TestCallsUseIndexes(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir()})
	if err := s.Mail().Update(t.Context(), everyCall); err != nil {
		t.Fatal(err)
	}
	conn := raw(t, s.files.folder)
	n := 0
	for query := range s.writer.statements {
		if verb, _, _ := strings.Cut(query, " "); !slices.Contains([]string{"SELECT", "DELETE", "UPDATE"}, verb) ||
			strings.Contains(query, "count(*)") {
			continue
		}
		n++
		args := make([]any, strings.Count(query, "?"))
		if strings.Contains(query, "?1") {
			args = args[:1]
		}
		rows, err := conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			t.Fatal(query, err)
		}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			sorts := strings.Contains(detail, "TEMP B-TREE")
			if strings.HasPrefix(detail, "SCAN") && !strings.Contains(detail, "USING COVERING INDEX addressees_due") ||
				sorts {
				t.Errorf("%s\n%s", query, detail)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if n < 20 {
		t.Errorf("%d statements", n)
	}
}

// everyCall calls everything that a transaction has.
func everyCall(tx store.MailTx) error {
	var all []error
	note := func(_ any, err error) {
		if !errors.Is(err, store.ErrNotFound) {
			all = append(all, err)
		}
	}
	note(nil, message(tx, 1, inline("text")))
	note(nil, tx.PutUser(store.User{Name: "ann"}))
	note(tx.User("ann"))
	note(tx.Users("", 1))
	note(nil, tx.Remember(store.Memory{Throttle: "t", User: "u", State: []byte("s")}))
	note(nil, tx.Remember(store.Memory{Throttle: "t", User: "u"}))
	note(tx.Remembered("t", "u"))
	note(tx.Memories("u", 1))
	note(tx.Due(epoch, 1))
	note(tx.Stopped("", "", 1))
	note(nil, tx.PutSketch(store.Sketch{Throttle: "t", User: "u", State: []byte("s")}))
	note(nil, tx.PutKnown("t", "u", []byte("k")))
	note(nil, tx.PutKnown("t", "u", nil))
	note(tx.Sketch("t", "u"))
	note(tx.Known("t", "u"))
	note(tx.Flagged("", "", 1))
	note(nil, tx.PutSketch(store.Sketch{Throttle: "t", User: "u"}))
	note(tx.Message(1))
	note(tx.Addressees(1))
	for _, user := range []string{"", "ann"} {
		for _, state := range append([]store.State{0}, store.States[:]...) {
			note(tx.Messages(store.MessageQuery{User: user, State: state}, 1))
		}
	}
	note(tx.Ready(epoch, true, 1))
	note(tx.NextDue())
	note(nil, tx.PutAddressees(store.Addressee{Mail: 1, Address: "a", State: store.Held}))
	note(nil, tx.PutTicket(store.Ticket{Nonce: "n", User: "u", Until: epoch}))
	note(tx.Ticket("n"))
	note(nil, tx.RemoveTickets("u"))
	note(nil, tx.PruneTickets(epoch, 1))
	note(nil, tx.Log(store.Entry{At: epoch, By: "a", What: "b"}))
	note(tx.Entries(store.EntryQuery{}, 1))
	note(nil, tx.PruneEntries(epoch, 1))
	note(nil, tx.RemoveAddressees(1, 0, 1))
	note(nil, tx.RemoveAddressees(1, 0))
	note(nil, message(tx, 1, inline("text")))
	note(nil, tx.PutMessage(store.Message{ID: 2, Gate: "g", Received: epoch}, inline(""),
		[]store.Addressee{{Address: "a", State: store.Ready}, {Number: 1, Address: "b", State: store.Ready}}))
	note(nil, tx.RemoveAddressees(2, 1))
	note(nil, tx.RemoveUser("ann"))
	return errors.Join(all...)
}

// Texts are for weir's eyes only.
func TestTextsAreForTheOwnerOnly(t *testing.T) {
	s := mustOpen(t, Options{Folder: t.TempDir()})
	staged := s.Mail().Stage()
	if _, err := staged.Write(make([]byte, store.MaxInline+1)); err != nil {
		t.Fatal(err)
	}
	text, err := staged.Seal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.files.folder, MailFolder, text.File[:2], text.File)
	for at, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700,
		filepath.Dir(filepath.Dir(path)): 0o700} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != want {
			t.Error(at, info.Mode(), err)
		}
	}
}

// A time at which weir is asked what is due may be any.
func TestBound(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(-9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if n := bound(at); n != -1 && n != 1<<63-1 {
			t.Error(at, n)
		}
	}
}
