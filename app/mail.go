package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"weir"
	"weir/config"
	"weir/gate/smtpgate"
	"weir/internal/words"
	"weir/mail/login"
	"weir/mail/nexthop"
	"weir/mail/notice"
	"weir/mail/spool"
	"weir/policy"
	"weir/store"
	"weir/throttle/outbreak"
	"weir/throttle/quota"
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
