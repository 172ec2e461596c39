package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/config"
	"weir/console"
	"weir/store"
	"weir/store/settings"
	"weir/throttle/ban"
)

// maxListFor is how long an imported list may hold without being imported again.
const maxListFor = 10 * 365 * 24 * time.Hour

// A setList is what the setting of a block list says: where its entries come from. The entries are bans.
type setList struct {
	Reason  string `json:"reason,omitempty"`
	Entries int    `json:"entries"` // as imported
}

func listKey(name string) store.SettingKey { return store.SettingKey{Kind: settingList, Name: name} }

// ImportList replaces the networks of a block list, on all nodes of a farm. On an error nothing is changed.
func (b backend) ImportList(ctx context.Context, o console.ListOrder, by string) (r console.ListResult, err error) {
	now := b.clock.Now()
	list := ban.BlockList{Name: o.Name, Reason: o.Reason}
	if o.For < 0 || o.For.Std() > maxListFor {
		return r, console.Invalid("for: up to ten years; leave it out for a list that holds until it is replaced")
	}
	if o.For != 0 {
		list.Until = now.Add(o.For.Std())
	}
	if list.Entries, err = ban.ParseList(strings.NewReader(o.Text), b.current.Load().cfg.Bans.Max); err != nil {
		return r, console.Invalid("nothing was changed:\n" + err.Error())
	}
	if len(list.Entries) == 0 && !o.Remove {
		return r, console.Invalid(ban.ErrListEmpty.Error() + "; nothing was changed (--remove lifts everything of the list)")
	}
	if o.Remove && len(list.Entries) > 0 {
		return r, console.Invalid("a list that is removed has no entries")
	}
	list.Entries = slices.DeleteFunc(list.Entries, func(p netip.Prefix) bool {
		own := slices.ContainsFunc(loopback, p.Overlaps)
		if own {
			r.LeftOut = append(r.LeftOut, p.String())
		}
		return own
	})
	_, known := b.settings.Get(listKey(o.Name), now)
	if sizes := b.bans.list.ListSizes(now); o.Remove && !known && sizes[o.Name] == 0 {
		return r, console.NotFound(fmt.Sprintf("there is no block list %q%s", o.Name, oneOfLists(sizes)))
	}
	change, err := b.bans.list.Replace(list, now, o.Dry)
	if err != nil {
		return r, b.whyNotImported(err)
	}
	r.Name, r.Replaced = o.Name, change
	r.Warnings = b.listWarnings(&list, r.LeftOut)
	if o.Dry {
		return r, nil
	}
	b.rememberList(&list, o, by, now, &r)
	b.opts.Log.Info("block list imported", "name", o.Name, "by", by, "entries", r.Entries, "added", r.Added, "removed",
		r.Removed)
	kept := console.BanResult{Warnings: r.Warnings}
	b.keepNow(ctx, &kept, "the list holds, but a restart will forget it")
	r.Kept, r.Warnings = kept.Kept, kept.Warnings
	return r, nil
}

// rememberList notes who imported a list.
func (b backend) rememberList(list *ban.BlockList, o console.ListOrder, by string, now time.Time,
	r *console.ListResult,
) {
	var err error
	if o.Remove {
		_, err = b.settings.Remove(listKey(o.Name), settingBy(by), now)
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
	} else {
		value, _ := json.Marshal(setList{Reason: o.Reason, Entries: r.Entries}) // it can be written
		_, err = b.settings.Set(store.Setting{SettingKey: listKey(o.Name), Value: string(value), By: settingBy(by),
			Until: list.Until}, now)
	}
	if errors.Is(err, settings.ErrFull) {
		b.metrics.BoundReached(boundSettings)
	}
	if err != nil {
		r.Warnings = append(r.Warnings, "who imported the list is not remembered: "+plainly(err))
	}
}

func oneOfLists(sizes map[string]int) string {
	if len(sizes) == 0 {
		return ""
	}
	return "; one of " + strings.Join(slices.Sorted(maps.Keys(sizes)), ", ")
}

// whyNotImported says why a list was not imported.
func (b backend) whyNotImported(err error) error {
	if errors.Is(err, ban.ErrFull) {
		b.metrics.BoundReached(boundBans)
		return console.Rejected(fmt.Sprintf("the list does not fit: %d clients and networks are the most that operators may "+
			"ban (bans.max in the configuration); nothing was changed", b.current.Load().cfg.Bans.Max))
	}
	return console.Invalid(plainly(err))
}

// listWarnings is what an operator should know about a list that holds.
func (b backend) listWarnings(list *ban.BlockList, leftOut []string) (all []string) {
	if len(leftOut) > 0 {
		all = append(all, fmt.Sprintf("left out, as this machine is in it: %s", few(leftOut)))
	}
	if b.bans.link.Shadow.Load() {
		all = append(all, "the block list is in shadow: nobody is refused until weir shadow off "+config.Bans)
	}
	var private, proxies, exempt []string
	g := b.current.Load()
	rules := b.kernelRules(g.cfg)
	for _, p := range list.Entries {
		switch {
		case rules.proxies.overlap(p):
			proxies = append(proxies, p.String())
		case rules.exempt.overlap(p):
			exempt = append(exempt, p.String())
		case p.Addr().IsPrivate() || p.Addr().IsLinkLocalUnicast():
			private = append(private, p.String())
		}
	}
	for _, w := range []struct {
		who  []string
		text string
	}{
		{proxies, "trusted proxies may still connect, as those behind them are judged by their own addresses"},
		{exempt, "what is exempt is served all the same (bans.exempt)"},
		{private, "these are private networks: clients and proxies of your own may be refused"},
	} {
		if len(w.who) > 0 {
			all = append(all, w.text+": "+few(w.who))
		}
	}
	return all
}

// few is the first of some names, and how many more there are.
func few(all []string) string {
	const most = 5
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// BlockLists returns the block lists that were imported.
func (b backend) BlockLists() []console.BlockList {
	now := b.clock.Now()
	sizes := b.bans.list.ListSizes(now)
	all := []console.BlockList{}
	for _, v := range b.settings.All(settingList, now) {
		var l setList
		_ = json.Unmarshal([]byte(v.Value), &l) // of a newer weir, what is known of it is shown
		all = append(all, console.BlockList{Name: v.Name, Banned: sizes[v.Name], Entries: l.Entries, Reason: l.Reason,
			By: v.By, At: v.At, Until: v.Until})
		delete(sizes, v.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		all = append(all, console.BlockList{Name: name, Banned: sizes[name]})
	}
	return all
}
