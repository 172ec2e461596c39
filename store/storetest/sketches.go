package storetest

import (
	"errors"
	"testing"

	"weir/store"
)

func sketchOf(throttle, user string, flagged bool) store.Sketch {
	return store.Sketch{Throttle: throttle, User: user, State: []byte{0, 1, 255}, Flagged: flagged}
}

func mailSketches(_ *testing.T, s *subject) {
	a, b, c := sketchOf("reach", "a", false), sketchOf("reach", "b", true), sketchOf("reach", "c", true)
	d, e, everybody := sketchOf("bulk", "b", true), sketchOf("bulk", "a", false), sketchOf("reach", "", true)
	all := []store.Sketch{a, b, c, d, e, everybody}
	s.update(func(tx store.MailTx) error {
		for _, k := range all {
			s.must(tx.PutSketch(k))
		}
		return nil
	})
	s.reopen()
	sketch := func(throttle, user string) func(store.MailTx) (store.Sketch, error) {
		return func(tx store.MailTx) (store.Sketch, error) { return tx.Sketch(throttle, user) }
	}
	for _, k := range all {
		s.same(look(s, sketch(k.Throttle, k.User)), k)
	}
	misses(s, sketch("bulk", "c"))
	misses(s, sketch("bulk", ""))
	misses(s, sketch("", "a"))
	misses(s, sketch("reach", "nobody"))
	flagged := func(throttle, user string, limit int) []store.Sketch {
		s.Helper()
		return look(s, func(tx store.MailTx) ([]store.Sketch, error) { return tx.Flagged(throttle, user, limit) })
	}
	s.same(flagged("", "", 9), []store.Sketch{d, everybody, b, c})
	s.same(flagged("", "", 2), []store.Sketch{d, everybody})
	s.same(flagged("", "", 0), []store.Sketch(nil))
	s.same(flagged("bulk", "b", 9), []store.Sketch{everybody, b, c})
	s.same(flagged("reach", "", 9), []store.Sketch{b, c})
	s.same(flagged("reach", "bb", 9), []store.Sketch{c})
	s.same(flagged("reach", "c", 9), []store.Sketch(nil))

	b.State, b.Flagged, a.Flagged = []byte("other"), false, true
	s.update(func(tx store.MailTx) error {
		s.must(tx.PutSketch(store.Sketch{Throttle: "reach", User: "c", Flagged: true})) // forgotten
		s.must(tx.PutSketch(store.Sketch{Throttle: "reach", User: "nobody"}))
		s.must(tx.PutSketch(a))
		s.must(tx.PutSketch(b))
		got, err := tx.Flagged("", "", 9) // what it has written it sees
		s.same(got, []store.Sketch{d, everybody, a})
		return err
	})
	misses(s, sketch("reach", "c"))
	s.same(look(s, sketch("reach", "b")), b)
	s.same(flagged("", "", 9), []store.Sketch{d, everybody, a})

	s.update(func(tx store.MailTx) error {
		s.must(tx.RemoveUser("")) // nobody: what is known of all of them together stays
		return tx.RemoveUser("b")
	})
	misses(s, sketch("bulk", "b"))
	misses(s, sketch("reach", "b"))
	s.same(look(s, sketch("reach", "")), everybody)
	s.same(flagged("", "", 9), []store.Sketch{everybody, a})
	s.reopen()
	s.same(flagged("", "", 9), []store.Sketch{everybody, a})
	s.same(look(s, sketch("bulk", "a")), e)
	s.same(look(s, sketch("reach", "a")), a)
}

func mailKnown(_ *testing.T, s *subject) {
	known := func(throttle, user string) func(store.MailTx) ([]byte, error) {
		return func(tx store.MailTx) ([]byte, error) { return tx.Known(throttle, user) }
	}
	put := func(throttle, user string, data []byte) {
		s.Helper()
		s.update(func(tx store.MailTx) error { return tx.PutKnown(throttle, user, data) })
	}
	s.update(func(tx store.MailTx) error {
		for _, k := range []store.Sketch{sketchOf("reach", "ann", false), sketchOf("reach", "bob", false),
			sketchOf("bulk", "ann", true), sketchOf("reach", "", false)} {
			s.must(tx.PutSketch(k))
		}
		s.must(tx.PutKnown("reach", "ann", []byte{0, 255}))
		s.must(tx.PutKnown("bulk", "ann", []byte("bulk")))
		s.must(tx.PutKnown("reach", "", []byte("all")))
		data, err := tx.Known("reach", "ann") // what it has written it sees
		s.same(data, []byte{0, 255})
		return err
	})
	s.reopen()
	s.same(look(s, known("reach", "ann")), []byte{0, 255})
	s.same(look(s, known("bulk", "ann")), []byte("bulk"))
	s.same(look(s, known("reach", "")), []byte("all"))
	misses(s, known("reach", "bob"))
	misses(s, known("reach", "nobody"))

	put("reach", "ann", []byte("other"))
	s.same(look(s, known("reach", "ann")), []byte("other"))
	// replaced, the known part stays
	s.update(func(tx store.MailTx) error { return tx.PutSketch(sketchOf("reach", "ann", true)) })
	s.same(look(s, known("reach", "ann")), []byte("other"))
	put("reach", "ann", nil)
	misses(s, known("reach", "ann"))
	get2(s, store.MailTx.Sketch, "reach", "ann")
	put("reach", "ann", []byte{})
	put("reach", "nobody", nil)

	// It is nothing without the sketch: it comes after it, and goes with it.
	s.refuses(store.ErrNotFound, func(tx store.MailTx) error { return tx.PutKnown("reach", "nobody", []byte("k")) })
	s.update(func(tx store.MailTx) error {
		s.fails(tx.PutKnown("reach", "nobody", []byte("k")), store.ErrNotFound) // it takes nothing with it
		return errors.Join(tx.PutKnown("reach", "bob", []byte("bob")), tx.PutKnown("reach", "ann", []byte("ann")))
	})
	misses(s, known("reach", "nobody"))
	s.update(func(tx store.MailTx) error {
		s.must(tx.PutSketch(store.Sketch{Throttle: "reach", User: "bob"}))
		s.fails(errorOf(tx.Known("reach", "bob")), store.ErrNotFound)
		return tx.PutSketch(sketchOf("reach", "bob", false))
	})
	misses(s, known("reach", "bob"))
	s.same(look(s, known("reach", "ann")), []byte("ann"))
	s.update(func(tx store.MailTx) error { return errors.Join(tx.RemoveUser("ann"), tx.RemoveUser("")) })
	misses(s, known("reach", "ann"))
	misses(s, known("bulk", "ann"))
	s.same(look(s, known("reach", "")), []byte("all"))

	s.refuses(store.ErrInvalid, func(tx store.MailTx) error { return tx.PutKnown("", "bob", []byte("k")) })
	s.refuses(store.ErrInvalid, func(tx store.MailTx) error { return tx.PutKnown("reach", "b\x00b", []byte("k")) })
	s.refuses(store.ErrTooLarge,
		func(tx store.MailTx) error { return tx.PutKnown(long(store.MaxThrottle+1), "bob", nil) })
	s.refuses(store.ErrTooLarge,
		func(tx store.MailTx) error { return tx.PutKnown("reach", long(store.MaxUser+1), nil) })
	s.refuses(store.ErrTooLarge,
		func(tx store.MailTx) error { return tx.PutKnown("reach", "bob", make([]byte, store.MaxKnownBytes+1)) })
	misses(s, known("reach", "bob"))
	most := store.Sketch{Throttle: long(store.MaxThrottle), User: long(store.MaxUser),
		State: bytesOf(store.MaxSketch, 1), Flagged: true}
	s.update(func(tx store.MailTx) error {
		return errors.Join(tx.PutSketch(most), tx.PutKnown(most.Throttle, most.User, bytesOf(store.MaxKnownBytes, 2)))
	})
	s.reopen()
	s.same(get2(s, store.MailTx.Sketch, most.Throttle, most.User), most)
	s.same(look(s, known(most.Throttle, most.User)), bytesOf(store.MaxKnownBytes, 2))
}
