package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/console"
	"weir/farm"
	"weir/identify"
	"weir/store"
	"weir/store/settings"
	"weir/throttle/quota"
)

// maxLimitFor is how long a limit that ends may hold.
const maxLimitFor = 10 * 365 * 24 * time.Hour

// A setLimit is what a setting of an account's limit says.
type setLimit struct {
	Throttle string `json:"throttle"`
	Policy   string `json:"policy"`
	Account  string `json:"account"`
	console.Figures
	Note string `json:"note,omitempty"`
}

// key is the name of the setting. Names of throttles and policies have no slash.
func (l *setLimit) key() store.SettingKey {
	return store.SettingKey{Kind: settingLimit, Name: l.Throttle + "/" + l.Policy + "/" + l.Account}
}

// readLimit reads a setting. A newer weir may have written what this one does not know.
func readLimit(v *store.Setting) (l setLimit, o quota.Override, err error) {
	if err := json.Unmarshal([]byte(v.Value), &l); err != nil {
		return l, o, err
	}
	o, err = overrideOf(l.Figures)
	return l, o, err
}

// overrideOf reads figures as an operator writes them.
func overrideOf(f console.Figures) (o quota.Override, err error) {
	var errs []error
	read := func(name, text string, into *quota.Amount) {
		if text != "" {
			errs = append(errs, weir.Under(name, into.UnmarshalText([]byte(text))))
		}
	}
	read("limit", f.Limit, &o.Limit)
	read("burst", f.Burst, &o.Burst)
	o.Gap, o.Exempt = f.Gap, f.Exempt
	return o, errors.Join(errs...)
}

// figuresOf is an override as an operator reads it.
func figuresOf(o quota.Override) (f console.Figures) {
	if o.Limit.Set {
		f.Limit = o.Limit.String()
	}
	if o.Burst.Set {
		f.Burst = o.Burst.String()
	}
	f.Gap, f.Exempt = o.Gap, o.Exempt
	return f
}

// applyLimits gives quotas the limits that operators have set for single accounts.
func (a *App) applyLimits(throttles []*throttle) {
	now := a.clock.Now()
	by := map[string]map[string]map[string]quota.Override{} // throttle, account, policy
	for _, v := range a.settings.All(settingLimit, now) {
		l, o, err := readLimit(&v)
		if err != nil {
			continue // the list says so
		}
		if by[l.Throttle] == nil {
			by[l.Throttle] = map[string]map[string]quota.Override{}
		}
		if by[l.Throttle][l.Account] == nil {
			by[l.Throttle][l.Account] = map[string]quota.Override{}
		}
		by[l.Throttle][l.Account][l.Policy] = o
	}
	for _, t := range throttles {
		if q := t.accounts(); q != nil {
			if err := q.Impose(by[t.name], now); err != nil { // there are never that many settings
				a.opts.Log.Error("the limits of single accounts are not in effect", "throttle", t.name, "err", err)
			}
		}
	}
}

// SetLimit gives one account a limit of its own, on all nodes of a farm.
func (b backend) SetLimit(ctx context.Context, o console.LimitOrder, by string) (r console.LimitResult, err error) {
	t, l, err := b.limitOf(o.Account, o.Throttle, o.Policy)
	if err != nil {
		return r, err
	}
	if len(o.Note) > store.MaxReason {
		return r, console.Invalid(fmt.Sprintf("a note has at most %d bytes", store.MaxReason))
	}
	if o.For < 0 || o.For.Std() > maxLimitFor {
		return r, console.Invalid(fmt.Sprintf("for: up to %s; leave it out for a limit without an end",
			weir.Duration(maxLimitFor)))
	}
	l.Figures, l.Note = o.Figures(), o.Note
	figures, err := overrideOf(l.Figures)
	if err == nil {
		err = t.config.Quota.CheckOverride(l.Policy, figures)
	}
	if err != nil {
		return r, console.Invalid(mistakesIn(err))
	}
	value, err := json.Marshal(l)
	if err != nil {
		return r, err
	}
	now := b.clock.Now()
	s := store.Setting{SettingKey: l.key(), Value: string(value), By: settingBy(by)}
	if o.For != 0 {
		s.Until = now.Add(o.For.Std())
	}
	before, err := b.settings.Set(s, now)
	switch {
	case errors.Is(err, settings.ErrFull):
		b.metrics.BoundReached(boundSettings)
		return r, console.Rejected(err.Error())
	case err != nil:
		return r, console.Invalid(plainly(err))
	}
	s.At = now
	r.Limit = b.limitView(&s)
	if before.Value != "" {
		r.Before = new(b.limitView(&before))
	}
	b.opts.Log.Info("limit of an account set", "throttle", l.Throttle, "policy", l.Policy,
		"account", identify.Mask(l.Account), "by", by, "figures", r.Limit.Figures.String())
	r.Warnings = b.limitWarnings(t, &l)
	b.limitKept(ctx, &r, "the limit holds, but a restart will forget it")
	return r, nil
}

// RemoveLimit takes back a limit that an operator has set for one account.
func (b backend) RemoveLimit(ctx context.Context, o console.LimitOf, by string) (r console.LimitResult, err error) {
	_, l, err := b.limitOf(o.Account, o.Throttle, o.Policy)
	if l.Throttle != "" && l.Policy != "" { // a throttle that is gone may have left one
		err = nil
	}
	if err != nil {
		return r, err
	}
	before, err := b.settings.Remove(l.key(), settingBy(by), b.clock.Now())
	if err != nil {
		return r, console.NotFound(fmt.Sprintf("no operator has set a limit of %q in %s/%s; weir account limits shows "+
			"those that there are, and the configuration has the others", l.Account, l.Throttle, l.Policy))
	}
	r.Before = new(b.limitView(&before))
	r.Limit = *r.Before
	r.Limit.Figures, r.Limit.Live = r.Before.Instead, false
	b.opts.Log.Info("limit of an account removed", "throttle", l.Throttle, "policy", l.Policy,
		"account", identify.Mask(l.Account), "by", by)
	b.limitKept(ctx, &r, "it is removed, but will be back after a restart")
	return r, nil
}

func (b backend) limitKept(ctx context.Context, r *console.LimitResult, otherwise string) {
	failed := b.keepSettings(ctx, otherwise)
	r.Kept, r.Warnings = len(failed) == 0, append(r.Warnings, failed...)
}

// limitOf finds the quota and the policy that an operator means. Both may be left out where there is only one.
func (b backend) limitOf(account, name, policy string) (*throttle, setLimit, error) {
	l := setLimit{Account: account, Throttle: name, Policy: policy}
	switch {
	case account == "":
		return nil, l, console.Invalid("which account?")
	case len(account) > store.MaxAccount:
		return nil, l, console.Invalid(fmt.Sprintf("an account has at most %d bytes", store.MaxAccount))
	}
	var names []string
	var found *throttle
	for _, t := range b.current.Load().throttles {
		if t.accounts() != nil {
			names = append(names, t.name)
			if t.name == name || name == "" {
				found = t
			}
		}
	}
	switch {
	case len(names) == 0:
		return nil, l, console.NotFound("there is no throttle of kind quota")
	case name == "" && len(names) > 1:
		return nil, l, console.Invalid("which throttle? One of " + strings.Join(names, ", "))
	case found == nil:
		return nil, l, console.NotFound(fmt.Sprintf("there is no quota %q; one of %s", name, strings.Join(names, ", ")))
	}
	l.Throttle = found.name
	if all := found.config.Quota.Policies; policy == "" {
		if len(all) > 1 {
			return nil, l, console.Invalid("which policy? One of " + strings.Join(found.accounts().Rules(), ", "))
		}
		l.Policy = all[0].Name
	}
	return found, l, nil
}

// limitWarnings is what an operator should know about a limit that holds.
func (b backend) limitWarnings(t *throttle, l *setLimit) (all []string) {
	if t.link.Shadow.Load() {
		all = append(all, fmt.Sprintf("%s is in shadow: nobody is refused until weir shadow off %s", t.name, t.name))
	}
	if _, err := netip.ParseAddr(l.Account); err == nil {
		all = append(all, fmt.Sprintf("this is the limit of an account that is called %s. Requests without an account "+
			"share the figures of the policy; with account: [source] at the gate, name it %s%s", l.Account,
			identify.SourcePrefix, l.Account))
	}
	return all
}

// mistakesIn is every mistake with its hint, in one line each.
func mistakesIn(err error) string {
	var lines []string
	for _, fe := range weir.FieldErrors(err) {
		line := fe.Msg
		if fe.Path != "" {
			line = fe.Path + ": " + line
		}
		if fe.Hint != "" {
			line += " (" + fe.Hint + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// limitView is a limit that an operator has set, as the console shows it.
func (b backend) limitView(v *store.Setting) console.AccountLimit {
	l, o, err := readLimit(v)
	view := console.AccountLimit{Account: l.Account, Throttle: l.Throttle, Policy: l.Policy, Figures: l.Figures,
		Note: l.Note, Live: true, By: v.By, At: v.At, Until: v.Until}
	t := b.current.Load().throttle(l.Throttle)
	switch {
	case err != nil:
		view.Account, view.Unused = v.Name, "it cannot be read: "+err.Error()
		return view
	case t == nil || t.accounts() == nil:
		view.Unused = fmt.Sprintf("there is no quota %q", l.Throttle)
		return view
	}
	if err := t.config.Quota.CheckOverride(l.Policy, o); err != nil {
		view.Unused = mistakesIn(err)
		return view
	}
	view.Instead = b.configured(t, l.Policy, l.Account)
	return view
}

// configured is what an account gets under a policy by the configuration alone.
func (b backend) configured(t *throttle, policy, account string) console.Figures {
	o := t.config.Quota.WithDefaults()
	i := slices.IndexFunc(o.Policies, func(p quota.Policy) bool { return p.Name == policy })
	if i < 0 {
		return console.Figures{}
	}
	f := quota.Override{Limit: o.Policies[i].Limit, Gap: o.Policies[i].Gap}
	if o.Policies[i].Window == quota.GCRA {
		f.Burst = o.Policies[i].Burst
	}
	all := []map[string]quota.Override{o.Plans[cmp.Or(o.Members[account], o.DefaultPlan)], o.Overrides[account]}
	if owner := identify.KeyPart(t.accounts().Owner(account)); owner != account && len(o.Key) > 0 {
		plan := cmp.Or(o.Members[owner], o.DefaultPlan)
		all = []map[string]quota.Override{o.Plans[plan], o.Overrides[owner], o.Overrides[account]}
	}
	for _, instead := range all {
		n, ok := instead[policy]
		switch {
		case !ok:
		case n.Exempt:
			f = n
		default:
			f.Exempt = false
			if n.Limit.Set {
				f.Limit = n.Limit
			}
			if n.Burst.Set {
				f.Burst = n.Burst
			}
			f.Gap = cmp.Or(n.Gap, f.Gap)
		}
	}
	return figuresOf(f)
}

// limitsOf are all limits of single accounts that a function wants, by account, throttle and policy; those that
// operators have set before those of the file.
func (b backend) limitsOf(wants func(account string) bool) (all []console.AccountLimit) {
	for _, v := range b.settings.All(settingLimit, b.clock.Now()) {
		if l := b.limitView(&v); wants(l.Account) {
			all = append(all, l)
		}
	}
	for _, t := range b.current.Load().throttles {
		if t.accounts() == nil {
			continue
		}
		for account, byPolicy := range t.config.Quota.Overrides {
			if !wants(account) {
				continue
			}
			for _, policy := range slices.Sorted(maps.Keys(byPolicy)) {
				all = append(all, console.AccountLimit{Account: account, Throttle: t.name, Policy: policy,
					Figures: figuresOf(byPolicy[policy])})
			}
		}
	}
	slices.SortFunc(all, func(a, b console.AccountLimit) int { return a.Compare(&b) })
	return all
}

// Limits returns a part of the limits of single accounts.
func (b backend) Limits(q console.LimitQuery) (console.LimitPage, error) {
	text := strings.ToLower(q.Filter)
	all := b.limitsOf(func(account string) bool {
		return (q.Account == "" || account == q.Account) && strings.Contains(strings.ToLower(account), text)
	})
	page := console.LimitPage{Limits: []console.AccountLimit{}, Total: len(all)}
	start := min(q.Skip, len(all))
	end := min(start+cmp.Or(q.Limit, console.MaxLimitPage), len(all))
	page.Limits = append(page.Limits, all[start:end]...)
	if end < len(all) {
		page.Next = end
	}
	return page, nil
}

// ownLimits are the limits of one account.
func (b backend) ownLimits(account string) []console.AccountLimit {
	return b.limitsOf(func(name string) bool { return name == account })
}

// The kinds of settings.
const (
	settingLimit = "limit" // of one account
	settingList  = "list"  // a block list that was imported
	settingAll   = "all"   // all throttles are in shadow: the emergency switch
)

// topicSettings is what nodes of a farm tell each other of settings under.
const topicSettings = "settings"

// applySettings makes what operators have set take effect. It is called when something may have changed, and looks at
// everything: so it does not matter how often, nor in which order.
func (a *App) applySettings() {
	a.settling.Lock()
	defer a.settling.Unlock()
	g := a.current.Load()
	a.applyLimits(g.throttles)
	a.applyShadow(g)
}

// sharedSettings are the settings as the farm sees them.
type sharedSettings struct{ *member }

var _ farm.Shared = sharedSettings{}

func (s sharedSettings) Hear(_ farm.Node, msg []byte, _ time.Time) error {
	return s.app.settings.Hear(msg, s.app.clock.Now())
}

func (s sharedSettings) Snapshot(_ time.Time, give func([]byte) bool) {
	s.app.settings.Snapshot(s.app.clock.Now(), give)
}

// shareSettings makes what operators set here hold on all nodes, and what they set elsewhere hold here.
func (m *member) shareSettings() error {
	m.unshare = m.app.settings.Share(func(msg []byte) {
		_ = m.Send(topicSettings, msg) // what is not taken now is made up for by a snapshot
	})
	_, err := m.Keep(topicSettings, sharedSettings{m})
	return err
}

// keepSettings waits until what was set is safe, and returns a warning where it is not.
func (a *App) keepSettings(ctx context.Context, otherwise string) (warnings []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepPatience) // who leaves does not take it back
	defer cancel()
	err := ErrNotServing
	if a.kept.Load() != nil {
		err = a.settings.Flush(ctx)
	}
	if err != nil {
		warnings = append(warnings, fmt.Sprintf("%s: %s", otherwise, err))
	}
	return warnings
}

// openSettings loads what operators have set before.
func (k *kept) openSettings(ctx context.Context, a *App) error {
	return a.settings.Keep(ctx, k.store.Settings(), a.clock.Now(), func(err error) { k.health.note(partSettings, err) })
}

// settingBy is the name of an operator, as long as a store takes it.
func settingBy(by string) string {
	if len(by) > store.MaxBy {
		by = by[:store.MaxBy]
	}
	return by
}

// newSettings makes the settings of an App.
func (a *App) newSettings() {
	a.settings = settings.New(a.applySettings)
	a.pace.Start(a.settings)
}
