package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"weir"
	"weir/config"
	skeleton "weir/gate"
	"weir/gate/postfixgate"
	"weir/gate/smtpgate"
	"weir/identify"
	"weir/internal/turns"
	"weir/internal/words"
	"weir/mail/login"
	"weir/mail/nexthop"
	"weir/mail/notice"
	"weir/mail/spool"
	"weir/policy"
	"weir/store"
	"weir/throttle/bloom"
	"weir/throttle/outbreak"
	"weir/throttle/quota"
	"weir/throttle/stamp"
)

// A post is the mail side of an App: the spool, which is open from Start to Stop, and what gates share.
type post struct {
	*spool.Spool            // nil before Start
	door         login.Door // lets users in at all gates and on the pages; its store is set by Start
	seen         *mailObserver
	signer       *notice.Signer // of tickets in notices
	host         string         // of this machine

	// Limits on wrong passwords.
	tickets  weir.Throttle // of each user, on the pages that links in notices lead to
	pages    weir.Throttle // of each user, on the login page
	accounts weir.Throttle // of each user, at all gates and on the login page together
	entries  weir.Throttle // of all users together, on the login page
	networks weir.Throttle // of each network from which requests to the login page come

	sessions weir.Throttle // limits the sessions of each user on the pages

	once  sync.Once
	cease context.CancelFunc // ends Run; nil before goOn
	over  sync.WaitGroup     // of Run
}

func newPost(a *App) (*post, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	p := &post{seen: &mailObserver{app: a}, host: host, signer: notice.NewSigner(nil)}
	for throttle, o := range map[*weir.Throttle]quota.Options{&p.tickets: pageGuesses, &p.pages: pageGuesses,
		&p.entries: entryGuesses, &p.networks: networkGuesses, &p.sessions: sessionLimit, &p.accounts: accountGuesses,
		&p.door.Own: knownGuesses} {
		q, err := quota.New(o)
		if err != nil {
			return nil, err
		}
		*throttle = q
	}
	p.door.Verifier = login.New(login.Options{Clock: a.opts.Clock, HashMemory: a.opts.HashMemory})
	p.door.Failed = a.notNoted
	return p, nil
}

// notNoted counts, or logs, that the network of a login could not be noted.
func (a *App) notNoted(err error) {
	if errors.Is(err, store.ErrCrowded) {
		a.metrics.BoundReached(boundLogIns)
		return
	}
	a.opts.Log.Warn("a network of a login could not be looked up or noted", "err", err)
}

// boundLogIns is the name of the bound on networks of logins in the metrics.
const boundLogIns = "login_networks"

// sign makes the tickets of mail users follow a configuration.
func (p *post) sign(a *App, c *config.Config) {
	all := a.signers(c, "tickets of mail users")
	p.signer.Configure(all[0], all[1:]...)
}

// startPost takes over the mail in the store and goes on delivering it.
func (a *App) startPost(ctx context.Context, k *kept, g *generation) error {
	a.post.sign(a, g.cfg)
	s, err := spool.New(spool.Options{
		Store: k.store.Mail(), Clock: a.opts.Clock, Log: a.opts.Log, Observer: a.post.seen,
		Secret: a.hashKey("recipients of mail"), Signer: a.post.signer, Trail: filepath.Join(g.cfg.Data, "trail"),
		Contact: func(user string) string { return a.current.Load().cfg.SelfService.ContactOf(user) },
		Domains: func() bool { return a.current.Load().cfg.Log.Recipients == config.RecipientsDomain },
	})
	if err != nil {
		return err
	}
	if err := errors.Join(s.ConfigureReach(ctx, g.reaches()), s.Configure(g.posts()), s.Start(ctx)); err != nil {
		return errors.Join(err, s.Stop(ended()))
	}
	a.post.Spool, a.post.door.Store = s, k.store.Access()
	messages, _, err := s.Count(ctx)
	if err != nil {
		return errors.Join(err, s.Stop(ended()))
	}
	if messages > 0 || hasMail(g.cfg) || hasReach(g.cfg) {
		a.post.goOn()
	}
	return nil
}

// goOn lets the spool do what is due, from now on. It is called when there is mail, or a gate for mail.
func (p *post) goOn() {
	p.once.Do(func() {
		run, cancel := context.WithCancel(context.Background())
		p.cease = cancel
		p.over.Go(func() { p.Run(run) })
	})
}

// stopPost ends deliveries. What is not delivered stays in the store.
func (a *App) stopPost(ctx context.Context) error {
	if a.post.Spool == nil {
		return nil
	}
	if a.post.cease != nil {
		a.post.cease()
	}
	a.post.over.Wait()
	return a.post.Stop(ctx)
}

// RunDue does what is due in the spool, and waits until the deliveries under way are over. It happens by itself; a test
// that moves a fake clock calls it afterwards.
func (a *App) RunDue(ctx context.Context) error {
	if a.post.Spool == nil {
		return ErrNotServing
	}
	_, err := a.post.Spool.RunDue(ctx, a.opts.Clock.Now())
	return errors.Join(err, a.post.Idle(ctx))
}

// posts are the gates whose mail is kept.
func (g *generation) posts() (all []spool.Gate) {
	for _, gt := range g.gates {
		if gt.post != nil {
			all = append(all, *gt.post)
		}
	}
	return all
}

// postName is the name under which the mail of a gate is kept: where it listens. Where several have port 0, the later
// ones are numbered.
func (c *change) postName(listen string) string {
	name := listen
	for i := 2; slices.ContainsFunc(c.next.gates,
		func(g *gate) bool { return g.post != nil && g.post.Name == name }); i++ {
		name = fmt.Sprintf("%s#%d", listen, i)
	}
	return name
}

// mailThrottle returns the mail throttle of a list, or nil.
func (c *change) mailThrottle(names []string) *throttle {
	for _, name := range names {
		if t := c.next.throttle(name); t != nil && t.config.Mail != nil {
			return t
		}
	}
	return nil
}

// keepPost makes what the spool has to know of a gate.
func (c *change) keepPost(name string, throttles []string, hop nexthop.Options, rest spool.Gate) (*spool.Gate, error) {
	hop = hop.WithDefaults()
	hop.Hello = cmp.Or(hop.Hello, rest.Host)
	carrier, err := nexthop.New(hop, nexthop.Env{Clock: c.app.opts.Clock, Log: c.app.opts.Log.With("gate", name)})
	if err != nil {
		return nil, weir.Under("next_hop", err)
	}
	c.undo.add(func() { carrier.Close(ended()) })
	g := rest
	g.Name, g.Carrier, g.Connections = name, carrier, hop.Connections
	if t := c.mailThrottle(throttles); t != nil {
		g.Throttle, g.Mail, g.Shadow = t.name, mailRules(*t.config.Mail), t.link.Shadow.Load
		c.app.metrics.Count("weir_mail_stops_total", 0, t.name)
		c.app.metrics.Count("weir_mail_untold_total", 0, t.name)
	}
	if g.Reach, err = c.reachThrottle(throttles); err != nil {
		return nil, err
	}
	o := c.next.cfg.SelfService
	if g.Language = words.Find(o.Language); o.Enabled() {
		g.PageURL = o.Link
	}
	return &g, nil
}

// deliverBy lets the spool deliver by the gates of the next generation. The clients of the old ones are closed when
// their last delivery is over.
func (c *change) deliverBy() error {
	if !c.live {
		return nil
	}
	old := c.old
	c.commit = append(c.commit, func() {
		c.app.post.sign(c.app, c.next.cfg)
		err := c.app.post.ConfigureReach(c.app.retreat, c.next.reaches())
		if err = errors.Join(err, c.app.post.Configure(c.next.posts())); err != nil { // they were checked
			c.app.opts.Log.Error("mail goes on as before", "err", err)
			return
		}
		if hasMail(c.next.cfg) || hasReach(c.next.cfg) {
			c.app.post.goOn()
		}
		c.app.background.Go(func() { old.closeCarriers(c.app.retreat) })
	})
	return nil
}

// closeCarriers closes the clients that mail was delivered by, each when its last delivery is over.
func (g *generation) closeCarriers(ctx context.Context) {
	for _, gt := range g.gates {
		if gt.post != nil {
			_ = gt.post.Carrier.(*nexthop.Client).Close(ctx)
		}
	}
}

// outgoing stands for a mail throttle in the list of throttles, so that it has counters and can be switched to shadow.
// It decides nothing. The spool does, in the transaction in which it stores a message.
type outgoing struct{}

var _ weir.Throttle = outgoing{}

func (outgoing) Judge(context.Context, *weir.Event, *weir.Answer) error { return nil }
func (outgoing) Settle(weir.Hold, weir.Outcome)                         {}
func (outgoing) Peek(*weir.Event, *weir.Answer)                         {}

// mailRules are the options of a mail throttle, with defaults, for the spool.
func mailRules(o outbreak.Options) *outbreak.Options { o = o.WithDefaults(); return &o }

// mailCounts are the counters of the mail throttle that a gate is judged by, or nil.
func (g *generation) mailCounts(name string) (*policy.Link, bool) {
	for _, gt := range g.gates {
		if gt.post != nil && gt.post.Name == name && gt.post.Throttle != "" {
			if t := g.throttle(gt.post.Throttle); t != nil {
				return t.link, true
			}
		}
	}
	return nil, false
}

// traffic is what goes on at a gate for mail, by the name that the spool knows it by, or nil.
func (g *generation) traffic(name string) *traffic {
	for _, gt := range g.gates {
		if gt.post != nil && gt.post.Name == name {
			return gt.seen
		}
	}
	return nil
}

// hostName is the name of the gate's machine.
func (a *App) hostName(o smtpgate.Options) string { return cmp.Or(o.Hostname, a.post.host) }

// hasMail reports whether a configuration has gates for mail.
func hasMail(c *config.Config) bool { return len(c.SMTP)+len(c.Postfix) > 0 }

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
