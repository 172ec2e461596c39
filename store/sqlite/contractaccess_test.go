package sqlite_test

import (
	"errors"
	"testing"
	"time"

	"weir/store"
)

type accessTx = store.AccessTx

func (s *subject) access(f func(accessTx) error) error {
	return s.store.Access().Update(s.Context(), f)
}

// granted returns what a function finds in one view of the operators.
func granted[T any](s *subject, f func(accessTx) (T, error)) (v T) {
	s.Helper()
	s.must(s.store.Access().View(s.Context(), func(tx accessTx) (err error) { v, err = f(tx); return err }))
	return v
}

func operatorOf(name, role string) store.Operator {
	return store.Operator{Name: name, Role: role, Password: "hash of " + name, Made: epoch, Changed: epoch.Add(1)}
}

func sessionOf(n byte, operator string, seen time.Duration) store.Session {
	return store.Session{Sum: store.Sum{n, 31: n}, Operator: operator, Source: "192.0.2.1", Made: epoch,
		Seen: epoch.Add(seen), Until: epoch.Add(time.Hour)}
}

func tokenOf(n byte, name string) store.Token {
	return store.Token{Sum: store.Sum{n, 31: n}, Name: name, Role: "view", By: "root", Made: epoch}
}

func accessOperators(_ *testing.T, s *subject) {
	ann, bob := operatorOf("ann", "admin"), operatorOf("bob", "view")
	s.must(s.access(func(tx accessTx) error { return errors.Join(tx.PutOperator(bob), tx.PutOperator(ann)) }))
	s.reopen()
	all := func() []store.Operator {
		return granted(s, func(tx accessTx) ([]store.Operator, error) { return tx.Operators("", 9) })
	}
	s.same(all(), []store.Operator{ann, bob})
	s.same(granted(s, func(tx accessTx) ([]store.Operator, error) { return tx.Operators("ann", 9) }),
		[]store.Operator{bob})
	s.same(granted(s, func(tx accessTx) ([]store.Operator, error) { return tx.Operators("", 1) }),
		[]store.Operator{ann})
	bob.Role, bob.Password = "act", ""
	s.must(s.access(func(tx accessTx) error { return tx.PutOperator(bob) }))
	s.same(granted(s, func(tx accessTx) (store.Operator, error) { return tx.Operator("bob") }), bob)

	// The sessions and the tokens end with the operator, and nobody else's.
	mine, free := tokenOf(1, "mine"), tokenOf(2, "free")
	mine.Operator = "bob"
	s.must(s.access(func(tx accessTx) error {
		return errors.Join(tx.PutSession(sessionOf(1, "bob", 0)), tx.PutSession(sessionOf(2, "ann", 0)),
			tx.PutToken(mine), tx.PutToken(free))
	}))
	s.must(s.access(func(tx accessTx) error {
		return errors.Join(tx.RemoveOperator("bob"), tx.RemoveOperator("nobody"), tx.RemoveOperator(""))
	}))
	s.same(all(), []store.Operator{ann})
	s.must(s.store.Access().View(s.Context(), func(tx accessTx) error {
		s.fails(errorOf(tx.Operator("bob")), store.ErrNotFound)
		s.fails(errorOf(tx.Session(sessionOf(1, "", 0).Sum)), store.ErrNotFound)
		s.fails(errorOf(tx.Token(mine.Sum)), store.ErrNotFound)
		s.same(sure(tx.Session(sessionOf(2, "", 0).Sum)), sessionOf(2, "ann", 0))
		s.same(sure(tx.Token(free.Sum)), free)
		return nil
	}))

	// An act and its entry are stored together, or not at all.
	no := errors.New("no")
	s.fails(s.access(func(tx accessTx) error {
		return errors.Join(tx.PutOperator(bob), tx.Log(store.Entry{At: epoch, By: "ann", What: "operator add"}), no)
	}), no)
	s.same(all(), []store.Operator{ann})
	s.same(len(get2(s, mailTx.Entries, store.EntryQuery{}, 9)), 0)
	s.fails(s.store.Access().View(s.Context(), func(tx accessTx) error { return tx.PutOperator(bob) }),
		store.ErrInvalid)
}

func accessSessions(_ *testing.T, s *subject) {
	first, second, other := sessionOf(1, "ann", 2), sessionOf(2, "ann", 1), sessionOf(3, "bob", 0)
	s.must(s.access(func(tx accessTx) error {
		return errors.Join(tx.PutSession(first), tx.PutSession(second), tx.PutSession(other))
	}))
	s.reopen()
	of := func(operator string, limit int) []store.Session {
		return granted(s, func(tx accessTx) ([]store.Session, error) { return tx.Sessions(operator, limit) })
	}
	s.same(of("ann", 9), []store.Session{second, first})
	s.same(of("ann", 1), []store.Session{second})
	second.Seen = epoch.Add(time.Minute)
	s.must(s.access(func(tx accessTx) error { return tx.PutSession(second) }))
	s.same(of("ann", 9), []store.Session{first, second})
	s.must(s.access(func(tx accessTx) error { return tx.RemoveSession(first.Sum) }))
	s.same(of("ann", 9), []store.Session{second})

	prune := func(now, idle time.Time) {
		s.Helper()
		s.must(s.access(func(tx accessTx) error { return tx.PruneSessions(now, idle, 9) }))
	}
	prune(epoch.Add(time.Hour-1), epoch)
	s.same(len(of("ann", 9))+len(of("bob", 9)), 2)
	prune(epoch.Add(time.Hour-1), epoch.Add(1))
	s.same(of("bob", 9), []store.Session(nil))
	s.same(of("ann", 9), []store.Session{second})
	prune(epoch.Add(time.Hour), epoch) // a session ends at its time, not after it
	s.same(of("ann", 9), []store.Session(nil))
	s.must(s.access(func(tx accessTx) error {
		return errors.Join(tx.PutSession(first), tx.PutSession(second), tx.PutSession(other), tx.RemoveSessions("ann"))
	}))
	s.same(of("ann", 9), []store.Session(nil))
	s.same(of("bob", 9), []store.Session{other})
}

func accessTokens(_ *testing.T, s *subject) {
	ci, dash := tokenOf(1, "ci"), tokenOf(2, "dashboard")
	dash.Until, dash.Used = epoch.Add(time.Hour), epoch.Add(time.Minute)
	s.must(s.access(func(tx accessTx) error { return errors.Join(tx.PutToken(dash), tx.PutToken(ci)) }))
	s.reopen()
	all := func() []store.Token {
		return granted(s, func(tx accessTx) ([]store.Token, error) { return tx.Tokens("", 9) })
	}
	s.same(all(), []store.Token{ci, dash})
	ci.Used = epoch.Add(time.Second)
	s.must(s.access(func(tx accessTx) error { return tx.PutToken(ci) }))
	s.same(granted(s, func(tx accessTx) (store.Token, error) { return tx.Token(ci.Sum) }), ci)
	s.must(s.access(func(tx accessTx) error {
		s.fails(tx.PutToken(tokenOf(3, "ci")), store.ErrExists) // the transaction goes on
		gone, err := tx.RemoveToken("dashboard")
		s.same(gone, true)
		return err
	}))
	s.must(s.access(func(tx accessTx) error {
		gone, err := tx.RemoveToken("dashboard")
		s.same(gone, false)
		return err
	}))
	s.same(all(), []store.Token{ci})
}

func accessMistakes(_ *testing.T, s *subject) {
	operator := func(o store.Operator) error { return s.access(func(tx accessTx) error { return tx.PutOperator(o) }) }
	session := func(v store.Session) error { return s.access(func(tx accessTx) error { return tx.PutSession(v) }) }
	token := func(k store.Token) error { return s.access(func(tx accessTx) error { return tx.PutToken(k) }) }
	before := time.Unix(0, -1)
	rejects(s, store.ErrInvalid, map[string]func(*store.Operator){
		"no name": func(o *store.Operator) { o.Name = "" }, "no role": func(o *store.Operator) { o.Role = "" },
		"not UTF-8": func(o *store.Operator) { o.Name = "\xff" }, "too early": func(o *store.Operator) { o.Made = before },
	}, operatorOf("ann", "view"), operator)
	rejects(s, store.ErrInvalid, map[string]func(*store.Session){
		"nobody's": func(v *store.Session) { v.Operator = "" }, "no end": func(v *store.Session) { v.Until = time.Time{} },
	}, sessionOf(1, "ann", 0), session)
	rejects(s, store.ErrInvalid, map[string]func(*store.Token){
		"no name": func(k *store.Token) { k.Name = "" }, "no role": func(k *store.Token) { k.Role = "" },
		"too early": func(k *store.Token) { k.Until = before },
	}, tokenOf(1, "ci"), token)
	rejectsLong(s, operatorOf("ann", "view"), func(o *store.Operator) []bound {
		return []bound{{&o.Name, store.MaxOperatorName}, {&o.Role, store.MaxRole}, {&o.Password, store.MaxPassword}}
	}, operator)
	rejectsLong(s, sessionOf(1, "ann", 0), func(v *store.Session) []bound {
		return []bound{{&v.Operator, store.MaxOperatorName}, {&v.Source, store.MaxSource}}
	}, session)
	rejectsLong(s, tokenOf(1, "ci"), func(k *store.Token) []bound {
		return []bound{{&k.Name, store.MaxOperatorName}, {&k.Role, store.MaxRole}, {&k.Operator, store.MaxOperatorName},
			{&k.By, store.MaxUser}}
	}, token)
	s.fails(s.access(func(tx accessTx) error { return errorOf(tx.Operators("", store.MaxBatch+1)) }), store.ErrTooLarge)
}

// auditOfActs: entries tell where an act came from, and what it changed, and can be found by it.
func auditOfActs(_ *testing.T, s *subject) {
	act := store.Entry{At: epoch, By: "ann", What: "ban add", User: "acme", Text: "spam run", From: "192.0.2.7",
		Before: `null`, After: `{"who":"198.51.100.1"}`}
	plain := store.Entry{At: epoch.Add(time.Second), By: "weir", What: "stopped", User: "bob"}
	s.must(s.access(func(tx accessTx) error { return tx.Log(act) }))
	// An entry without a source gets that of the context.
	from := store.WithSource(s.Context(), "control socket")
	s.must(s.mail.Update(from, func(tx mailTx) error { return tx.Log(plain) }))
	plain.From = "control socket"
	s.reopen()
	find := func(q store.EntryQuery) (found []store.Entry) {
		found = get2(s, mailTx.Entries, q, 9)
		for i := range found {
			found[i].ID = 0
		}
		return found
	}
	s.same(find(store.EntryQuery{}), []store.Entry{plain, act})
	for _, q := range []store.EntryQuery{{By: "ann"}, {What: "ban add"}, {User: "acme"}, {Text: "spam"},
		{Text: "192.0.2."}, {Until: epoch.Add(1)}, {By: "ann", Since: epoch}} {
		s.same(find(q), []store.Entry{act})
	}
	s.same(find(store.EntryQuery{Since: epoch.Add(1)}), []store.Entry{plain})
	s.same(find(store.EntryQuery{By: "ann", User: "bob"}), []store.Entry(nil))
	log := func(e store.Entry) error { return s.access(func(tx accessTx) error { return tx.Log(e) }) }
	rejects(s, store.ErrInvalid, map[string]func(*store.Entry){
		"no JSON before": func(e *store.Entry) { e.Before = "{" }, "no JSON after": func(e *store.Entry) { e.After = "x" },
	}, act, log)
	rejects(s, store.ErrTooLarge, map[string]func(*store.Entry){
		"a long source": func(e *store.Entry) { e.From = long(store.MaxSource + 1) },
		"a long detail": func(e *store.Entry) { e.After = store.Detail(`"` + long(store.MaxDetail-1) + `"`) },
	}, act, log)
	s.must(s.mail.Update(s.Context(), func(tx mailTx) error { return tx.PruneEntries(epoch.Add(time.Hour), 9) }))
	s.same(find(store.EntryQuery{}), []store.Entry(nil))
	s.must(log(plain)) // an entry has nothing of those before it
	s.same(find(store.EntryQuery{}), []store.Entry{plain})
}
