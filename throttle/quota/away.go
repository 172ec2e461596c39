package quota

import (
	"context"
	"slices"
	"time"

	"weir/farm"
	"weir/store"
)

// A new engine waits for all nodes that count at it, also for those that are away: only they may know what they
// granted last. It cannot wait for ever, or a dead machine would keep the limits of a month closed. The names are on
// the disk: otherwise a node that was restarted would wait for nobody until it has heard the others.
//
// The farm has a list of its own of who belongs to it (farm.Joining.Keep). A node leaves that one with its goodbye, and
// a lost one stays in it until an operator forgets it. Here both are waited for, for ten minutes.

// awayFor is how long a node that cannot be heard is waited for: as long as a machine may take to start again.
const awayFor = 10 * time.Minute

// waitedFor are the other nodes that an engine is to wait for. A lender's mu protects them.
type waitedFor struct {
	heard map[string]time.Duration // by name: when the node was last heard, by Lending.Since
	kept  map[string]bool          // the names on the disk
	drops []string                 // names to be removed from there
	busy  bool                     // the disk is being written
}

// everybody returns the nodes that an engine is to wait for, with this one. now is the time of Lending.Since.
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
	for len(l.heard) > farm.MaxNodes-1 { // a farm has no more: the one that is away longest makes room
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
		go l.keepNames(news, l.drops)
		l.drops = nil
	}
	return names
}

// drop forgets a node. mu is held.
func (l *Lender) drop(name string) {
	delete(l.heard, name)
	if l.kept[name] {
		delete(l.kept, name)
		l.drops = append(l.drops, name)
	}
}

// keepNames brings the names on the disk up to date. A name that cannot be written is tried again. One that cannot be
// removed is waited for once more after a restart.
func (l *Lender) keepNames(news, drops []string) {
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

// Forget ends the wait for a node. It reports whether there was one.
func (l *Lender) Forget(node string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.heard[node]
	l.drop(node)
	return known
}
