package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/config"
	"weir/console"
	"weir/policy"
	"weir/store"
)

// A switched is something that can be taken into shadow.
type switched struct {
	name string
	link *policy.Link
	set  func(bool) error
}

// switches are the throttles of a generation, the block list, the limiters of network interfaces, and what else limits
// at gates.
func (a *App) switches(g *generation) (all []switched) {
	for _, t := range g.throttles {
		all = append(all, switched{t.name, t.link, func(on bool) error { t.link.Shadow.Store(on); return nil }})
	}
	all = append(all, switched{config.Bans, a.bans.link, func(on bool) error { a.shadowBans(on); return nil }})
	for _, p := range g.packets {
		all = append(all, switched{p.name(), p.link, p.setShadow})
	}
	for _, gt := range g.gates {
		for _, l := range gt.limits() {
			all = append(all, switched{l.name, l.link, func(on bool) error { l.link.Shadow.Store(on); return nil }})
		}
	}
	return all
}

// SetShadow takes throttles into shadow or out of it: all that were named, or none when one is unknown. With All it is
// the emergency switch.
func (b backend) SetShadow(ctx context.Context, s console.Shadow, by string) (r console.ShadowResult, err error) {
	b.work.Lock() // a reload that changes shadow comes before or after
	defer b.work.Unlock()
	switch {
	case s.All && len(s.Throttles) > 0:
		return r, console.Invalid("name throttles, or all of them, not both")
	case !s.All && len(s.Throttles) == 0:
		return r, console.Invalid("which throttle?")
	case !s.All && s.Note != "":
		return r, console.Invalid("a note is for all throttles")
	}
	on := b.shadowAll()
	switch {
	case s.All && (s.On || on != nil):
		if _, err := b.setShadowAll(ctx, s, by, false); err != nil {
			return r, err
		}
		r.Warnings = b.keepSettings(ctx, "it is done, but a restart will forget it")
	case !s.On && on != nil:
		return r, console.Rejected("all throttles are in shadow by the emergency switch (weir shadow off --all turns " +
			"it off)")
	default:
		err = b.setShadowOf(s)
	}
	if err != nil {
		return r, err
	}
	r.Throttles, r.All = []console.ShadowState{}, b.shadowAll()
	for _, t := range b.switches(b.current.Load()) {
		r.Throttles = append(r.Throttles, console.ShadowState{Throttle: t.name, Shadow: t.link.Shadow.Load()})
	}
	return r, nil
}

// setShadowOf switches throttles by their names, or takes all out of shadow where the emergency switch is off.
func (b backend) setShadowOf(s console.Shadow) error {
	all := b.switches(b.current.Load())
	var names []string
	for _, t := range all {
		names = append(names, t.name)
	}
	for _, name := range s.Throttles {
		if !slices.Contains(names, name) {
			return console.NotFound(fmt.Sprintf("there is no throttle %q; one of %s", name, strings.Join(names, ", ")))
		}
	}
	b.settling.Lock()
	defer b.settling.Unlock()
	for _, t := range all {
		if !s.All && !slices.Contains(s.Throttles, t.name) {
			continue
		}
		if b.shadows != nil {
			b.shadows[t.name] = s.On // when the emergency is over
		}
		if t.link.Shadow.Load() == s.On {
			continue
		}
		if err := t.set(s.On); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		b.opts.Log.Warn("shadow switched", "throttle", t.name, "shadow", s.On)
	}
	return nil
}

// allKey is the setting of the emergency switch: of the farm, or of this node.
func (a *App) allKey(farmWide bool) store.SettingKey {
	key := store.SettingKey{Kind: settingAll, Name: "farm"}
	if !farmWide {
		key.Name = "node"
		if m := a.member.Load(); m != nil {
			key.Name = "node " + m.Self().Name
		}
	}
	return key
}

// setShadowAll turns the emergency switch on or off, and returns what the other nodes are to be told.
func (a *App) setShadowAll(ctx context.Context, s console.Shadow, by string, farmWide bool) (json.RawMessage, error) {
	if len(s.Note) > store.MaxReason {
		return nil, console.Invalid(fmt.Sprintf("a note has at most %d bytes", store.MaxReason))
	}
	now, key := a.clock.Now(), a.allKey(farmWide)
	if s.On {
		value, err := json.Marshal(console.ShadowAll{Note: s.Note})
		if err != nil {
			return nil, err
		}
		v := store.Setting{SettingKey: key, Value: string(value), By: settingBy(by)}
		if _, err := a.settings.Set(v, now); err != nil {
			return nil, console.Rejected(plainly(err))
		}
	} else {
		if _, wide := a.settings.Get(a.allKey(true), now); wide && !farmWide {
			return nil, console.Rejected("all nodes of the farm are in shadow (weir shadow off --all --farm turns it " +
				"off)")
		}
		keys := []store.SettingKey{key}
		if farmWide { // and what single nodes were told
			keys = nil
			for _, v := range a.settings.All(settingAll, now) {
				keys = append(keys, v.SettingKey)
			}
		}
		for _, key := range keys {
			if _, err := a.settings.Remove(key, settingBy(by), now); err != nil && !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
		}
	}
	a.opts.Log.Warn("the emergency switch is turned", "all_in_shadow", s.On, "by", by, "note", s.Note, "farm", farmWide)
	if !farmWide {
		return nil, nil
	}
	_ = a.keepSettings(ctx, "") // what cannot be written is tried again, and status says so
	var msg json.RawMessage
	a.settings.Tell(settingAll, now, func(text []byte) { msg = text })
	return msg, nil
}

// shadowAll is the emergency switch, or nil when it is off.
func (a *App) shadowAll() *console.ShadowAll {
	now := a.clock.Now()
	for _, farmWide := range []bool{true, false} {
		if v, on := a.settings.Get(a.allKey(farmWide), now); on {
			all := console.ShadowAll{}
			_ = json.Unmarshal([]byte(v.Value), &all) // of a newer weir: it is on all the same
			all.By, all.At, all.Farm = v.By, v.At.Truncate(time.Millisecond), farmWide
			return &all
		}
	}
	return nil
}

// applyShadow takes all throttles into shadow while the emergency switch is on, and gives each back what it had.
// a.settling is held.
func (a *App) applyShadow(g *generation) {
	on := a.shadowAll() != nil
	if !on && a.shadows == nil || a.bans == nil {
		return
	}
	if a.shadows == nil {
		a.shadows = map[string]bool{}
	}
	for _, t := range a.switches(g) {
		was, known := a.shadows[t.name]
		want := was
		if on {
			if want = true; !known {
				a.shadows[t.name] = t.link.Shadow.Load()
			}
		}
		if !on && !known || t.link.Shadow.Load() == want {
			continue
		}
		if err := t.set(want); err != nil {
			a.opts.Log.Error("a throttle cannot be switched", "throttle", t.name, "shadow", want, "err", err)
		}
	}
	if !on {
		a.shadows = nil
	}
}

// newShadow is whether a new throttle begins in shadow. What the configuration says is for when no emergency is on.
func (a *App) newShadow(name string, configured bool) bool {
	a.settling.Lock()
	defer a.settling.Unlock()
	if a.shadows == nil {
		return configured
	}
	a.shadows[name] = configured
	return true
}

// ownShadow applies what the configuration says about the shadow of a throttle, now or when no emergency is on any
// more.
func (a *App) ownShadow(name string, link *policy.Link, on bool) {
	a.settling.Lock()
	defer a.settling.Unlock()
	if a.shadows != nil {
		a.shadows[name] = on
		return
	}
	link.Shadow.Store(on)
}

// shadowPackets tells the kernel of an emergency that was on before weir was started.
func (a *App) shadowPackets(g *generation) {
	if a.shadowAll() == nil {
		return
	}
	for _, p := range g.packets {
		if err := p.setShadow(true); err != nil {
			a.opts.Log.Error("a limiter cannot be switched", "interface", p.options.Interface, "err", err)
		}
	}
}
