package sqlite_test

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
	s.update(func(tx mailTx) error {
		for _, k := range all {
			s.must(tx.PutSketch(k))
		}
		return nil
	})
	s.reopen()
	for _, k := range all {
		s.same(get2(s, mailTx.Sketch, k.Throttle, k.User), k)
	}
	lacks2(s, mailTx.Sketch, "bulk", "c")
	lacks2(s, mailTx.Sketch, "bulk", "")
	lacks2(s, mailTx.Sketch, "", "a")
	lacks2(s, mailTx.Sketch, "reach", "nobody")
	flagged := func(throttle, user string, limit int) []store.Sketch {
		s.Helper()
		return look(s, func(tx mailTx) ([]store.Sketch, error) { return tx.Flagged(throttle, user, limit) })
	}
	s.same(flagged("", "", 9), []store.Sketch{d, everybody, b, c})
	s.same(flagged("", "", 2), []store.Sketch{d, everybody})
	s.same(flagged("", "", 0), []store.Sketch(nil))
	s.same(flagged("bulk", "b", 9), []store.Sketch{everybody, b, c})
	s.same(flagged("reach", "", 9), []store.Sketch{b, c})
	s.same(flagged("reach", "bb", 9), []store.Sketch{c})
	s.same(flagged("reach", "c", 9), []store.Sketch(nil))

	b.State, b.Flagged, a.Flagged = []byte("other"), false, true
	s.update(func(tx mailTx) error {
		s.must(tx.PutSketch(store.Sketch{Throttle: "reach", User: "c", Flagged: true})) // forgotten
		s.must(tx.PutSketch(store.Sketch{Throttle: "reach", User: "nobody"}))
		s.must(tx.PutSketch(a))
		s.must(tx.PutSketch(b))
		s.same(sure(tx.Flagged("", "", 9)), []store.Sketch{d, everybody, a}) // it sees its own writes
		return nil
	})
	lacks2(s, mailTx.Sketch, "reach", "c")
	s.same(get2(s, mailTx.Sketch, "reach", "b"), b)
	s.same(flagged("", "", 9), []store.Sketch{d, everybody, a})

	s.update(func(tx mailTx) error {
		s.must(tx.RemoveUser("")) // not a user: what is known of all users together stays
		return tx.RemoveUser("b")
	})
	lacks2(s, mailTx.Sketch, "bulk", "b")
	lacks2(s, mailTx.Sketch, "reach", "b")
	s.same(get2(s, mailTx.Sketch, "reach", ""), everybody)
	s.same(flagged("", "", 9), []store.Sketch{everybody, a})
	s.reopen()
	s.same(flagged("", "", 9), []store.Sketch{everybody, a})
	s.same(get2(s, mailTx.Sketch, "bulk", "a"), e)
	s.same(get2(s, mailTx.Sketch, "reach", "a"), a)
}

func mailKnown(_ *testing.T, s *subject) {
	put := func(throttle, user string, data []byte) {
		s.Helper()
		s.update(func(tx mailTx) error { return tx.PutKnown(throttle, user, data) })
	}
	s.update(func(tx mailTx) error {
		for _, k := range []store.Sketch{sketchOf("reach", "ann", false), sketchOf("reach", "bob", false),
			sketchOf("bulk", "ann", true), sketchOf("reach", "", false)} {
			s.must(tx.PutSketch(k))
		}
		s.must(tx.PutKnown("reach", "ann", []byte{0, 255}))
		s.must(tx.PutKnown("bulk", "ann", []byte("bulk")))
		s.must(tx.PutKnown("reach", "", []byte("all")))
		s.same(sure(tx.Known("reach", "ann")), []byte{0, 255}) // it sees its own writes
		return nil
	})
	s.reopen()
	s.same(get2(s, mailTx.Known, "reach", "ann"), []byte{0, 255})
	s.same(get2(s, mailTx.Known, "bulk", "ann"), []byte("bulk"))
	s.same(get2(s, mailTx.Known, "reach", ""), []byte("all"))
	lacks2(s, mailTx.Known, "reach", "bob")
	lacks2(s, mailTx.Known, "reach", "nobody")

	put("reach", "ann", []byte("other"))
	s.same(get2(s, mailTx.Known, "reach", "ann"), []byte("other"))
	// replaced, the known part stays
	s.update(func(tx mailTx) error { return tx.PutSketch(sketchOf("reach", "ann", true)) })
	s.same(get2(s, mailTx.Known, "reach", "ann"), []byte("other"))
	put("reach", "ann", nil)
	lacks2(s, mailTx.Known, "reach", "ann")
	get2(s, mailTx.Sketch, "reach", "ann")
	put("reach", "ann", []byte{})
	put("reach", "nobody", nil)

	// A known part needs its sketch: it comes after it, and goes with it.
	s.refuses(store.ErrNotFound, func(tx mailTx) error { return tx.PutKnown("reach", "nobody", []byte("k")) })
	s.update(func(tx mailTx) error {
		s.fails(tx.PutKnown("reach", "nobody", []byte("k")), store.ErrNotFound) // the transaction goes on
		return errors.Join(tx.PutKnown("reach", "bob", []byte("bob")), tx.PutKnown("reach", "ann", []byte("ann")))
	})
	lacks2(s, mailTx.Known, "reach", "nobody")
	s.update(func(tx mailTx) error {
		s.must(tx.PutSketch(store.Sketch{Throttle: "reach", User: "bob"}))
		s.fails(errorOf(tx.Known("reach", "bob")), store.ErrNotFound)
		return tx.PutSketch(sketchOf("reach", "bob", false))
	})
	lacks2(s, mailTx.Known, "reach", "bob")
	s.same(get2(s, mailTx.Known, "reach", "ann"), []byte("ann"))
	s.update(func(tx mailTx) error { return errors.Join(tx.RemoveUser("ann"), tx.RemoveUser("")) })
	lacks2(s, mailTx.Known, "reach", "ann")
	lacks2(s, mailTx.Known, "bulk", "ann")
	s.same(get2(s, mailTx.Known, "reach", ""), []byte("all"))

	refused := func(want error, throttle, user string, known []byte) {
		s.Helper()
		s.refuses(want, func(tx mailTx) error { return tx.PutKnown(throttle, user, known) })
	}
	refused(store.ErrInvalid, "", "bob", []byte("k"))
	refused(store.ErrInvalid, "reach", "b\x00b", []byte("k"))
	refused(store.ErrTooLarge, long(store.MaxThrottle+1), "bob", nil)
	refused(store.ErrTooLarge, "reach", long(store.MaxUser+1), nil)
	refused(store.ErrTooLarge, "reach", "bob", make([]byte, store.MaxKnownBytes+1))
	lacks2(s, mailTx.Known, "reach", "bob")
	most := store.Sketch{Throttle: long(store.MaxThrottle), User: long(store.MaxUser),
		State: bytesOf(store.MaxSketch, 1), Flagged: true}
	s.update(func(tx mailTx) error {
		return errors.Join(tx.PutSketch(most), tx.PutKnown(most.Throttle, most.User, bytesOf(store.MaxKnownBytes, 2)))
	})
	s.reopen()
	s.same(get2(s, mailTx.Sketch, most.Throttle, most.User), most)
	s.same(get2(s, mailTx.Known, most.Throttle, most.User), bytesOf(store.MaxKnownBytes, 2))
}
