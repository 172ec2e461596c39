package sqlite_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"weir/store"
)

func logInOf(name, network string, since, at time.Duration) store.LogIn {
	return store.LogIn{Name: name, Network: netip.MustParsePrefix(network), Since: epoch.Add(since), At: epoch.Add(at)}
}

// putLogIn puts one, of up to each of a name and most of all.
func (s *subject) putLogIn(l store.LogIn, each, most int) error {
	return s.access(func(tx accessTx) error { return tx.PutLogIn(l, each, most) })
}

// logIns returns what there is of some networks of a name.
func (s *subject) logIns(console bool, name string, networks ...string) (found []string) {
	s.Helper()
	s.must(s.store.Access().View(s.Context(), func(tx accessTx) error {
		for _, n := range networks {
			l, err := tx.LogIn(console, name, netip.MustParsePrefix(n))
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			s.same(l.Network.String(), n)
			found = append(found, n)
			s.must(err)
		}
		return nil
	}))
	return found
}

// accessLogIns: networks are kept for each name, end with it, and are forgotten when they are old.
func accessLogIns(_ *testing.T, s *subject) {
	const here, there, six = "192.0.2.1/32", "192.0.2.2/32", "2001:db8::/64"
	ann, both := logInOf("ann", here, 0, 0), []string{here, there, six}
	root := logInOf("ann", there, 0, 0)
	root.Console = true // another ann
	s.must(s.access(func(tx accessTx) error {
		return errors.Join(tx.PutLogIn(ann, 9, 9), tx.PutLogIn(logInOf("ann", six, 1, 2), 9, 9), tx.PutLogIn(root, 9, 9),
			tx.PutLogIn(logInOf("bob", here, 3, 3), 9, 9))
	}))
	s.reopen()
	s.same(s.logIns(false, "ann", both...), []string{here, six})
	s.same(s.logIns(true, "ann", both...), []string{there})
	s.same(s.logIns(false, "carl", both...), []string(nil))
	ann.At = epoch.Add(time.Hour)
	s.must(s.putLogIn(ann, 9, 9))
	s.same(granted(s, func(tx accessTx) (store.LogIn, error) { return tx.LogIn(false, "ann", ann.Network) }), ann)

	prune := func(before time.Duration, limit int) {
		s.must(s.access(func(tx accessTx) error { return tx.PruneLogIns(epoch.Add(before), limit) }))
	}
	prune(0, 9)
	s.same(len(s.logIns(true, "ann", there)), 1)
	prune(4, 2) // the oldest first
	s.same(s.logIns(true, "ann", both...), []string(nil))
	s.same(s.logIns(false, "ann", both...), []string{here})
	s.same(s.logIns(false, "bob", both...), []string{here})

	s.must(s.putLogIn(root, 9, 9))
	s.update(func(tx mailTx) error { return tx.RemoveUser("ann") })
	s.same(s.logIns(false, "ann", both...), []string(nil))
	s.same(s.logIns(true, "ann", both...), []string{there})
	s.must(s.access(func(tx accessTx) error { return tx.RemoveOperator("ann") }))
	s.same(s.logIns(true, "ann", both...), []string(nil))
	s.same(s.logIns(false, "bob", both...), []string{here})

	rejects(s, store.ErrInvalid, map[string]func(*store.LogIn){
		"no name": func(l *store.LogIn) { l.Name = "" }, "no network": func(l *store.LogIn) { l.Network = netip.Prefix{} },
		"host bits":    func(l *store.LogIn) { l.Network = netip.MustParsePrefix("192.0.2.1/24") },
		"IPv4 in IPv6": func(l *store.LogIn) { l.Network = netip.MustParsePrefix("::ffff:192.0.2.1/128") },
		"no beginning": func(l *store.LogIn) { l.Since = time.Time{} },
		"no end":       func(l *store.LogIn) { l.At = time.Time{} },
	}, ann, func(l store.LogIn) error { return s.putLogIn(l, 9, 9) })
	rejectsLong(s, ann, func(l *store.LogIn) []bound { return []bound{{&l.Name, store.MaxUser}} },
		func(l store.LogIn) error { return s.putLogIn(l, 9, 9) })
}

// accessLogInBounds: one network more of a name pushes out the least of its others, never a new one; one more of all
// names is refused, and what is gone leaves its place.
func accessLogInBounds(_ *testing.T, s *subject) {
	const each, most = 3, 5
	var all []string
	for i := range 9 {
		all = append(all, fmt.Sprintf("192.0.2.%d/32", i))
	}
	put := func(name string, i int, since, at time.Duration) error {
		return s.putLogIn(logInOf(name, all[i], since, at), each, most)
	}
	for i := range each {
		s.must(put("ann", i, 0, time.Duration(i))) // of the first, there was one login
	}
	s.must(put("ann", 3, 9, 9))
	s.same(s.logIns(false, "ann", all...), []string{all[1], all[2], all[3]})
	s.must(put("ann", 4, 10, 10))
	s.same(s.logIns(false, "ann", all...), []string{all[1], all[2], all[4]}) // the other one with one login went
	s.must(put("ann", 4, 10, 11))
	s.must(put("ann", 5, 12, 12))
	s.same(s.logIns(false, "ann", all...), []string{all[2], all[4], all[5]}) // of several, that of long ago

	s.must(put("bob", 0, 0, 0))
	s.must(put("bob", 1, 0, 0))
	s.fails(put("bob", 2, 0, 0), store.ErrCrowded)
	s.fails(put("carl", 0, 0, 0), store.ErrCrowded)
	s.must(put("bob", 1, 0, 1)) // is there
	s.reopen()
	s.fails(put("carl", 0, 0, 0), store.ErrCrowded)
	s.must(s.access(func(tx accessTx) error { return tx.PruneLogIns(epoch.Add(1), 9) }))
	s.must(put("carl", 0, 0, 0))
	s.fails(put("carl", 1, 0, 0), store.ErrCrowded)
	s.update(func(tx mailTx) error { return tx.RemoveUser("ann") })
	for i := range each {
		s.must(put("carl", i, 0, 0))
	}
	s.must(put("bob", 0, 0, 0))
	s.fails(put("dora", 0, 0, 0), store.ErrCrowded)
}
