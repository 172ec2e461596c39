package access

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"weir"
	"weir/identify"
	"weir/mail/login"
	"weir/store"
	"weir/throttle/quota"
)

// Options are what Operators needs. All but HashMemory, Changed, Entered and Failed must be given.
type Options struct {
	Store  store.Access
	Clock  login.Clock
	Secret []byte // signs forms, and marks browsers that are known
	// HashMemory is that of login.Options. Default: theirs.
	HashMemory int
	// Changed is told of an operator who has another password, or is no more. May be nil.
	Changed func(operator string)
	// Entered is told of an operator who has logged in with a password. May be nil.
	Entered func(operator string)
	// Failed is that of login.Door. May be nil.
	Failed func(error)
}

// Operators lets operators in. New makes one. It is safe for concurrent use.
type Operators struct {
	o                             Options
	passwords                     *login.Verifier
	door                          login.Door
	sources, names, all, browsers *quota.Quota
	hashing                       chan struct{}
}

// The limits of wrong passwords: so many at once, and then evenly as many in the time. A stranger who uses up the limit
// of a name locks out other strangers only: a browser, and a network, from which this operator has logged in before has
// a limit of its own, and counts in no other.
const (
	perSource  = 10 // in ten minutes; an IPv6 network of /64 is one source
	perName    = 30 // in thirty minutes
	perBrowser = 10 // in ten minutes
	perKnown   = 30 // in thirty minutes, from a network
	perMinute  = 60 // of all strangers together, so that guesses never take much of the processor
)

func limit(name string, n int64, per time.Duration) (*quota.Quota, error) {
	return quota.New(quota.Options{MaxAccounts: 20_000, Policies: []quota.Policy{{Name: name, Limit: quota.Count(n),
		Window: quota.GCRA, Period: weir.Period{Length: per}}}})
}

// New returns the operators of a store.
func New(o Options) (*Operators, error) {
	for _, f := range []*func(string){&o.Changed, &o.Entered} {
		if *f == nil {
			*f = func(string) {}
		}
	}
	d := &Operators{o: o, hashing: make(chan struct{}, hashesAtOnce),
		// A password that was right is not remembered: operators log in seldom.
		passwords: login.New(login.Options{Clock: o.Clock, Workers: 1, Waiting: 16, Remember: -1,
			HashMemory: o.HashMemory})}
	var errs [5]error
	d.sources, errs[0] = limit("source", perSource, 10*time.Minute)
	d.names, errs[1] = limit("name", perName, 30*time.Minute)
	d.browsers, errs[2] = limit("browser", perBrowser, 10*time.Minute)
	d.all, errs[3] = limit("all", perMinute, time.Minute)
	known, err := limit("known", perKnown, 30*time.Minute)
	errs[4] = err
	d.door = login.Door{Verifier: d.passwords, Store: o.Store, Console: true, Own: known, Failed: o.Failed}
	return d, errors.Join(errs[:]...)
}

// An Attempt is somebody who wants to log in.
type Attempt struct {
	Name, Password string
	Source         netip.Addr
	Browser        string // the mark of a browser that is known, as it came
}

// An Admission is the result of a login. Its texts are for cookies.
type Admission struct {
	Identity
	Secret  string // of the session
	Browser string // the mark of the browser
}

// limits are those that an attempt is held against: those of strangers, or its own.
func (d *Operators) limits(a Attempt) (all []login.Limit, own *login.Limit) {
	of := func(q *quota.Quota, kind, key string) login.Limit {
		return login.Limit{Throttle: q, Account: key, Key: kind + " " + key}
	}
	if id := d.browserOf(a.Browser, a.Name); id != "" {
		browser := of(d.browsers, "browser", id)
		return nil, &browser
	}
	return []login.Limit{of(d.sources, "source", identify.Network(a.Source, 32, 64).String()),
		of(d.names, "name", a.Name), of(d.all, "all", "all")}, nil
}

// LogIn makes a session for somebody with the right password. An unknown name takes as long as a wrong password.
//
// Its errors are ErrWrong, ErrGuessing, ErrBusy, the context's, and those of the store.
func (d *Operators) LogIn(ctx context.Context, a Attempt) (in Admission, err error) {
	who, err := d.check(ctx, a)
	if err != nil {
		return in, err
	}
	return d.admit(ctx, who, a)
}

// check returns the operator whose password is right.
func (d *Operators) check(ctx context.Context, a Attempt) (who store.Operator, err error) {
	if len(a.Name) > store.MaxOperatorName || len(a.Password) > login.MaxPassword {
		a.Name, a.Password = a.Name[:min(len(a.Name), store.MaxOperatorName)], "" // wrong, and charged as such
	}
	if err := d.o.Store.View(ctx, func(tx store.AccessTx) (err error) {
		who, err = tx.Operator(a.Name)
		return err
	}); err != nil && !errors.Is(err, store.ErrNotFound) {
		return who, err
	}
	in := login.Attempt{Name: a.Name, Stored: who.Password, Password: a.Password, Source: a.Source,
		Event: func() weir.Event { return weir.Event{Time: d.o.Clock.Now(), Source: a.Source} }}
	in.Limits, in.Own = d.limits(a)
	err = d.door.LogIn(ctx, &in)
	for is, told := range map[error]error{login.ErrWrong: ErrWrong, login.ErrGuessing: ErrGuessing,
		login.ErrBusy: ErrBusy} {
		if errors.Is(err, is) {
			return who, told
		}
	}
	return who, err
}

// admit makes the session. The password was looked at before: if it has changed since, nobody is let in.
func (d *Operators) admit(ctx context.Context, who store.Operator, a Attempt) (in Admission, err error) {
	secret, sum := newSecret("")
	now := d.o.Clock.Now()
	s := store.Session{Sum: sum, Operator: who.Name, Source: sourceText(a.Source), Made: now, Seen: now,
		Until: now.Add(SessionLife)}
	err = d.o.Store.Update(ctx, func(tx store.AccessTx) error {
		is, err := tx.Operator(who.Name)
		if errors.Is(err, store.ErrNotFound) || err == nil && is.Password != who.Password {
			return ErrWrong
		}
		if err != nil {
			return err
		}
		if err := tx.PruneSessions(now, now.Add(-SessionIdle), pruneAtOnce); err != nil {
			return err
		}
		open, err := tx.Sessions(who.Name, MaxSessions+1)
		if err != nil {
			return err
		}
		for i := 0; i <= len(open)-MaxSessions; i++ {
			if err := tx.RemoveSession(open[i].Sum); err != nil {
				return err
			}
		}
		return cmp.Or(tx.PutSession(s),
			tx.Log(store.Entry{At: now, By: who.Name, What: "login", From: sourceText(a.Source)}))
	})
	if err != nil {
		return in, err
	}
	d.o.Entered(who.Name)
	return Admission{identityOf(who, s), secret, d.browser(who.Name, now)}, nil
}

func sourceText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.Unmap().String()
}

func identityOf(o store.Operator, s store.Session) Identity {
	return Identity{Name: o.Name, Role: Role(o.Role), Operator: o.Name, bound: sessionBound(s)}
}

// sessionBound is what forms in a session are bound to.
func sessionBound(s store.Session) string { return "session " + string(s.Sum[:]) }

// open reports whether a session has not ended by itself.
func (d *Operators) open(s store.Session) bool {
	now := d.o.Clock.Now()
	return now.Before(s.Until) && now.Sub(s.Seen) < SessionIdle
}

// browser makes the mark of a browser in which an operator has logged in.
func (d *Operators) browser(name string, now time.Time) string {
	id, _ := newSecret("")
	said := id + "." + strconv.FormatInt(now.Add(deviceLife).Unix(), 10)
	return said + "." + d.sign("browser", name, said)
}

// browserOf returns the id of a browser in which an operator of this name has logged in before, or "".
func (d *Operators) browserOf(mark, name string) string {
	cut := strings.LastIndexByte(mark, '.')
	if cut < 0 || len(mark) > maxSecretText {
		return ""
	}
	said := mark[:cut]
	if !hmac.Equal([]byte(mark[cut+1:]), []byte(d.sign("browser", name, said))) {
		return ""
	}
	id, until, _ := strings.Cut(said, ".")
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil || !d.o.Clock.Now().Before(time.Unix(end, 0)) {
		return ""
	}
	return id
}

// Session returns whose session it is, or ErrNobody.
func (d *Operators) Session(ctx context.Context, secret string) (Identity, error) {
	if secret == "" || len(secret) > maxSecretText {
		return Identity{}, ErrNobody
	}
	sum, now := store.Sum(sha256.Sum256([]byte(secret))), d.o.Clock.Now()
	var s store.Session
	var o store.Operator
	err := d.o.Store.View(ctx, func(tx store.AccessTx) (err error) {
		if s, err = tx.Session(sum); err == nil {
			o, err = tx.Operator(s.Operator)
		}
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Identity{}, ErrNobody
	case err != nil:
		return Identity{}, err
	case subtle.ConstantTimeCompare(s.Sum[:], sum[:]) != 1, !now.Before(s.Until), now.Sub(s.Seen) >= SessionIdle:
		return Identity{}, ErrNobody
	}
	if now.Sub(s.Seen) >= seenEvery {
		// A failure only makes the session end earlier. It must not come back if it has ended meanwhile.
		_ = d.o.Store.Update(ctx, func(tx store.AccessTx) error {
			is, err := tx.Session(sum)
			if err != nil {
				return err
			}
			is.Seen = now
			return tx.PutSession(is)
		})
	}
	return identityOf(o, s), nil
}

// LogOut ends a session.
func (d *Operators) LogOut(ctx context.Context, secret, source string) error {
	sum := store.Sum(sha256.Sum256([]byte(secret)))
	return d.o.Store.Update(ctx, func(tx store.AccessTx) error {
		s, err := tx.Session(sum)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return cmp.Or(err, tx.RemoveSession(sum),
			tx.Log(store.Entry{At: d.o.Clock.Now(), By: s.Operator, What: "logout", From: source}))
	})
}

// Token returns whose token it is, or ErrNobody.
func (d *Operators) Token(ctx context.Context, secret string) (Identity, error) {
	if !strings.HasPrefix(secret, tokenMark) || len(secret) > maxSecretText {
		return Identity{}, ErrNobody
	}
	sum, now := store.Sum(sha256.Sum256([]byte(secret))), d.o.Clock.Now()
	var k store.Token
	role := None
	err := d.o.Store.View(ctx, func(tx store.AccessTx) (err error) {
		if k, err = tx.Token(sum); err != nil {
			return err
		}
		role = Role(k.Role)
		if k.Operator != "" {
			o, err := tx.Operator(k.Operator)
			role = least(role, Role(o.Role))
			return err
		}
		return nil
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Identity{}, ErrNobody
	case err != nil:
		return Identity{}, err
	case subtle.ConstantTimeCompare(k.Sum[:], sum[:]) != 1, !k.Until.IsZero() && !now.Before(k.Until):
		return Identity{}, ErrNobody
	}
	if now.Sub(k.Used) >= usedEvery {
		_ = d.o.Store.Update(ctx, func(tx store.AccessTx) error {
			is, err := tx.Token(sum)
			if err != nil {
				return err
			}
			is.Used = now
			return tx.PutToken(is)
		})
	}
	return Identity{Name: "token " + k.Name, Role: role}, nil
}

// Vouched returns somebody that a trusted proxy vouches for: an operator of this name has their own role, others have
// the one that is given.
func (d *Operators) Vouched(ctx context.Context, name string, role Role) (Identity, error) {
	who := Proxied(name, role)
	err := d.o.Store.View(ctx, func(tx store.AccessTx) error {
		o, err := tx.Operator(name)
		if err == nil {
			who.Role, who.Operator = Role(o.Role), o.Name
		}
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Identity{}, fmt.Errorf("access: %w", err)
	}
	return who, nil
}
