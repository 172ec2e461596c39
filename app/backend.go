package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/identify"
	"weir/policy"
	"weir/throttle/quota"
)

// backend is the App as the console sees it.
type backend struct{ *App }

var _ console.Backend = backend{}

// patienceWithLog is how long a line of the log may take to be written before weir is not ready any more.
const patienceWithLog = 10 * time.Second

// Ready reports whether every gate serves, the log can be written, and mail can be stored where mail comes in.
func (b backend) Ready() error {
	if s := b.state.Load(); s != serving {
		return errors.New(stateNames[s])
	}
	if out := b.opts.LogBuffer; out != nil {
		if err := out.Failing(); err != nil {
			return fmt.Errorf("the log cannot be written: %w", err)
		}
		if stuck := out.Stuck(time.Now()); stuck > patienceWithLog {
			return fmt.Errorf("the log has been stuck for %s: nobody reads it", weir.Duration(stuck.Round(time.Second)))
		}
	}
	if hasMail(b.current.Load().cfg) {
		if err := b.mailStored(); err != nil {
			return fmt.Errorf("mail cannot be stored: %w", err)
		}
	}
	return nil
}

// Status is a summary of the App.
func (b backend) Status() console.Status {
	g, state := b.current.Load(), b.state.Load()
	b.look(g)
	s := console.Status{
		Version: b.opts.Version, State: stateNames[state], Started: b.started,
		Config: b.reloads.get(), Control: g.control.Path(), Gates: []console.GateStatus{},
		Throttles: []console.ThrottleStatus{},
	}
	if err := b.Ready(); err != nil {
		s.NotReady = err.Error()
	}
	s.Ready = s.NotReady == ""
	s.Config.Path = b.opts.Path
	if addr := b.ConsoleAddr(); addr != nil {
		s.Console = addr.String()
	}
	for _, gt := range g.gates {
		s.Gates = append(s.Gates, gt.view(b.clock.Now()))
	}
	for _, t := range b.Throttles() {
		s.Throttles = append(s.Throttles, t.Status())
	}
	for _, p := range g.packets {
		s.XDP = append(s.XDP, p.status())
	}
	s.ShadowAll, s.Upgrade = b.shadowAll(), b.upgrade.Load()
	s.Bans, s.Store, s.Mail = b.BanStatus(), b.StoreStatus(), b.mailStatus()
	if f := b.Farm(); f != nil {
		status := f.Status()
		s.Farm = &status
	}
	return s
}

// Throttles returns the throttles in order of their names, then the block list, what else limits at gates, and the
// limiters of network interfaces.
func (b backend) Throttles() []console.Throttle {
	var all []console.Throttle
	g := b.current.Load()
	for _, t := range g.throttles {
		all = append(all, t.view())
	}
	all = append(all, b.bans.view())
	for _, gt := range g.gates {
		for _, l := range gt.limits() {
			all = append(all, l.view())
		}
	}
	for _, p := range g.packets {
		all = append(all, p.view())
	}
	return all
}

// Account asks every throttle that keeps accounts. The name goes only to the caller; it is never logged.
func (b backend) Account(name string) (console.Account, error) {
	if name == "" {
		return console.Account{}, console.Invalid("which account?")
	}
	a := console.Account{Account: name, Logged: identify.Mask(name), Throttles: []console.AccountThrottle{}}
	for _, t := range b.current.Load().throttles {
		q := t.accounts()
		if q == nil {
			continue
		}
		for _, one := range namesIn(q, name) {
			s, known := q.Account(one, b.clock.Now())
			if !known {
				continue
			}
			view := console.AccountThrottle{Throttle: t.name, Plan: s.Plan, Rules: console.Rules(s.Rules),
				Waiting: s.Waiting}
			if owner := q.Owner(one); owner != "" {
				view.Key, a.Logged = one, identify.Mask(owner) // the log has the account only
			}
			a.Throttles = append(a.Throttles, view)
		}
	}
	a.Limits = b.ownLimits(name)
	if len(a.Throttles)+len(a.Limits) == 0 {
		return a, console.NotFound(fmt.Sprintf("nothing is known of the account %q: it has used nothing lately", name))
	}
	return a, nil
}

// ResetAccount makes every throttle forget what an account has used, and returns what is left.
func (b backend) ResetAccount(name string) (console.Account, error) {
	a, err := b.Account(name)
	if err != nil {
		return a, err
	}
	for _, t := range b.current.Load().throttles {
		if q := t.accounts(); q != nil {
			for _, one := range namesIn(q, name) {
				q.Reset(one, b.clock.Now())
			}
		}
	}
	if after, err := b.Account(name); err == nil {
		return after, nil
	}
	a.Throttles = []console.AccountThrottle{}
	return a, nil
}

// maxKeys is how many keys of one account are shown, or reset, at a time.
const maxKeys = 1000

// namesIn are the names under which a quota may know an account: its own, and its keys.
func namesIn(q *quota.Quota, name string) []string {
	keys, _ := q.Keys(identify.KeyPart(name), maxKeys)
	return append([]string{name}, keys...)
}

// Why asks the chain of a gate what it would say to a request, taking nothing. At a gate for mail it is asked about a
// mail.
func (b backend) Why(q console.Question) (console.Explanation, error) {
	gt, err := b.gateOf(q.Gate)
	if err != nil {
		return console.Explanation{}, err
	}
	if gt.post != nil {
		return b.whyMail(gt, q)
	}
	if len(q.To) > 0 || q.User != "" {
		return console.Explanation{},
			console.Invalid(fmt.Sprintf("the gate %s takes no mail: ask about a request, with a method and a URL",
				gt.listen))
	}
	ev := weir.Event{
		Time: b.clock.Now(), Client: q.Client, Account: q.Account, Plan: q.Plan, Kind: "http",
		Route: identify.Route(strings.ToUpper(q.Method), q.Host, q.Path, nil), // as the gate would see it
	}
	if ev.Source, err = sourceOf(q); err != nil {
		return console.Explanation{}, err
	}
	account, chain := gt.account, gt.chain
	name, to, end := gt.routeFor(q)
	if to != nil {
		account, chain = to.account, to.chain
	}
	if ev.Parts, err = partsOf(q, chain.KeyParts()); err != nil {
		return console.Explanation{}, err
	}
	if ev.Account == "" {
		places, _ := identify.ParseAccounts(account) // the gate has taken them
		ev.Account = places.OfSource(ev.Source)
	}
	if at := gt.bottleneckOf(to); at != nil {
		b.look(b.current.Load())
		share, delay := at.Load(ev.Time)
		ev.Load = weir.Load{Of: at.of, Share: share, Delay: delay}
		if taker := chain.StampTaker(); taker != nil {
			ev.Pool = asProgram{at.Lanes, &ev, taker.Terms().Always}
		}
	}
	e := explanation(gt.explain(&ev, chain))
	e.Gate, e.Route, e.Ends = gt.listen, name, end
	if ev.Account != "" {
		b.explainLimits(&e, ev.Account)
	}
	for i := range e.Steps {
		if t := b.current.Load().throttle(e.Steps[i].Throttle); t != nil && t.accounts() != nil {
			if e.Steps[i].Key = t.accounts().KeyOf(&ev); e.Steps[i].Key != "" {
				b.explainLimits(&e, e.Steps[i].Key)
			}
		}
	}
	return e, nil
}

// partsOf reads what keys of limits are made of. Each must be one by which a throttle of the gate counts.
func partsOf(q console.Question, known []string) (parts []weir.Part, err error) {
	for _, name := range slices.Sorted(maps.Keys(q.Parts)) {
		usual, err := identify.PartName(name)
		if err != nil || !slices.Contains(known, usual) {
			hint := "no throttle here counts by such a part"
			if len(known) > 0 {
				hint = "they count by " + strings.Join(known, ", ")
			}
			return nil, console.Invalid(fmt.Sprintf("no throttle of the gate counts by %q (%s)", name, hint))
		}
		parts = append(parts, weir.Part{Name: usual, Value: q.Parts[name]})
	}
	return parts, nil
}

// explainLimits adds the limits of the account itself to the throttles that hold them.
func (b backend) explainLimits(e *console.Explanation, account string) {
	for _, l := range b.ownLimits(account) {
		for i := range e.Steps {
			if e.Steps[i].Throttle == l.Throttle {
				e.Steps[i].Limits = append(e.Steps[i].Limits, l)
			}
		}
	}
}

// sourceOf reads where a request comes from.
func sourceOf(q console.Question) (source netip.Addr, err error) {
	if q.Source == "" {
		return source, nil
	}
	if source, err = netip.ParseAddr(q.Source); err != nil {
		return source, console.Invalid(fmt.Sprintf("%q is not an IP address", q.Source))
	}
	return source.Unmap(), nil
}

// explanation tells what throttles would say.
func explanation(steps []policy.Step, verdict weir.Answer) console.Explanation {
	e := console.Explanation{Verdict: verdict.Verdict, By: verdict.By, Text: verdict.Explain(), Steps: []console.Step{}}
	for _, s := range steps {
		e.Steps = append(e.Steps, console.Step{
			Throttle: s.Throttle, Shadow: s.Shadow, Verdict: s.Answer.Verdict, Reason: s.Answer.Reason,
			Rule:  s.Answer.Rule,
			Until: s.Answer.Until, Text: s.Answer.Explain(), Rules: console.Rules(s.Answer.Figures),
		})
	}
	return e
}

// gateOf finds a gate by its listen address, as configured or as bound. Without one, there must be only one gate.
func (b backend) gateOf(name string) (*gate, error) {
	var gates []*gate
	var names []string
	for _, gt := range b.current.Load().gates {
		if gt.chain == nil {
			continue
		}
		gates, names = append(gates, gt), append(names, gt.listen)
		if name != "" && (name == gt.listen || name == gt.address()) {
			return gt, nil
		}
	}
	switch {
	case name == "" && len(gates) == 1:
		return gates[0], nil
	case len(gates) == 0:
		return nil, console.NotFound("there is no gate that requests come through")
	case name == "":
		return nil, console.Invalid("which gate? One of " + strings.Join(names, ", "))
	}
	return nil, console.NotFound(fmt.Sprintf("there is no gate %q; one of %s", name, strings.Join(names, ", ")))
}

// Demo returns the demo that weir is a part of, or nil.
func (b backend) Demo() console.Demo { return b.opts.Demo }

// Reload reads the configuration again. Its errors have line numbers.
func (b backend) Reload(context.Context) error {
	err := b.Reread()
	if err == nil {
		return nil
	}
	if mistakes, ok := errors.AsType[config.Errors](err); ok {
		return console.Rejected("nothing was changed:\n" + strings.TrimSuffix(mistakes.Explain(), "\n"))
	}
	return console.Rejected("nothing was changed: " + err.Error())
}
