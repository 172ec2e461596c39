package settings

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/parcel"
	"weir/store"
)

const (
	// Max is how many settings there are, at most. As many removals are remembered.
	Max = 10_000
	// KeepRemoved is how long a removal is remembered. A node that was cut off for longer may bring a setting back.
	KeepRemoved = 7 * 24 * time.Hour
	// retryEvery is when a store that fails is tried again.
	retryEvery = time.Second
)

// ErrFull is returned for one setting more than Max.
var ErrFull = fmt.Errorf("%d settings were made on the running weir, which are the most that it keeps: remove some, "+
	"or write them into the configuration", Max)

// Settings are what operators have set. Make them with New.
type Settings struct {
	changed func()

	mu      sync.Mutex
	by      map[store.SettingKey]store.Setting
	removed int                       // how many of them are removals
	stale   bool                      // changed is to be called
	ends    time.Time                 // when the first of them ends, or earlier; zero: none does
	dirty   map[store.SettingKey]bool // what the store does not have
	store   store.Settings            // nil: nothing is kept
	failed  func(error)
	failing bool
	retry   time.Time
	send    func(msg []byte) // nil: weir is alone
	alarm   func(time.Time)

	writing sync.Mutex // one at a time
}

// New returns empty settings. changed is called, under no lock, when something may be different: from Set and Remove
// before they return, and from Advance.
func New(changed func()) *Settings {
	return &Settings{changed: changed, by: map[store.SettingKey]store.Setting{}, dirty: map[store.SettingKey]bool{},
		alarm: func(time.Time) {}, failed: func(error) {}}
}

// Keep loads what a store has, and keeps everything there from now on. failed, which may be nil, is told when the store
// fails, and with nil when it works again.
func (b *Settings) Keep(ctx context.Context, s store.Settings, now time.Time, failed func(error)) error {
	all, err := s.List(ctx, now)
	if err == nil {
		_, err = s.Prune(ctx, now)
	}
	if err != nil {
		return fmt.Errorf("what operators have set cannot be loaded: %w", err)
	}
	b.mu.Lock()
	b.store = s
	if failed != nil {
		b.failed = failed
	}
	for key := range b.by {
		b.dirty[key] = true
	}
	for _, v := range all {
		if b.take(v, now) == nil {
			delete(b.dirty, v.SettingKey)
		}
	}
	alarm, due := b.alarm, b.due()
	b.mu.Unlock()
	alarm(due)
	b.changed()
	return nil
}

// Close writes what is left. Nothing is kept any more after it.
func (b *Settings) Close(ctx context.Context) error {
	err := b.Flush(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.store = nil
	return err
}

// Set sets something, and returns what was set before; its zero value where nothing was. It takes effect before Set
// returns; Flush says whether a restart keeps it. The errors are ErrFull, store.ErrInvalid and store.ErrTooLarge.
func (b *Settings) Set(v store.Setting, now time.Time) (before store.Setting, err error) {
	if v.Removed() {
		return before, fmt.Errorf("a setting without a value: %w", store.ErrInvalid)
	}
	v.At, v.Until = now.Round(0), v.Until.Round(0)
	if err := v.Validate(); err != nil {
		return before, err
	}
	if !v.Holds(now) {
		return before, fmt.Errorf("it is over at %s already: %w", v.Until.Format(time.RFC3339), store.ErrInvalid)
	}
	return b.say(v, now)
}

// Remove removes a setting and returns what it was, or store.ErrNotFound.
func (b *Settings) Remove(key store.SettingKey, by string, now time.Time) (before store.Setting, err error) {
	if _, found := b.Get(key, now); !found {
		return before, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	return b.say(store.Setting{SettingKey: key, By: by, At: now.Round(0), Until: now.Round(0).Add(KeepRemoved)}, now)
}

// say takes in what an operator does here, and tells the other nodes.
func (b *Settings) say(v store.Setting, now time.Time) (before store.Setting, err error) {
	b.mu.Lock()
	old, known := b.by[v.SettingKey]
	if known && !v.At.After(old.At) {
		v.At = old.At.Add(1) // another node's clock is ahead
	}
	if known && !old.Removed() && old.Holds(now) {
		before = old
	}
	err = b.take(v, now)
	send, alarm, due := b.send, b.alarm, b.due()
	b.mu.Unlock()
	if err != nil {
		return before, err
	}
	alarm(due)
	b.changed()
	if send != nil {
		p := parcel.Packer{Version: wireVersion, Give: func(msg []byte) bool { send(msg); return true }}
		p.Add(v)
		p.Flush()
	}
	return before, nil
}

// take takes in a setting, unless a later word about the same is known. b.mu is held.
func (b *Settings) take(v store.Setting, now time.Time) error {
	old, known := b.by[v.SettingKey]
	if known && compare(&v, &old) <= 0 {
		return nil
	}
	switch {
	case v.Removed() && !(known && old.Removed()) && b.removed >= Max:
		b.forgetOldest()
	case !v.Removed() && (!known || old.Removed()) && len(b.by)-b.removed >= Max:
		return ErrFull
	}
	if known && old.Removed() {
		b.removed--
	}
	if v.Removed() {
		b.removed++
	}
	b.by[v.SettingKey] = v
	b.dirty[v.SettingKey] = true
	b.stale = true
	b.endsAt(v.Until)
	return nil
}

// endsAt notes when a setting ends. b.mu is held.
func (b *Settings) endsAt(t time.Time) {
	if !t.IsZero() && (b.ends.IsZero() || t.Before(b.ends)) {
		b.ends = t
	}
}

// compare says which of two words about the same counts: the later one. The rest decides between two at the same time,
// on all nodes alike.
func compare(a, b *store.Setting) int {
	return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Value, b.Value), a.Until.Compare(b.Until),
		strings.Compare(a.By, b.By))
}

// over is what is remembered of a setting that has come to its end: it goes before an earlier word about the same,
// which another node may have.
func over(v store.Setting) store.Setting {
	v.Value, v.Until = "", v.At.Add(KeepRemoved)
	return v
}

// forgetOldest forgets the removal that was made first.
func (b *Settings) forgetOldest() {
	var first *store.Setting
	for _, v := range b.by {
		if v.Removed() && (first == nil || v.At.Before(first.At)) {
			first = &v
		}
	}
	b.drop(first.SettingKey)
}

// drop forgets a setting, here and in the store. b.mu is held.
func (b *Settings) drop(key store.SettingKey) {
	if v, known := b.by[key]; known && v.Removed() {
		b.removed--
	}
	delete(b.by, key)
	b.dirty[key] = true
}

// Get returns a setting that holds at now.
func (b *Settings) Get(key store.SettingKey, now time.Time) (store.Setting, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, known := b.by[key]
	return v, known && !v.Removed() && v.Holds(now)
}

// All returns the settings of a kind that hold at now, by name.
func (b *Settings) All(kind string, now time.Time) (all []store.Setting) {
	b.mu.Lock()
	for _, v := range b.by {
		if v.Kind == kind && !v.Removed() && v.Holds(now) {
			all = append(all, v)
		}
	}
	b.mu.Unlock()
	slices.SortFunc(all, func(a, b store.Setting) int { return a.Compare(b.SettingKey) })
	return all
}

// Unsaved is how many changes the store does not have.
func (b *Settings) Unsaved() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store == nil {
		return 0
	}
	return len(b.dirty)
}

// Alarm registers the one function that is called when Advance is due earlier than it said.
func (b *Settings) Alarm(f func(due time.Time)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alarm = f
}

// Advance ends what is over at now, calls changed if something is different, and writes what the store does not have.
// It returns when it is due next; zero for never.
func (b *Settings) Advance(now time.Time) time.Time {
	b.mu.Lock()
	for key, v := range b.by {
		if v.Holds(now) {
			continue
		}
		b.drop(key)
		if !v.Removed() {
			b.stale = true
			if v = over(v); v.Holds(now) {
				_ = b.take(v, now) // removals are never refused
			}
		}
	}
	b.ends = time.Time{}
	for _, v := range b.by {
		b.endsAt(v.Until)
	}
	stale := b.stale
	b.stale = false
	write := b.store != nil && len(b.dirty) > 0 && !(b.failing && now.Before(b.retry))
	if write {
		b.retry = now.Add(retryEvery) // should it fail
	}
	b.mu.Unlock()
	if stale {
		b.changed()
	}
	if write {
		_ = b.Flush(context.Background()) // failed is told
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.due()
}

// due is when something is to be done; zero for never. b.mu is held.
func (b *Settings) due() (due time.Time) {
	sooner := func(t time.Time) {
		if due.IsZero() || t.Before(due) {
			due = t
		}
	}
	if !b.ends.IsZero() {
		sooner(b.ends)
	}
	switch {
	case b.store == nil || len(b.dirty) == 0:
	case b.failing:
		sooner(b.retry)
	default:
		sooner(time.Unix(1, 0)) // at once
	}
	return due
}

// Flush returns when everything is in the store, or with the store's error. Without a store there is nothing to do.
func (b *Settings) Flush(ctx context.Context) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	for {
		b.mu.Lock()
		s := b.store
		var put []store.Setting
		var forget []store.SettingKey
		for key := range b.dirty {
			if len(put)+len(forget) == store.MaxBatch {
				break
			}
			if v, known := b.by[key]; known {
				put = append(put, v)
			} else {
				forget = append(forget, key)
			}
			delete(b.dirty, key)
		}
		b.mu.Unlock()
		if s == nil || len(put)+len(forget) == 0 {
			return nil
		}
		err := errors.Join(s.Put(ctx, put...), s.Forget(ctx, forget...))
		b.wrote(put, forget, err)
		if err != nil {
			return err
		}
	}
}

// wrote notes whether something was written. What was not is tried again.
func (b *Settings) wrote(put []store.Setting, forget []store.SettingKey, err error) {
	b.mu.Lock()
	was := b.failing
	if b.failing = err != nil; b.failing {
		for _, v := range put {
			b.dirty[v.SettingKey] = true
		}
		for _, key := range forget {
			b.dirty[key] = true
		}
	}
	failed, alarm, due := b.failed, b.alarm, b.due()
	b.mu.Unlock()
	if was || err != nil {
		failed(err)
	}
	if err != nil {
		alarm(due)
	}
}

// Bounds of what travels between nodes.
const (
	wireVersion = 1
	maxAhead    = 24 * time.Hour // how far the clock of whoever tells something may be ahead
)

// Share makes the settings those of a farm: what an operator does here is handed to send, which must not
// block. stop ends that.
func (b *Settings) Share(send func(msg []byte)) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.send = send
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.send = nil
	}
}

// Hear takes in what another node tells. It may come late, twice and in any order. Settings that make no sense are left
// out, and the error is about the first of them; the others hold. It does not call changed: Advance does.
func (b *Settings) Hear(msg []byte, now time.Time) error {
	all, err := parcel.Open(msg, wireVersion, "settings")
	if err != nil {
		return err
	}
	var first error
	wrong := 0
	b.mu.Lock()
	for _, raw := range all {
		var v store.Setting
		err := json.Unmarshal(raw, &v)
		if err == nil {
			err = b.hear(v, now)
		}
		if err != nil {
			wrong++
			first = cmp.Or(first, err)
		}
	}
	stale, alarm := b.stale, b.alarm
	b.mu.Unlock()
	if stale {
		alarm(now)
	}
	if first != nil {
		return fmt.Errorf("%d of %d settings are left out: %w", wrong, len(all), first)
	}
	return nil
}

func (b *Settings) hear(v store.Setting, now time.Time) error {
	if err := v.Validate(); err != nil {
		return err
	}
	if v.At.After(now.Add(maxAhead)) {
		return fmt.Errorf("a setting with a time that is more than %s ahead: set the clocks of both nodes", maxAhead)
	}
	if !v.Holds(now) {
		if v.Removed() {
			return nil
		}
		if v = over(v); !v.Holds(now) {
			return nil
		}
	}
	return b.take(v, now)
}

// Snapshot gives messages that together say all that this node knows, until give returns false.
func (b *Settings) Snapshot(now time.Time, give func(msg []byte) bool) {
	b.mu.Lock()
	all := make([]store.Setting, 0, len(b.by))
	for _, v := range b.by {
		if v.Holds(now) {
			all = append(all, v)
		}
	}
	b.mu.Unlock()
	p := parcel.Packer{Version: wireVersion, Give: give}
	for _, v := range all {
		p.Add(v)
	}
	p.Flush()
}

// Tell gives one message with all that is known of a kind, removals included, for a node that must know it at once. The
// kind must have few settings: what does not fit into one message is left to the snapshot.
func (b *Settings) Tell(kind string, now time.Time, give func(msg []byte)) {
	b.mu.Lock()
	var all []store.Setting
	for _, v := range b.by {
		if v.Kind == kind && v.Holds(now) {
			all = append(all, v)
		}
	}
	b.mu.Unlock()
	p := parcel.Packer{Version: wireVersion, Give: func(msg []byte) bool { give(msg); return false }}
	for _, v := range all {
		p.Add(v)
	}
	p.Flush()
}
