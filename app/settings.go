package app

import (
	"context"
	"fmt"
	"time"

	"weir/farm"
	"weir/store"
	"weir/store/settings"
)

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
