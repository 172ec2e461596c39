package app

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"weir"
	"weir/console"
	"weir/gate/smtpgate"
	"weir/identify"
	"weir/internal/shown"
	"weir/internal/turns"
	"weir/internal/words"
	"weir/mail/login"
	"weir/mail/nexthop"
	"weir/mail/notice"
	"weir/mail/spool"
	"weir/store"
	"weir/throttle/quota"
)

// selfService is the mail side as mail users see it.
type selfService struct{ *App }

var _ console.SelfServiceBackend = selfService{}

// understood turns what the spool says into what the pages know.
func understood(err error) error {
	for from, to := range map[error]error{
		notice.ErrForged: console.ErrForged, notice.ErrOld: console.ErrOld, spool.ErrSpent: console.ErrTwice,
	} {
		if errors.Is(err, from) {
			return to
		}
	}
	return err
}

// Page returns what the holder of a ticket sees.
func (s selfService) Page(ctx context.Context, ticket string) (console.PageView, error) {
	v, err := s.post.Page(ctx, s.opts.Clock.Now(), ticket)
	if err != nil {
		return console.PageView{}, understood(err)
	}
	return s.shown(ctx, v)
}

// shown is what a user sees, as the pages know it.
func (s selfService) shown(ctx context.Context, v spool.PageView) (console.PageView, error) {
	p := console.PageView{User: v.User, Stopped: v.Stopped, Since: v.Since, Until: v.Until, Waiting: v.Waiting,
		Limit: v.Limit, Resume: v.Resume, ByOperator: v.ByOperator, Elsewhere: v.Elsewhere.Text()}
	switch u, err := s.post.User(ctx, v.User); {
	case err == nil:
		p.Contact, p.LogIn, p.Known, p.Language = u.Contact, u.Password != "", true, u.Language
	case !errors.Is(err, store.ErrNotFound):
		return p, err
	}
	for i := range v.Held {
		q := &v.Held[i]
		m := console.PageMail{ID: q.ID, At: q.Received, Subject: shown.Text(q.Subject), Size: q.Size}
		for _, a := range q.To {
			if !spool.Waits(&a) {
				continue
			}
			m.Delayed = m.Delayed || a.State == store.Delayed
			m.Held, m.New = m.Held || a.State == store.Held, m.New || a.State == store.Withheld
			if len(m.To) == console.MaxPageRecipients {
				m.More++
				continue
			}
			m.To = append(m.To, shown.Text(a.Address))
		}
		p.Mails = append(p.Mails, m)
	}
	if v.More {
		p.More = 1
	}
	return p, nil
}

// Act does what a user wants with their own mail, once for each form.
func (s selfService) Act(ctx context.Context, ticket, form string, c spool.Action) (spool.Done, error) {
	done, err := s.post.Act(ctx, s.opts.Clock.Now(), ticket, form, c)
	if err == nil && done.Refused {
		err = console.Rejected(string(byOperator))
	}
	return done, understood(err)
}

const byOperator words.Text = "An operator of the mail server stopped you, and only they can let you send again. " +
	"Please ask for help."

// whoever returns the user of a ticket whose password is right. Wrong ones are limited for each user, apart from those
// of people without a ticket.
func (s selfService) whoever(ctx context.Context, ticket, password string) (u store.User, err error) {
	v, err := s.post.Page(ctx, s.opts.Clock.Now(), ticket)
	if err != nil {
		return u, understood(err)
	}
	if u, err = s.post.User(ctx, v.User); err != nil && !errors.Is(err, store.ErrNotFound) {
		return u, err
	}
	return u, refused(s.post.door.LogIn(ctx, &login.Attempt{Name: v.User, Stored: u.Password, Password: password,
		Event: func() weir.Event { return weir.Event{Time: s.opts.Clock.Now(), Account: v.User} },
		Own:   &login.Limit{Throttle: s.post.tickets, Key: "ticket " + v.User}}))
}

// ChangePassword gives a user another password.
func (s selfService) ChangePassword(ctx context.Context, ticket, old, new string) error {
	u, err := s.whoever(ctx, ticket, old)
	if err != nil {
		return err
	}
	return mailOps(s).Passwd(ctx, byPage(u), u.Name, new)
}

// ChangeContact gives a user another address for notices.
func (s selfService) ChangeContact(ctx context.Context, ticket, password, contact string) error {
	u, err := s.whoever(ctx, ticket, password)
	if err != nil {
		return err
	}
	_, err = mailOps(s).SetUser(ctx, byPage(u), console.UserChange{Name: u.Name, Contact: &contact})
	return err
}

// ChangeLanguage sets the language that a user reads.
func (s selfService) ChangeLanguage(ctx context.Context, ticket, language string) error {
	now := s.opts.Clock.Now()
	v, err := s.post.Page(ctx, now, ticket)
	if err != nil {
		return understood(err)
	}
	_, err = mailOps(s).SetUser(ctx, v.User+", on the page", console.UserChange{Name: v.User, Language: &language})
	return err
}

func byPage(u store.User) string { return fmt.Sprintf("%s, on the page", u.Name) }

// pageGuesses is how many wrong passwords of a user are looked at on the page for log-ins, and on those of links.
var pageGuesses = wrongPasswords(10, 10*time.Minute)

// A passwordSource is who knows the passwords of mail users: the first gate with AUTH.
type passwordSource struct {
	gate  string         // under which its mail is kept
	relay *nextHopLogins // nil: weir itself knows them
	known bool           // only users of weir's may log in
}

// passwords returns who knows the passwords of mail users, or nil where nobody may log in on the pages.
func (s selfService) passwords() *passwordSource {
	g := s.current.Load()
	o := g.cfg.SelfService.WithDefaults()
	if !o.Enabled() || o.Password == console.PasswordOff || s.post.Spool == nil {
		return nil
	}
	for _, of := range g.cfg.SMTP {
		of = of.WithDefaults()
		if of.Auth == smtpgate.AuthNone {
			continue
		}
		for _, gt := range g.gates {
			if gt.post == nil || gt.listen != of.Listen {
				continue
			}
			p := &passwordSource{gate: gt.post.Name, known: of.KnownOnly}
			if of.Auth == smtpgate.AuthNextHop {
				p.relay = &nextHopLogins{gt.post.Carrier.(*nexthop.Client)}
			}
			return p
		}
	}
	return nil
}

// LogsIn reports whether mail users can log in with their passwords.
func (s selfService) LogsIn() bool { return s.passwords() != nil }

// LogIn begins a session of a mail user. Guesses are charged before they are looked at: to the user, together with
// those at all gates and on the pages of links, to their network where it is known, and to everybody who logs in here.
func (s selfService) LogIn(ctx context.Context, source netip.Addr, name, password string) (session console.Session,
	err error) {
	from := s.passwords()
	if from == nil {
		return session, console.ErrNoLogIn
	}
	given := strings.ToLower(strings.TrimSpace(name))
	user := identify.LogInName(given, s.current.Load().cfg.Realm())
	err = s.checkLogIn(ctx, from, source, user, given, password)
	how := "ok"
	if err == nil {
		session.Act = s.current.Load().cfg.SelfService.Password == console.PasswordAct
		session.Ticket, err = s.post.LogIn(ctx, s.opts.Clock.Now(), user, session.Act)
		if errors.Is(err, store.ErrNotFound) {
			err = console.ErrNoEntry
		}
	}
	if err != nil {
		how = err.Error()
	}
	s.opts.Log.Info("login on the pages of mail users", "user", cutName(user), "how", how)
	return session, err
}

func cutName(name string) string {
	const most = 64
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}

// checkLogIn returns nil if a password is right. It works as AUTH at a gate does, and shares its limits.
func (s selfService) checkLogIn(ctx context.Context, from *passwordSource, source netip.Addr,
	user, given, password string,
) error {
	a := login.Attempt{Name: user, Password: password, Source: source, Event: func() weir.Event {
		return weir.Event{Time: s.opts.Clock.Now(), Source: source, Account: user, Kind: smtpgate.KindLogIn, Cost: 1}
	}}
	limit := func(t weir.Throttle, kind, of string) {
		a.Limits = append(a.Limits, login.Limit{Throttle: t, Key: kind + " " + of, Account: of})
	}
	if source.IsValid() { // first, so that a network that is over its own limit takes nothing of everybody's
		limit(s.post.networks, "network", guessingNetwork(source))
	}
	limit(s.post.entries, "pages", "everybody")
	var u store.User
	if user == "" || len(user) > store.MaxUser ||
		strings.ContainsFunc(given, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }) {
		a.Name = ""
	} else {
		limit(s.post.pages, "page", user)
		limit(s.post.accounts, "user", user)
		var err error
		if u, err = s.post.User(ctx, user); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		known := err == nil
		a.Stored = u.Password // empty for nobody: it takes as long
		if from.relay != nil {
			a.Stored = "at the next hop of " + from.gate // as the gate remembers it
			a.Ask = func(ctx context.Context, rank turns.Rank) error {
				err := from.relay.Auth(ctx, rank, given, password)
				if err == nil && !known && from.known {
					err = login.ErrWrong
				}
				return err
			}
		}
	}
	if err := refused(s.post.door.LogIn(ctx, &a)); err != nil {
		return err
	}
	if u.Disabled {
		return console.ErrPassword
	}
	return s.mayEnter(ctx, user)
}

// mayEnter charges a session to its user: each is a row in the store.
func (s selfService) mayEnter(ctx context.Context, user string) error {
	ev := weir.Event{Time: s.opts.Clock.Now(), Account: user, Kind: smtpgate.KindLogIn, Cost: 1}
	var a weir.Answer
	if err := s.post.sessions.Judge(ctx, &ev, &a); err != nil {
		return err
	}
	if a.Verdict != weir.Admit {
		return console.ErrLate
	}
	s.post.sessions.Settle(a.Hold, weir.Outcome{Time: ev.Time, Done: true})
	return nil
}

// refused is what a user is told who was not let in.
func refused(err error) error {
	for is, told := range map[error]error{login.ErrWrong: console.ErrPassword, login.ErrGuessing: console.ErrLate,
		login.ErrBusy: console.ErrBusy} {
		if errors.Is(err, is) {
			return told
		}
	}
	return err
}

// guessingNetwork is what wrong passwords of an address are charged to: itself, as many people may share it, or the /56
// of IPv6 that providers give to one customer.
func guessingNetwork(source netip.Addr) string {
	if source.Is4() {
		return source.String()
	}
	network, _ := source.Prefix(56)
	return network.String()
}

// entryGuesses is how many wrong passwords are looked at on the page for log-ins, of everybody together, and
// networkGuesses of one network: as few that it takes ten networks to use up what everybody has, and as many that an
// office behind one address is not locked out on a Monday. sessionLimit is how many sessions a user may begin.
var (
	networkGuesses = func() quota.Options {
		o := wrongPasswords(60, 10*time.Minute)
		o.MaxAccounts = 10_000
		return o
	}()
	entryGuesses = quota.Options{Policies: []quota.Policy{
		{Name: "wrong-passwords", Limit: quota.Count(60), Period: weir.Period{Length: time.Minute}},
	}}
	sessionLimit = quota.Options{Policies: []quota.Policy{
		{Name: "sessions", Limit: quota.Count(30), Period: weir.Period{Length: 10 * time.Minute}},
	}}
)

// Look returns what a user sees who has logged in for looking. Where notices go is not shown, since a thief could log
// in.
func (s selfService) Look(ctx context.Context, ticket string) (console.PageView, error) {
	v, err := s.post.Look(ctx, s.opts.Clock.Now(), ticket)
	if err != nil {
		return console.PageView{}, understood(err)
	}
	return s.shown(ctx, v)
}

// SendLink sends a link to the contact of a user who has logged in for looking.
func (s selfService) SendLink(ctx context.Context, ticket string) (bool, error) {
	sent, err := s.post.SendLink(ctx, s.opts.Clock.Now(), ticket)
	return sent, understood(err)
}

// LogOut ends a session that is for looking.
func (s selfService) LogOut(ctx context.Context, ticket string) error {
	return understood(s.post.LogOut(ctx, s.opts.Clock.Now(), ticket))
}
