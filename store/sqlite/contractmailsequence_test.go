package sqlite_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/store"
)

// An addresseeKey is a mail and the number of an addressee.
type addresseeKey struct {
	mail   store.MailID
	number int
}

// mailAnySequence compares the spool with maps, also after it was opened again.
func mailAnySequence(t *testing.T, s *subject) {
	mails := rapid.SampledFrom([]store.MailID{1, 2, 3, 4, 5})
	numbers := rapid.IntRange(0, 3)
	users := rapid.SampledFrom([]string{"ann", "bob"})
	addressees := rapid.Custom(func(t *rapid.T) store.Addressee {
		return store.Addressee{Number: numbers.Draw(t, "number"),
			Address: rapid.StringMatching(`[a-zä]{1,8}`).Draw(t, "address"),
			State:   rapid.SampledFrom(store.States[:]).Draw(t, "state"),
			Due:     epoch.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "due")) * time.Minute)}
	})
	s.anySequence(t, func(rt *rapid.T) {
		messages, people, now := map[store.MailID]store.Message{}, map[addresseeKey]store.Addressee{}, epoch
		s.update(func(tx mailTx) error { // what the case before has left
			for id := range store.MailID(6) {
				s.must(tx.RemoveAddressees(id, 0, 1, 2, 3))
			}
			return nil
		})
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			id := mails.Draw(rt, "mail")
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0, 1, 2, 3:
				l := messageOf(id)
				l.User = users.Draw(rt, "user")
				all := rapid.SliceOfNDistinct(addressees, 1, 4,
					func(a store.Addressee) int { return a.Number }).Draw(rt, "to")
				err := s.mail.Update(s.Context(), func(tx mailTx) error { return tx.PutMessage(l, inline("text"), all) })
				if _, there := messages[id]; there {
					s.fails(err, store.ErrExists)
					continue
				}
				s.must(err)
				messages[id] = sized(l)
				for _, a := range of(id, all...) {
					people[addresseeKey{id, a.Number}] = a
				}
			case 4, 5, 6:
				a := of(id, addressees.Draw(rt, "changed"))[0]
				err := s.mail.Update(s.Context(), func(tx mailTx) error { return tx.PutAddressees(a) })
				if _, there := people[addresseeKey{id, a.Number}]; !there {
					s.fails(err, store.ErrNotFound)
					continue
				}
				s.must(err)
				people[addresseeKey{id, a.Number}] = a
			case 7, 8:
				gone := rapid.SliceOfN(numbers, 0, 4).Draw(rt, "gone")
				s.update(func(tx mailTx) error { return tx.RemoveAddressees(id, gone...) })
				for _, n := range gone {
					delete(people, addresseeKey{id, n})
				}
				left := slices.Collect(maps.Keys(people))
				if !slices.ContainsFunc(left, func(p addresseeKey) bool { return p.mail == id }) {
					delete(messages, id)
				}
			case 9:
				now = now.Add(time.Duration(rapid.IntRange(-2, 2).Draw(rt, "on")) * time.Minute)
				s.mayReopen(rt)
			}
			s.holds(messages, people, now,
				store.MessageQuery{User: rapid.SampledFrom([]string{"", "ann", "bob"}).Draw(rt, "of"),
					State: rapid.SampledFrom(append([]store.State{0}, store.States[:]...)).Draw(rt, "in"),
					After: store.MailID(rapid.IntRange(0, 2).Draw(rt, "after"))})
		}
	})
}

// holds wants the spool to be as the maps say.
func (s *subject) holds(messages map[store.MailID]store.Message, people map[addresseeKey]store.Addressee, now time.Time,
	q store.MessageQuery) {
	s.Helper()
	all := slices.SortedFunc(maps.Values(people), func(a, b store.Addressee) int {
		return cmp.Or(cmp.Compare(a.Mail, b.Mail), cmp.Compare(a.Number, b.Number))
	})
	s.view(func(tx mailTx) error {
		states, next := map[store.State]int{}, time.Time{}
		var ready, pooled []store.Addressee
		for _, a := range all {
			states[a.State]++
			active, due := a.State == store.Ready || a.State == store.Sending, !a.Due.After(now)
			if active && (next.IsZero() || a.Due.Before(next)) {
				next = a.Due
			}
			if active && due {
				ready = append(ready, a)
			}
			if (active || a.State == store.Pooled) && due {
				pooled = append(pooled, a)
			}
		}
		n, counts, err := tx.Count()
		s.must(err)
		s.same([]any{n, counts}, []any{len(messages), states})
		s.same(sure(tx.NextDue()), next)
		for with, want := range map[bool][]store.Addressee{false: ready, true: pooled} {
			slices.SortStableFunc(want, func(a, b store.Addressee) int {
				return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.State, b.State))
			})
			s.same(sure(tx.Ready(now, with, 99)), want)
		}
		var want []store.Queued
		for _, id := range slices.Sorted(maps.Keys(messages)) {
			one := store.Queued{Message: messages[id]}
			matches := q.State == 0
			for _, a := range all {
				if a.Mail == id {
					one.To = append(one.To, a)
					matches = matches || a.State == q.State
				}
			}
			if matches && (q.User == "" || q.User == one.User) && id > q.After {
				want = append(want, one)
			}
		}
		s.same(sure(tx.Messages(q, 99)), want)
		return nil
	})
}
