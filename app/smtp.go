package app

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"weir"
	skeleton "weir/gate"
	"weir/gate/postfixgate"
	"weir/gate/smtpgate"
	"weir/identify"
	"weir/internal/turns"
	"weir/mail/login"
	"weir/mail/nexthop"
	"weir/mail/notice"
	"weir/mail/spool"
	"weir/store"
	"weir/throttle/bloom"
	"weir/throttle/quota"
	"weir/throttle/stamp"
)

// guesses is how many wrong passwords may come from one network: a person who mistypes gets on, a list of passwords
// does not.
var guesses = bloom.Options{Rate: weir.Rate{Count: 10, Per: time.Minute}, Burst: 20, Attackers: 1000,
	MaxMemory: 1 << 20}

// accountGuesses is how many wrong passwords may come for one user, from networks that are not known for them: twenty
// at once, and then one in thirty seconds. So the user gets in elsewhere soon after somebody has stopped guessing.
// knownGuesses is how many may come from each network that is known for a user. Only users who have logged in have a
// place among those.
var (
	accountGuesses = wrongPasswords(20, 10*time.Minute)
	knownGuesses   = func() quota.Options {
		o := wrongPasswords(20, 10*time.Minute)
		o.MaxAccounts, o.NewAccounts = 1_000_000, weir.Rate{Count: 1_000_000, Per: time.Hour}
		return o
	}()
)

// wrongPasswords is a limit that refills evenly.
func wrongPasswords(most int64, per time.Duration) quota.Options {
	return quota.Options{Policies: []quota.Policy{{Name: "wrong-passwords", Limit: quota.Count(most),
		Period: weir.Period{Length: per}, Window: quota.GCRA}}}
}

// userName is the name of a user as gates know it.
func (a *App) userName(name string) string {
	return identify.UserName(name, a.current.Load().cfg.Realm())
}

// named is the user that somebody means by a name: as gates know it, or else one of the store that no login leads to,
// as after a realm was set.
func (d mailOps) named(ctx context.Context, name string) string {
	known, written := d.userName(name), strings.ToLower(name)
	if known != written {
		if _, err := d.post.User(ctx, known); errors.Is(err, store.ErrNotFound) {
			if _, err := d.post.User(ctx, written); err == nil {
				return written
			}
		}
	}
	return known
}

// smtpState is what a gate for mail keeps from one generation to the next.
type smtpState struct {
	guesses *bloom.Limiter // wrong passwords
}

// newSMTPState makes what a new gate for mail keeps.
func (c *change) newSMTPState(listen string) (*smtpState, error) {
	limiter, err := bloom.New(guesses, c.app.opts.Clock.Now())
	if err != nil {
		return nil, err
	}
	c.app.pace.Start(limiter)
	c.app.declareMail(listen)
	return &smtpState{limiter}, nil
}

func (c *change) planSMTP(p *gatePlan, o smtpgate.Options) error {
	o.Hostname = c.app.hostName(o)
	name := c.postName(o.Listen)
	_, err := c.chains(p, o)
	if err != nil {
		return err
	}
	if p.old == nil {
		if p.state, err = c.newSMTPState(o.Listen); err != nil {
			return err
		}
	}
	p.status.Upstream = strings.Join(o.NextHop.Servers, ", ")
	p.post, err = c.keepPost(name, o.Throttles, o.NextHop, spool.Gate{
		Host: o.Hostname, Postmaster: o.Postmaster, Admin: o.Admin, Command: o.Command,
		Ambiguous: o.Ambiguous, PoolBelow: poolBelow(o.Stamps),
		RemindAfter: remindAfter(o.Held), HeldFor: time.Duration(o.Held.Expire),
	})
	if err != nil {
		return err
	}
	state := p.state.(*smtpState)
	parts := smtpgate.Parts{Accept: p.accept, Throttles: p.chain, PerRecipient: p.each,
		Guesses: state.guesses.Throttle(), UserGuesses: c.app.post.accounts}
	if o.Stamps != nil {
		if p.stamps, err = c.mailStamps(*o.Stamps, p.old); err != nil {
			return weir.Under("stamps", err)
		}
		parts.Stamps = p.stamps
	}
	if o.Auth == smtpgate.AuthNextHop {
		parts.Relay = nextHopLogins{p.post.Carrier.(*nexthop.Client)}
	}
	wire(p, func() (*smtpgate.Gate, error) {
		return smtpgate.New(o, parts, c.app.smtpEnv(name, o, smtpObserver{p.seen, c.app, o.Listen, name}))
	}, func(g *smtpgate.Gate) (func(), func(), error) { return g.Prepare(o, parts) })
	return nil
}

// nextHopLogins asks the next hop about passwords.
type nextHopLogins struct{ *nexthop.Client }

// Auth says what the next hop said, in the words of those who verify passwords.
func (n nextHopLogins) Auth(ctx context.Context, rank turns.Rank, name, password string) error {
	err := n.Client.Auth(ctx, rank, name, password)
	for from, to := range map[error]error{nexthop.ErrWrong: login.ErrWrong, nexthop.ErrBusy: login.ErrBusy} {
		if errors.Is(err, from) {
			return to
		}
	}
	return err
}

// remindAfter is when users are reminded of held mail, as the spool has it.
func remindAfter(h smtpgate.Holding) time.Duration {
	if h.Remind == nil {
		return 0
	}
	if *h.Remind == 0 {
		return -1
	}
	return time.Duration(*h.Remind)
}

// poolBelow is below which load mail without stamps goes on.
func poolBelow(s *smtpgate.Stamping) float64 {
	if s == nil {
		return 0
	}
	return float64(s.FromLoad)
}

// smtpEnv is what a gate for mail gets of its surroundings.
func (a *App) smtpEnv(name string, o smtpgate.Options, seen smtpgate.Observer) smtpgate.Env {
	return smtpgate.Env{
		Env:  skeleton.Env{Clock: a.opts.Clock, Log: a.opts.Log.With("gate", o.Listen), Sockets: a.opts.Sockets},
		Name: name, Observer: seen,
		Spool: a.post, Door: &a.post.door,
		Commands: func(ctx context.Context, now time.Time, ticket string, text io.Reader) error {
			err := a.post.Command(ctx, now, name, ticket, text)
			if err != nil && !errors.Is(err, notice.ErrForged) && !errors.Is(err, spool.ErrUnknown) && isAbout(err) {
				a.opts.Log.Info("a command by mail was not carried out", "gate", o.Listen, "err", err)
				return nil // the user was told by mail, or nobody wrote it
			}
			return err
		},
		TakeStamps: stamp.TakeMail, Offend: a.offend, Marks: a.markSecrets,
	}
}

// isAbout reports whether an error is about what a user wrote, and not about weir's own troubles.
func isAbout(err error) bool {
	for _, e := range []error{notice.ErrOld, notice.ErrAuto, notice.ErrNothing, spool.ErrSpent} {
		if errors.Is(err, e) {
			return true
		}
	}
	_, contradicts := errors.AsType[*notice.CommandError](err)
	return contradicts
}

func (c *change) planPostfix(p *gatePlan, o postfixgate.Options) error {
	name := c.postName(o.Listen)
	_, err := c.chains(p, o)
	if err != nil {
		return err
	}
	if !c.next.cfg.TakesCommands(o.Command) {
		o.Command = "" // a reply would go nowhere
	}
	p.post, err = c.keepPost(name, o.Throttles, o.NextHop,
		spool.Gate{Host: c.app.post.host, Admin: o.Admin, Command: o.Command, Elsewhere: elsewhere[o.Over]})
	if err != nil {
		return err
	}
	parts := postfixgate.Parts{Throttles: p.chain, PerRecipient: p.each}
	wire(p, func() (*postfixgate.Gate, error) {
		c.app.metrics.Move("weir_postfix_connections", 0, o.Listen)
		return postfixgate.New(o, parts, postfixgate.Env{Env: c.app.envOf(o.Listen), Name: name,
			Observer: postfixObserver{p.seen, c.app.metrics, o.Listen},
			Spool:    c.app.post, Secret: func() []byte { return c.app.markSecrets()[0] }})
	}, func(g *postfixgate.Gate) (func(), func(), error) { return g.Prepare(o, parts) })
	return nil
}

// elsewhere says what becomes of messages that are too much.
var elsewhere = map[postfixgate.Over]notice.Elsewhere{postfixgate.OverHold: notice.OnHold,
	postfixgate.OverDefer: notice.PutOff, postfixgate.OverReject: notice.Declined}

// markSecrets sign the marks by which a gate for mail knows whose mail Postfix diverts to it: the first one signs, all
// are honoured.
func (a *App) markSecrets() [][]byte {
	return a.signers(a.current.Load().cfg, "marks of diverted mail")
}
