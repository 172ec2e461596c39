package app

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"weir"
	"weir/config"
	"weir/gate/smtpgate"
	"weir/identify"
	"weir/internal/readfile"
	"weir/mail/spool"
	"weir/store"
	"weir/throttle/stamp"
)

// look updates the difficulty of stamps at gates without traffic, so that the status shows what would be asked.
func (a *App) look(g *generation) {
	now := a.clock.Now()
	for _, gt := range g.gates {
		for _, at := range gt.bottlenecks() {
			share, delay := at.Load(now)
			for _, link := range at.chain.Links() {
				if t, ok := link.Throttle.(*stamp.Throttle); ok {
					t.Observe(weir.Load{Of: at.of, Share: share, Delay: delay}, now)
				}
			}
		}
	}
}

// How bots are looked up.
const (
	maxLookups    = 16 // at once
	lookupTimeout = 5 * time.Second
)

// meet verifies clients that claim to be a known bot: the address must have a name that resolves to the same address.
// At most MaxUnsure lookups are open.
func (a *App) meet(t *stamp.Throttle) {
	t.Exempt().Unsure(func(addr netip.Addr) {
		a.background.Go(func() {
			select {
			case a.lookups <- struct{}{}:
				defer func() { <-a.lookups }()
			case <-a.retreat.Done():
				return
			}
			ctx, cancel := context.WithTimeout(a.retreat, lookupTimeout)
			defer cancel()
			names, err := confirmed(ctx, net.DefaultResolver, addr)
			if err != nil { // nobody knows: it is asked again before long
				t.Exempt().Unanswered(addr)
				return
			}
			t.Exempt().Confirm(addr, names, a.clock.Now())
		})
	})
}

// A resolver looks names up.
type resolver interface {
	LookupAddr(ctx context.Context, addr string) ([]string, error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// maxNames is how many names of one address are looked at.
const maxNames = 4

// confirmed returns the names of an address that lead back to it. No name is an answer; a failed lookup is an error.
func confirmed(ctx context.Context, r resolver, addr netip.Addr) (names []string, err error) {
	found, err := r.LookupAddr(ctx, addr.String())
	if err != nil && !notFound(err) {
		return nil, err
	}
	for _, name := range found[:min(len(found), maxNames)] {
		name = strings.TrimSuffix(name, ".")
		back, err := r.LookupNetIP(ctx, "ip", name)
		if err != nil && !notFound(err) {
			return nil, err
		}
		for _, b := range back {
			if b.Unmap() == addr.Unmap() {
				names = append(names, name)
				break
			}
		}
	}
	return names, nil
}

func notFound(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}

// readList reads a file of networks, or as much of it as shows that it is too large.
func readList(path string) ([]byte, error) {
	return readfile.Read(path, identify.MaxExemptFile)
}

// mailKeyword begins the line in the answer to EHLO that has the parameters of stamps.
const mailKeyword = "X-WEIR-STAMP"

// A mailStampTaker takes the stamps of a gate for mail, for as long as the gate lives. The spool keeps what is spent.
type mailStampTaker struct {
	*stamp.MailIssuer
	app  *App
	opts stamp.MailOptions
}

var _ smtpgate.Stamps = (*mailStampTaker)(nil)

// mailStamps keeps the stamp taker of a gate, or makes one.
func (c *change) mailStamps(s smtpgate.Stamping, old *gate) (*mailStampTaker, error) {
	o, err := config.MailStamps(s)
	if err != nil {
		return nil, err
	}
	d := &mailStampTaker{app: c.app, opts: o}
	if old == nil || old.stamps == nil {
		d.MailIssuer, err = stamp.NewMailIssuer(o, c.app.mailKeys(c.next.cfg), nil)
		return d, err
	}
	d.MailIssuer = old.stamps.MailIssuer
	c.commit = append(c.commit, func() {
		keys := c.app.mailKeys(c.next.cfg)
		if err := d.Configure(o, keys, c.app.opts.Clock.Now()); err != nil { // it was checked
			c.app.opts.Log.Error("stamps of mail cost what they did", "err", err)
		}
	})
	return d, nil
}

// mailKeys make the seeds of stamps. They follow from a secret that stays, so that stamps outlive a restart.
func (a *App) mailKeys(c *config.Config) *stamp.Keyring {
	return stamp.NewKeyring(time.Hour, a.signers(c, "stamps of mail")...)
}

// keepMailKeys gives the stamp takers of a generation the keys of the secret that Start has read.
func (a *App) keepMailKeys(g *generation) error {
	keys := a.mailKeys(g.cfg)
	for _, gt := range g.gates {
		if gt.stamps != nil {
			if err := gt.stamps.Configure(gt.stamps.opts, keys, a.opts.Clock.Now()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *mailStampTaker) Announce(now time.Time, load weir.Share) string {
	d.Observe(now, load)
	text, err := d.Params(now).MarshalJSON()
	if err != nil {
		return ""
	}
	return mailKeyword + " " + string(text)
}

func (d *mailStampTaker) Digest() smtpgate.Digest { return stamp.NewBodyDigest() }

// Verify looks for a stamp for each recipient. One that was made for another body, or has been used, is worth nothing,
// but no forgery: servers on the way change bodies, and clients send again what they got no answer for.
func (d *mailStampTaker) Verify(ctx context.Context, now time.Time, load weir.Share, stamps []string, bodyID string,
	recipients []string) (good []spool.Stamp, forged bool) {
	d.Observe(now, load)
	spent := func(ctx context.Context, n stamp.Nonce) (bool, error) {
		spent, err := d.app.post.Spent(ctx, store.StampNonce(n))
		// who cannot look now takes it for good: the transaction finds out, or fails and is tried again
		return spent && err == nil, nil
	}
	receipts, errs := d.LookEach(ctx, now, stamps, stamp.MailBinding{Message: bodyID}, recipients, spent)
	for i, err := range errs {
		var k spool.Stamp
		if err == nil {
			k = spool.Stamp{Nonce: store.StampNonce(receipts[i].Nonce), Until: receipts[i].Expires}
		}
		good = append(good, k)
		forged = forged || errors.Is(err, stamp.ErrWrong)
	}
	return good, forged
}

// StampParams is how stamps are made for the first gate that takes some. Of gates with the same puzzle the highest
// price is told, which is good at all of them.
func (s selfService) StampParams() []byte {
	now := s.opts.Clock.Now()
	var tell *stamp.MailParams
	for _, gt := range s.current.Load().gates {
		if gt.stamps == nil {
			continue
		}
		gt.stamps.Observe(now, weir.Share(s.post.Load(gt.post.Name)))
		p := gt.stamps.Params(now)
		switch {
		case tell == nil:
			tell = &p
		case p.Algorithm == tell.Algorithm:
			tell.Work = max(tell.Work, p.Work)
		}
	}
	if tell == nil {
		return nil
	}
	text, _ := tell.MarshalJSON()
	return text
}
