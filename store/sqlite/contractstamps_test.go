package sqlite_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/store"
)

func stampOf(n byte) store.Stamp {
	return store.Stamp{Nonce: store.StampNonce{n, 15: n}, Until: epoch.Add(time.Hour)}
}

// errorOf is the error of a call that returns a value too.
func errorOf[T any](_ T, err error) error { return err }

// sure is the value of a call that must not fail.
func sure[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (s *subject) spend(k store.Stamp, most int) (fresh bool) {
	s.Helper()
	s.update(func(tx mailTx) (err error) { fresh, err = tx.Spend(k, most); return err })
	return fresh
}

func (s *subject) spent(k store.Stamp) bool {
	s.Helper()
	return get(s, mailTx.Spent, k.Nonce)
}

// onlyOne wants one of many updates at once to be the first.
func (s *subject) onlyOne(t *testing.T, first func(mailTx) (bool, error)) {
	s.Helper()
	var firsts atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			was := false
			if err := s.mail.Update(t.Context(),
				func(tx mailTx) (err error) { was, err = first(tx); return err }); err != nil {
				t.Error(err)
			}
			if was {
				firsts.Add(1)
			}
		})
	}
	wg.Wait()
	s.same(firsts.Load(), int32(1))
}

// prunes wants so many stamps to be forgotten.
func (s *subject) prunes(now time.Time, limit, want int) {
	s.Helper()
	s.update(func(tx mailTx) error {
		s.same(sure(tx.PruneStamps(now, limit)), want)
		return nil
	})
}

func mailStamps(t *testing.T, s *subject) {
	s.same(s.spent(stampOf(1)), false)
	s.same(s.spend(stampOf(1), 9), true)
	s.same(s.spend(stampOf(1), 9), false)
	s.same(s.spent(stampOf(2)), false)
	s.reopen()
	s.same(s.spent(stampOf(1)), true)
	s.same(s.spend(stampOf(1), 9), false)
	later := stampOf(1)
	later.Until = later.Until.Add(time.Hour)
	s.same(s.spend(later, 9), false) // the nonce tells stamps apart, and nothing else

	s.onlyOne(t, func(tx mailTx) (bool, error) { return tx.Spend(stampOf(2), 9) })

	// At the bound one that is known stays known, and one more is refused. The rest of the transaction goes on.
	s.same(s.spend(stampOf(3), 3), true)
	s.update(func(tx mailTx) error {
		fresh, err := tx.Spend(stampOf(4), 3)
		s.fails(err, store.ErrCrowded)
		s.same(fresh, false)
		fresh, err = tx.Spend(stampOf(3), 3)
		s.same(fresh, false)
		return errors.Join(err, tx.PutUser(store.User{Name: "ann"}))
	})
	s.same(s.spent(stampOf(4)), false)
	get(s, mailTx.User, "ann")
	s.same(s.spend(stampOf(4), 4), true)

	soon := stampOf(5)
	soon.Until = epoch
	s.same(s.spend(soon, 5), true)
	s.prunes(epoch.Add(-1), 9, 0)
	s.prunes(epoch.Add(9*time.Hour), 0, 0)
	s.prunes(epoch.Add(9*time.Hour), 1, 1) // the one that is over for longest
	s.same(s.spent(soon), false)
	s.prunes(epoch.Add(time.Hour-1), 9, 0)
	s.prunes(epoch.Add(time.Hour), 3, 3) // at that very moment
	s.reopen()
	s.prunes(epoch.Add(time.Hour), 9, 1)
	for n := range byte(3) { // there is space again for as many
		s.same(s.spend(stampOf(n), 3), true)
	}
	s.refuses(store.ErrCrowded, func(tx mailTx) error { return errorOf(tx.Spend(stampOf(9), 3)) })
}

func mailStampsCommit(_ *testing.T, s *subject) {
	no := errors.New("no")
	accept := func(id store.MailID, with error) error {
		return s.mail.Update(s.Context(), func(tx mailTx) error {
			s.same(sure(tx.Spend(stampOf(1), 1)), true)
			if err := tx.PutMessage(messageOf(id), inline("text"), []store.Addressee{to(0)}); err != nil {
				return err
			}
			return with
		})
	}
	s.fails(accept(1, no), no)
	s.same(s.spent(stampOf(1)), false)
	s.put(messageOf(1), to(0))
	s.fails(accept(1, nil), store.ErrExists)
	s.same(s.spent(stampOf(1)), false)
	s.must(accept(2, nil)) // what was not committed is not counted either
	s.reopen()
	s.same(s.spent(stampOf(1)), true)
	get(s, mailTx.Message, 2)
	// What is forgotten by a transaction that fails is not forgotten.
	s.refuses(no, func(tx mailTx) error { return errors.Join(errorOf(tx.PruneStamps(epoch.Add(time.Hour), 9)), no) })
	s.same(s.spent(stampOf(1)), true)
	s.refuses(store.ErrCrowded, func(tx mailTx) error { return errorOf(tx.Spend(stampOf(2), 1)) })
}
