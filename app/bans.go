package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	skeleton "weir/gate"
	"weir/identify"
	"weir/policy"
	"weir/store"
	"weir/throttle/ban"
	"weir/throttle/bloom"
	"weir/throttle/quota"
)

// bans is the block list of an App. It is made once and stays over reloads.
type bans struct {
	list *ban.List
	link *policy.Link // the head of every chain
}

// prepareBans makes the block list, or gives the one that there is its new options.
func (c *change) prepareBans() error {
	o := c.next.cfg.Bans
	if c.app.bans == nil {
		list, err := ban.New(o)
		if err != nil {
			return weir.Under("bans", err)
		}
		c.app.bans = &bans{list, c.app.watchedLink(config.Bans, list, policy.Closed)}
		c.app.bans.link.Names.Sources = true
		c.app.pace.Start(list)
		c.app.metrics.DeclareBound(boundBans)
		return nil
	}
	c.commit = append(c.commit, func() {
		if !reflect.DeepEqual(o, c.old.cfg.Bans) {
			if err := c.app.bans.list.Configure(o, c.app.clock.Now()); err != nil { // they were checked
				c.app.opts.Log.Error("the block list keeps its old options", "err", err)
			}
		}
		for _, p := range c.next.packets {
			p.feed.configure(c.app.kernelRules(c.next.cfg))
		}
	})
	return nil
}

// view is the list as the console sees it: a throttle.
func (b *bans) view() console.Throttle { return console.Throttle{Link: b.link, Kind: "ban"} }

// shadowBans takes the list into shadow, or out of it: in the kernel, too.
func (a *App) shadowBans(on bool) {
	a.bans.link.Shadow.Store(on)
	g := a.current.Load()
	for _, p := range g.packets {
		p.feed.configure(a.kernelRules(g.cfg))
	}
}

// offences are what people are told about why somebody was banned.
var offences = map[weir.Reason]string{
	weir.Forged:    "a forged or wrongly solved stamp",
	weir.Replayed:  "a stamp used again",
	weir.NotPaying: "keeps coming without a stamp",
}

// offend counts an offence of a client, which may put it on the block list. Gates call it for answers that report
// one.
//
// The address of a trusted proxy is never banned. It is the source where nobody knows who is behind the proxy.
func (a *App) offend(ev *weir.Event, answer *weir.Answer) {
	o := ban.Offence{Client: identify.ClientAt(ev.Client, ev.Source), Source: ev.Source,
		Reason: cmp.Or(offences[answer.Reason], answer.Reason.String()), By: answer.By}
	if a.current.Load().isProxy(ev.Source) {
		if o.Client == identify.AddressID(ev.Source) {
			o.Client = ""
		}
		o.Source = netip.Addr{}
	}
	err := a.bans.list.Offend(o, ev.Time)
	switch {
	case errors.Is(err, ban.ErrFull):
		a.metrics.BoundReached(boundBans)
		a.failures.note(config.Bans, err)
	case err != nil && (o.Client != "" || o.Source.IsValid()): // else there is nobody to ban
		a.failures.note(config.Bans, err)
	}
}

// boundBans is what the bound of the block list is called in the metrics.
const boundBans = "bans"

// BanStatus is a summary of the block list.
func (b backend) BanStatus() console.BanStatus {
	return console.BanStatus{Stats: b.bans.list.Stats(), Auto: autoMode(b.current.Load().cfg.Bans.Auto)}
}

// Bans returns a part of the list. However long the list is, no more than a page of it is gathered.
func (b backend) Bans(q console.BanQuery) (console.BanPage, error) {
	page := console.BanPage{Bans: []console.Ban{}}
	limit := cmp.Or(q.Limit, console.MaxBanPage)
	var after *store.BanKey
	if q.After != "" {
		key, err := store.ParseBanKey(q.After)
		if err != nil {
			return page, console.Invalid(plainly(err))
		}
		after = &key
	}
	finds := banFilter(q.Filter)
	var found []store.Ban
	behind := 0 // how many come after what is known already
	order := func() {
		slices.SortFunc(found, func(a, b store.Ban) int { return a.Compare(b.BanKey) })
		found = found[:min(len(found), limit)]
	}
	b.bans.list.Each(b.clock.Now(), func(v store.Ban) {
		if !finds(&v) {
			return
		}
		page.Total++
		if after != nil && v.Compare(*after) <= 0 {
			return
		}
		behind++
		if found = append(found, v); len(found) == 2*limit {
			order()
		}
	})
	order()
	for _, v := range found {
		page.Bans = append(page.Bans, banView(v))
	}
	if behind > len(found) {
		page.Next = found[len(found)-1].BanKey.String()
	}
	return page, nil
}

func banView(b store.Ban) console.Ban {
	return console.Ban{Who: b.BanKey.String(), Reason: b.Reason, By: b.By, Operator: b.Operator, Since: b.Since,
		Until: b.Until}
}

// banFilter returns what finds the bans that an operator looks for: by a part of the text, and by address.
func banFilter(filter string) func(*store.Ban) bool {
	if filter == "" {
		return func(*store.Ban) bool { return true }
	}
	within := netip.Prefix{}
	if key, err := store.ParseBanKey(filter); err == nil {
		within = key.Prefix
	}
	text := strings.ToLower(filter)
	return func(b *store.Ban) bool {
		if within.IsValid() && b.Prefix.IsValid() && within.Overlaps(b.Prefix) {
			return true
		}
		for _, part := range []string{b.BanKey.String(), b.Reason, b.By} {
			if strings.Contains(strings.ToLower(part), text) {
				return true
			}
		}
		return false
	}
}

// keepPatience is how long a command waits until what it did is safe.
const keepPatience = 10 * time.Second

// Ban puts somebody on the list, for an operator.
func (b backend) Ban(ctx context.Context, o console.BanOrder, by string) (r console.BanResult, err error) {
	key, err := store.ParseBanKey(o.Who)
	if err != nil {
		return r, console.Invalid(plainly(err))
	}
	now := b.clock.Now()
	order := store.Ban{BanKey: key, Reason: o.Reason, By: by, Operator: true, Since: now}
	if o.For != 0 {
		order.Until = now.Add(o.For.Std())
	}
	if err := b.bans.list.Add(order, now); err != nil {
		return r, b.whyNotBanned(err)
	}
	r.Ban = banView(order)
	until := "permanently"
	if !r.Ban.Until.IsZero() {
		until = r.Ban.Until.UTC().Format(time.RFC3339)
	}
	b.opts.Log.Info("banned", "who", logged(key), "by", by, "until", until, "reason", o.Reason)
	r.Warnings = b.banWarnings(key)
	b.keepNow(ctx, &r, "the ban holds, but a restart will forget it")
	return r, nil
}

// whyNotBanned says why there is no ban.
func (b backend) whyNotBanned(err error) error {
	if errors.Is(err, ban.ErrFull) {
		b.metrics.BoundReached(boundBans)
		return console.Rejected(fmt.Sprintf("%s (%d; bans.max in the configuration)", err,
			b.current.Load().cfg.Bans.Max))
	}
	return console.Invalid(plainly(err))
}

// Unban takes somebody off the list, whoever put them there.
func (b backend) Unban(ctx context.Context, who, by string) (r console.BanResult, err error) {
	key, err := store.ParseBanKey(who)
	if err != nil {
		return r, console.Invalid(plainly(err))
	}
	now := b.clock.Now()
	old, _ := b.bans.list.Get(key, now)
	if err := b.bans.list.Remove(key, now); err != nil {
		return r, b.notBanned(key, now)
	}
	r.Ban = banView(old)
	b.opts.Log.Info("ban removed", "who", logged(key), "by", by)
	if wider, found := b.bans.list.Find("", key.Prefix.Addr(), now); key.Client == "" && found &&
		wider.Prefix.Bits() < key.Prefix.Bits() {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s is still banned, as a part of %s", key, wider.BanKey))
	}
	b.keepNow(ctx, &r, "it is no longer banned, but will be again after a restart")
	return r, nil
}

// notBanned says that somebody is not on the list, and under which name they are.
func (b backend) notBanned(key store.BanKey, now time.Time) error {
	msg := fmt.Sprintf("%s is not banned", key)
	if key.Client == "" {
		if wider, found := b.bans.list.Find("", key.Prefix.Addr(), now); found &&
			wider.Prefix.Bits() < key.Prefix.Bits() {
			return console.NotFound(fmt.Sprintf("%s by itself, but as a part of %s", msg, wider.BanKey))
		}
		if page, err := b.Bans(console.BanQuery{Filter: key.String(), Limit: 1}); err == nil && page.Total > 0 {
			return console.NotFound(fmt.Sprintf("%s as a whole; weir ban list --filter %s shows what is", msg, key))
		}
	}
	return console.NotFound(msg)
}

// banWarnings is what an operator should know about a ban that holds.
func (b backend) banWarnings(key store.BanKey) (all []string) {
	if b.bans.link.Shadow.Load() {
		off := config.Bans
		if b.shadowAll() != nil {
			off = "--all"
		}
		all = append(all, "the block list is in shadow: nobody is refused until weir shadow off "+off)
	}
	for _, own := range skeleton.OwnNetworks() {
		if key.Prefix.IsValid() && own.Overlaps(key.Prefix) {
			all = append(all,
				fmt.Sprintf("%s is this machine itself: proxies and health checks that run on it are refused too", key))
			break
		}
	}
	for _, p := range b.current.Load().cfg.TrustedProxies() {
		if key.Prefix.IsValid() && p.Overlaps(key.Prefix) {
			all = append(all,
				fmt.Sprintf("%s is a trusted proxy: it may still connect, as those behind it are judged by their own "+
					"addresses", p))
		}
	}
	return all
}

// loopback is left out of imported lists. Other addresses of this machine are not: with them, whole networks would be.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// keepNow waits until what was done is safe and in the kernel, and else says what that means.
func (b backend) keepNow(ctx context.Context, r *console.BanResult, otherwise string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepPatience) // who leaves does not take it back
	defer cancel()
	err := b.kept.Load().flushBans(ctx)
	if r.Kept = err == nil; !r.Kept {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %s", otherwise, err))
	}
	for _, p := range b.current.Load().packets {
		p.feed.flush(ctx)
	}
}

// logged is somebody as the log shows them: the id of a client is for the list alone.
func logged(key store.BanKey) string {
	if key.Client != "" {
		return "client:" + identify.Mask(key.Client)
	}
	return key.String()
}

// plainly is an error of the store's contract without the words that only the store's callers understand.
func plainly(err error) string {
	msg := err.Error()
	for _, word := range []error{store.ErrInvalid, store.ErrTooLarge} {
		msg = strings.TrimSuffix(msg, ": "+word.Error())
	}
	return msg
}

// exceeded returns what a throttle tells of events: a network that stays over a limit may be banned. It is nil for
// throttles whose refusals cannot be held against a network.
func (a *App) exceeded(throttle string, by weir.Throttle) func(*weir.Event, *weir.Answer) {
	q, isQuota := by.(*quota.Quota)
	if _, isBloom := by.(*bloom.Limiter); !isBloom && !isQuota {
		return nil
	}
	return func(ev *weir.Event, answer *weir.Answer) {
		list := a.bans.list
		granted := answer.Verdict < weir.Challenge
		if granted && !list.Sharing(ev.Time) {
			return
		}
		// A quota charges the account where the event names one. A stranger may have used that up, and its owner is
		// refused.
		if isQuota && ev.Account != "" && !strings.HasPrefix(ev.Account, identify.SourcePrefix) {
			return
		}
		if granted {
			list.Granted(ev.Source, throttle, ev.Time)
			return
		}
		if !overLimit(answer) || !ownFault(ev) || a.current.Load().isProxy(ev.Source) {
			return
		}
		who, what := list.Exceed(ban.Excess{Source: ev.Source, Throttle: throttle, Limit: answer.Limit,
			Per: answer.Window.Length(), Shared: !isQuota || q.Shares(list.Network(ev.Source))}, ev.Time)
		switch what {
		case ban.WouldBan:
			a.opts.Log.Warn("a network stays over a limit, and would be banned (bans.auto.enforce bans it)",
				"who", who.String(), "throttle", throttle, "rule", answer.Rule)
		case ban.BannedByNow:
			a.opts.Log.Warn("a network stays over a limit, and is banned", "who", who.String(), "throttle", throttle,
				"rule", answer.Rule)
			a.changes.noteBan(ev.Time, store.BanKey{Prefix: who}.String(), "stayed over a limit of throttle "+throttle)
		}
	}
}

// overLimit reports whether an event was refused because too much came. A limit that unknown accounts share is not
// meant: others may have used it up. Nor is a level: there, requests under way count, and those may be slow.
func overLimit(a *weir.Answer) bool {
	if a.Verdict != weir.Refuse {
		return false
	}
	switch a.Reason {
	case weir.OverLimit, weir.LineFull, weir.WaitTooLong:
		return a.Window > 0 && a.Unit != "bytes"
	}
	return false
}

// ownFault reports whether an event can be held against its source. A source that somebody may have invented cannot:
// that of a packet, or the proxy's where a forwarding header breaks off. Nor can one that has no meaning beyond this
// machine or this network: everybody who comes through a proxy that nobody has named comes from there.
func ownFault(ev *weir.Event) bool {
	switch ev.Kind {
	case "http", "tcp", "connection":
	default:
		return false
	}
	if ev.SourceUnknown || !ev.Source.IsValid() {
		return false
	}
	source := ev.Source.Unmap()
	return source.IsGlobalUnicast() && !source.IsPrivate() && !carrier.Contains(source)
}

// carrier are the addresses that carriers use between themselves and their customers (RFC 6598).
var carrier = netip.MustParsePrefix("100.64.0.0/10")

// autoMode is what status says about automatic bans.
func autoMode(o *ban.Auto) string {
	switch {
	case o == nil:
		return "off"
	case o.Enforce:
		return "enforce"
	}
	return "shadow"
}
