package quota

import (
	"context"
	"slices"
	"time"

	"weir/farm"
	"weir/store"
)

// A new engine waits for all nodes that lend, also for those that are away: what they granted last, they may know
// alone. It cannot wait for ever, or a machine that is dead would keep a month's limits closed. The names are on the
// disk: a node that was restarted would otherwise wait for nobody until it has heard the others.

// awayFor is how long a node that cannot be heard is waited for: as long as a machine may take to start again.
const awayFor = 10 * time.Minute

// A roll is who lends besides this node. A lender's mu protects it.
type roll struct {
	heard map[string]time.Duration // by the name of a node: when it was last there, by the time since some start
	kept  map[string]bool          // the names on the disk
	drops []string                 // that are to go from there
	busy  bool                     // it is being written
}

// everybody returns who lends. now is the time since some start.
func (l *Lender) everybody(now time.Duration) (names []string) {
	self := farm.Home(l.Run)
	up := l.Farm()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range up {
		if name != self {
			l.heard[name] = now
		}
	}
	for len(l.heard) > farm.MaxNodes-1 { // no more are up: who is away longest makes room
		oldest := ""
		for name, last := range l.heard {
			if at, known := l.heard[oldest]; !known || last < at {
				oldest = name
			}
		}
		l.drop(oldest)
	}
	names = append(names, self)
	var news []string
	for name, last := range l.heard {
		switch {
		case now-last >= awayFor:
			l.drop(name)
			continue
		case !l.kept[name]:
			news = append(news, name)
		}
		names = append(names, name)
	}
	slices.Sort(names) // calls with the same nodes say so once
	if l.Disk != nil && !l.busy && len(news)+len(l.drops) > 0 {
		l.busy = true
		go l.enrol(news, l.drops)
		l.drops = nil
	}
	return names
}

// drop has a node forgotten. mu is held.
func (l *Lender) drop(name string) {
	delete(l.heard, name)
	if l.kept[name] {
		delete(l.kept, name)
		l.drops = append(l.drops, name)
	}
}

// enrol brings the names on the disk up to date. A name that cannot be written is tried again; one that stays there is
// waited for once more after a restart.
func (l *Lender) enrol(news, drops []string) {
	ctx, cancel := context.WithTimeout(context.Background(), diskPatience)
	defer cancel()
	rows := func(names []string) (all []store.Ceiling) {
		for _, name := range names {
			all = append(all, l.note(nodeRule, name))
		}
		return all
	}
	if err := l.Disk.Forget(ctx, rows(drops)); err != nil {
		l.stats.unkept.Add(1)
	}
	err := l.Disk.Save(ctx, rows(news))
	if err != nil {
		l.stats.unkept.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
	for _, name := range news {
		if err != nil {
			continue
		}
		l.kept[name] = true
		if _, known := l.heard[name]; !known {
			l.drop(name)
		}
	}
}

// Forget has nobody wait for a node. It reports whether anybody did.
func (l *Lender) Forget(node string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.heard[node]
	l.drop(node)
	return known
}
