package login

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"weir"
	"weir/identify"
	"weir/internal/turns"
	"weir/store"
)

// How networks are known.
const (
	KnownFor    = 30 * 24 * time.Hour // after the last login
	MaxNetworks = 16                  // of one user; one more pushes out the one that was used least
	MaxKnown    = 10_000_000          // of all users; one more is not noted (store.ErrCrowded)
	noteEvery   = 24 * time.Hour      // how exactly the last login is known: a write for each would cost too much
	pruneAtOnce = 100
)

// A Door lets users in who have the right password. A network from which a user has logged in of late is known for that
// user: there, wrong passwords from elsewhere, or of others, count for nothing, and the password is verified before
// those of strangers.
//
// It is safe for concurrent use. All doors to the same passwords share one. The zero value knows no networks.
type Door struct {
	Verifier *Verifier // nil where no passwords are verified here
	Guard    Guard

	Store   store.Access  // keeps which networks are known. nil: none are
	Console bool          // the users are operators
	Own     weir.Throttle // limits the wrong passwords of a user from a network that is known for them
	// Failed is told that a network could not be looked up or noted. Then it is as if it were not known. May be nil.
	Failed func(error)
}

// An Attempt is somebody who wants to log in.
type Attempt struct {
	Name     string // of the user; empty for a name that no user can have
	Password string
	Stored   string // what is stored for the password; empty: there is no such user
	// Ask asks another server whether the password is right, with the errors of Verify. nil: the Verifier verifies it.
	Ask    func(context.Context, turns.Rank) error
	Source netip.Addr        // invalid: not known
	Event  func() weir.Event // what is judged now
	Limits []Limit           // of strangers
	// Own is the limit, in place of all others, of somebody who has proved otherwise that they have been here before.
	Own *Limit
}

// LogIn returns nil if the password is right.
//
// A wrong password from a known network counts as one of a stranger as well, and is answered as theirs is. So nobody
// learns from an answer who has logged in from a network.
//
// Its errors are ErrGuessing, and those of Verifier.Verify and of the throttles.
func (d *Door) LogIn(ctx context.Context, a *Attempt) error {
	if a.Name == "" {
		guess, err := d.Guard.Take(ctx, a.Limits, a.Event, never)
		if err == nil {
			guess.End(a.Event().Time, true)
			err = ErrWrong
		}
		return err
	}
	limits, rank, seen := a.Limits, turns.Last, store.LogIn{}
	own := a.Own
	if own == nil {
		seen = d.seen(ctx, a)
		if !seen.At.IsZero() && d.Own != nil {
			at := a.Name + " from " + seen.Network.String()
			own = &Limit{d.Own, at, at}
		}
	}
	if own != nil {
		limits = []Limit{*own}
	}
	guess, err := d.Guard.Take(ctx, limits, a.Event, func() bool {
		return d.Verifier != nil && d.Verifier.Remembered(a.Name, a.Stored, a.Password)
	})
	if err != nil {
		return err
	}
	wrong := true // also after a panic
	defer func() {
		if guess == nil && wrong { // it was right a short while ago, and nothing was taken
			guess, _ = d.Guard.Take(ctx, limits, a.Event, never)
		}
		guess.End(a.Event().Time, wrong)
	}()
	switch {
	case guess == nil:
		rank = turns.First
	case own != nil && guess.others == 0:
		rank = turns.First
	case own != nil: // perhaps somebody who guesses from there
		rank = turns.Second
	}
	err = d.verify(ctx, a, rank)
	if wrong = errors.Is(err, ErrWrong); wrong && own != nil {
		if late := d.Guard.Charge(ctx, a.Limits, a.Event()); late != nil {
			return late
		}
	}
	if err == nil {
		d.note(ctx, seen, a.Event().Time)
	}
	return err
}

func never() bool { return false }

func (d *Door) verify(ctx context.Context, a *Attempt, rank turns.Rank) error {
	if a.Ask == nil {
		return d.Verifier.Verify(ctx, rank, a.Name, a.Stored, a.Password)
	}
	err := a.Ask(ctx, rank)
	if err == nil && d.Verifier != nil {
		d.Verifier.Remember(a.Name, a.Stored, a.Password)
	}
	return err
}

// seen returns the network of an attempt, and when it was noted if it is known for the user.
func (d *Door) seen(ctx context.Context, a *Attempt) store.LogIn {
	l := store.LogIn{Console: d.Console, Name: a.Name, Network: identify.Network(a.Source, 32, 64)}
	if d.Store == nil || !l.Network.IsValid() {
		return store.LogIn{}
	}
	err := d.Store.View(ctx, func(tx store.AccessTx) error {
		found, err := tx.LogIn(l.Console, l.Name, l.Network)
		if err == nil && a.Event().Time.Sub(found.At).Abs() < KnownFor+noteEvery {
			l = found
		}
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		d.failed(err)
	}
	return l
}

// note notes that somebody has logged in from a network, unless that was noted of late.
func (d *Door) note(ctx context.Context, l store.LogIn, now time.Time) {
	if !l.Network.IsValid() || !l.At.IsZero() && now.Sub(l.At).Abs() < noteEvery {
		return
	}
	if l.At = now; l.Since.IsZero() || l.Since.After(now) {
		l.Since = now
	}
	if err := d.Store.Update(context.WithoutCancel(ctx), func(tx store.AccessTx) error {
		if err := tx.PruneLogIns(now.Add(-KnownFor-noteEvery), pruneAtOnce); err != nil {
			return err
		}
		return tx.PutLogIn(l, MaxNetworks, MaxKnown)
	}); err != nil {
		d.failed(err)
	}
}

func (d *Door) failed(err error) {
	if d.Failed != nil {
		d.Failed(err)
	}
}
