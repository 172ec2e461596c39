package ban

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/store"
	"weir/store/sqlite"
)

// A disk is the bans of a real store, with faults.
type disk struct {
	store.Bans
	broken atomic.Bool
	hold   chan struct{} // while it is there, writing waits until it is closed
	begun  chan struct{} // somebody waits
	writes atomic.Int64
}

var errBroken = errors.New("the disk is broken")

func (d *disk) fault(ctx context.Context) error {
	d.writes.Add(1)
	if d.hold != nil {
		select {
		case d.begun <- struct{}{}:
		default:
		}
		select {
		case <-d.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if d.broken.Load() {
		return errBroken
	}
	return nil
}

func (d *disk) List(ctx context.Context, now time.Time) ([]store.Ban, error) {
	if d.broken.Load() {
		return nil, errBroken
	}
	return d.Bans.List(ctx, now)
}

func (d *disk) Put(ctx context.Context, bans ...store.Ban) error {
	if err := d.fault(ctx); err != nil {
		return err
	}
	return d.Bans.Put(ctx, bans...)
}

func (d *disk) Remove(ctx context.Context, keys ...store.BanKey) error {
	if err := d.fault(ctx); err != nil {
		return err
	}
	return d.Bans.Remove(ctx, keys...)
}

func newDisk(t testing.TB) *disk {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Folder: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return &disk{Bans: s.Bans()}
}

// told collects what a keeper tells.
func told() (func(error), chan error) {
	c := make(chan error, 100)
	return func(err error) { c <- err }, c
}

func keep(t testing.TB, l *List, s store.Bans, now time.Time, failed func(error)) *Keeper {
	t.Helper()
	k, err := l.Keep(context.Background(), s, now, failed)
	must(t, err)
	t.Cleanup(func() { _ = k.Close(context.Background()) })
	return k
}

// stored wants the store to hold exactly what the list holds.
func stored(t interface {
	Helper()
	Fatalf(string, ...any)
}, s store.Bans, l *List, now time.Time) {
	t.Helper()
	got, err := s.List(context.Background(), now)
	if want := l.All(now); err != nil ||
		!slices.EqualFunc(got, want, func(a, b store.Ban) bool { return a.Equal(&b) }) {
		t.Fatalf("%v: stored is\n%v, want\n%v", err, got, want)
	}
}

func TestBansSurvive(t *testing.T) {
	d := newDisk(t)
	l := newList(t, Options{AddressFrom: 2})
	must(t, l.Add(byOperator(t, "client:before", 0), epoch)) // before there was a store
	k := keep(t, l, d, epoch, nil)
	offend(t, l, "a", "192.0.2.1", epoch)
	offend(t, l, "b", "192.0.2.1", epoch)
	offend(t, l, "c", "", epoch)
	must(t, l.Add(byOperator(t, "10.0.0.0/8", time.Minute), epoch))
	must(t, l.Remove(key(t, "client:c"), epoch))
	must(t, k.Flush(t.Context()))
	stored(t, d, l, epoch)
	if s := l.Stats(); s.Unsaved != 0 {
		t.Errorf("%+v", s)
	}
	offend(t, l, "d", "", epoch.Add(time.Second))
	must(t, k.Close(t.Context())) // writes what is left
	must(t, k.Close(t.Context()))
	if err := k.Flush(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	must(t, keep(t, l, d, epoch.Add(time.Second), nil).Close(t.Context())) // the list has none any more

	again := newList(t, Options{})
	var changes int
	again.Watch(func(Change) { changes++ })
	writes := d.writes.Load()
	k = keep(t, again, d, epoch.Add(time.Second), nil)
	must(t, k.Flush(t.Context()))
	if got, want := names(again, epoch.Add(time.Second)), names(l, epoch.Add(time.Second)); got != want ||
		changes != 6 {
		t.Errorf("%s, want %s; %d changes", got, want, changes)
	}
	if d.writes.Load() != writes {
		t.Error("what was loaded is written again")
	}
	if b, _ := again.Get(key(t, "client:before"), epoch); !b.Operator || b.By != "alice" || !b.Since.Equal(epoch) {
		t.Errorf("%+v", b)
	}
	if _, err := again.Keep(t.Context(), d, epoch, nil); !errors.Is(err, ErrKept) {
		t.Error(err)
	}
}

// What is on the list when the store is loaded counts more, except a mechanism's word against an operator's.
func TestLoadingMeetsWhatIsThere(t *testing.T) {
	d := newDisk(t)
	mechanism := func(id string, d time.Duration) store.Ban {
		return store.Ban{BanKey: store.BanKey{Client: id}, By: "stamp", Since: epoch, Until: epoch.Add(d)}
	}
	must(t, d.Put(t.Context(), mechanism("a", time.Hour), mechanism("b", time.Minute), mechanism("c", time.Hour),
		byOperator(t, "client:d", time.Hour),
		byOperator(t, "client:e", time.Hour), mechanism("over", time.Second)))
	l := newList(t, Options{})
	now := epoch.Add(time.Second)
	must(t, l.Add(mechanism("a", time.Minute), now))
	must(t, l.Add(mechanism("b", time.Hour), now))
	must(t, l.Add(byOperator(t, "client:c", time.Minute), now))
	must(t, l.Add(mechanism("d", 2*time.Hour), now))
	must(t, l.Add(byOperator(t, "client:e", time.Minute), now))
	k := keep(t, l, d, now, nil)
	must(t, k.Flush(t.Context()))
	var got []string
	for _, b := range l.All(now) {
		got = append(got, fmt.Sprint(b.Client, " ", b.Until.Sub(epoch), " ", b.Operator))
	}
	if want := "a 1h0m0s false, b 1h0m0s false, c 1m0s true, d 1h0m0s true, e 1m0s true"; strings.Join(got,
		", ") != want {
		t.Errorf("%q", got)
	}
	stored(t, d, l, now)
	if n, _ := d.Prune(t.Context(), now); n != 0 {
		t.Error("what is over was not forgotten")
	}
}

// Where there is no room for all that is stored, operators' bans and those that end last are kept.
func TestLoadingMoreThanThereIsRoomFor(t *testing.T) {
	d := newDisk(t)
	for i := range 10 {
		must(t, d.Put(t.Context(), store.Ban{BanKey: store.BanKey{Client: fmt.Sprint(9 - i)},
			Until: epoch.Add(time.Duration(i+1) * time.Minute)}))
	}
	must(t, d.Put(t.Context(), byOperator(t, "10.0.0.0/8", time.Second)))
	l := newList(t, Options{Max: 4})
	must(t, keep(t, l, d, epoch, nil).Flush(t.Context()))
	if got := names(l, epoch); got != "10.0.0.0/8 client:0 client:1 client:2" {
		t.Error(got)
	}
	stored(t, d, l, epoch)
}

func TestLoadingFails(t *testing.T) {
	d := newDisk(t)
	d.broken.Store(true)
	l := newList(t, Options{})
	offend(t, l, "a", "", epoch)
	if _, err := l.Keep(t.Context(), d, epoch, nil); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	if got := names(l, epoch); got != "client:a" {
		t.Error(got)
	}
	d.broken.Store(false)
	must(t, keep(t, l, d, epoch, nil).Flush(t.Context()))
	stored(t, d, l, epoch)
}

// While the store fails, bans hold all the same; it is tried again when Advance says so, and in the end has everything.
func TestTheStoreFails(t *testing.T) {
	d := newDisk(t)
	l := newList(t, Options{})
	failed, tells := told()
	due := make(chan time.Time, 100)
	l.Alarm(func(at time.Time) { due <- at })
	k := keep(t, l, d, epoch, failed)
	offend(t, l, "a", "", epoch)
	must(t, k.Flush(t.Context()))

	d.broken.Store(true)
	offend(t, l, "b", "", epoch)
	if err := <-tells; !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	<-due // the end of a
	if at := <-due; at.Sub(epoch) != time.Second {
		t.Errorf("it is to be tried again at %s", at.Sub(epoch))
	}
	writes := d.writes.Load()
	for i := range 50 { // nobody waits for the disk, and it is not asked for each
		offend(t, l, fmt.Sprint(i), "", epoch)
	}
	must(t, l.Remove(key(t, "client:a"), epoch))
	if banned(l, "b", "", epoch) == "" || banned(l, "49", "", epoch) == "" || banned(l, "a", "", epoch) != "" ||
		d.writes.Load() != writes {
		t.Error("the list suffers from the store")
	}
	if s := l.Stats(); s.Unsaved != 52 {
		t.Errorf("%+v", s)
	}
	if next := l.Advance(epoch.Add(500 * time.Millisecond)); next.Sub(epoch) != 1500*time.Millisecond {
		t.Errorf("next at %s", next.Sub(epoch)) // it rests
	}
	if d.writes.Load() != writes {
		t.Error("tried again too early")
	}
	if next := l.Advance(epoch.Add(time.Second)); next.Sub(epoch) != 2*time.Second {
		t.Errorf("next at %s", next.Sub(epoch))
	}
	if err := <-tells; !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	if err := k.Flush(t.Context()); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	<-tells
	// The clock is set back: it is tried all the same.
	l.Advance(epoch.Add(-time.Hour))
	if err := <-tells; !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	d.broken.Store(false)
	l.Advance(epoch.Add(10 * time.Second))
	if err := <-tells; err != nil {
		t.Fatal(err)
	}
	must(t, k.Flush(t.Context()))
	stored(t, d, l, epoch.Add(10*time.Second))
	if s := l.Stats(); s.Unsaved != 0 {
		t.Errorf("%+v", s)
	}
}

// More changes than are remembered one by one: the whole list is compared when the store works again.
func TestTheStoreFailsForLong(t *testing.T) {
	d := newDisk(t)
	l := newList(t, Options{Max: 100})
	failed, tells := told()
	k := keep(t, l, d, epoch, failed)
	must(t, l.Add(byOperator(t, "client:stays", 0), epoch))
	must(t, l.Add(byOperator(t, "client:goes", 0), epoch))
	must(t, k.Flush(t.Context()))
	d.broken.Store(true)
	must(t, l.Remove(key(t, "client:goes"), epoch))
	<-tells
	now := epoch
	changes := 1
	for ; changes < maxJournal; changes++ { // some of them push others out, which is a change too
		now = now.Add(1)
		offend(t, l, fmt.Sprint("flood ", changes), "", now)
	}
	if s := l.Stats(); s.Unsaved != 100 || s.Evicted == 0 {
		t.Errorf("%+v", s)
	}
	if err := k.Flush(t.Context()); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	<-tells
	d.broken.Store(false)
	l.Advance(now.Add(time.Second))
	if err := <-tells; err != nil {
		t.Fatal(err)
	}
	must(t, k.Flush(t.Context()))
	stored(t, d, l, now)
	if s := l.Stats(); s.Unsaved != 0 || s.Clients != 100 {
		t.Errorf("%+v", s)
	}
}

// As many changes as may wait do; with one more the whole list is to be compared.
func TestTheJournalIsBounded(t *testing.T) {
	d := newDisk(t)
	l := newList(t, Options{})
	failed, tells := told()
	k := keep(t, l, d, epoch, failed)
	d.broken.Store(true)
	offend(t, l, "first", "", epoch)
	<-tells // it waits to be tried again
	for i := range maxJournal {
		must(t, l.Add(byOperator(t, "client:a", time.Duration(i+1)*time.Minute), epoch))
	}
	if s := l.Stats(); s.Unsaved != maxJournal+1 {
		t.Errorf("%+v", s)
	}
	must(t, l.Add(byOperator(t, "client:b", 0), epoch))
	if s := l.Stats(); s.Unsaved != 3 {
		t.Errorf("%+v", s)
	}
	d.broken.Store(false)
	must(t, k.Flush(t.Context()))
	stored(t, d, l, epoch)
	if s := l.Stats(); s.Unsaved != 0 {
		t.Errorf("%+v", s)
	}
}

// A disk that hangs holds up nobody.
func TestTheStoreHangs(t *testing.T) {
	d := newDisk(t)
	d.hold, d.begun = make(chan struct{}), make(chan struct{}, 1)
	l := newList(t, Options{})
	failed, tells := told()
	k := keep(t, l, d, epoch, failed)
	offend(t, l, "a", "", epoch)
	<-d.begun
	for i := range 1000 {
		offend(t, l, fmt.Sprint(i), "", epoch)
	}
	if banned(l, "999", "", epoch) == "" {
		t.Error("not banned")
	}
	l.Advance(epoch.Add(time.Second))
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if err := k.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(d.hold)
	must(t, k.Flush(t.Context()))
	stored(t, d, l, epoch)
	if len(tells) != 0 {
		t.Error("nothing has failed:", <-tells)
	}
}

// Who has to stop in a hurry can.
func TestCloseWithADeadline(t *testing.T) {
	d := newDisk(t)
	d.hold, d.begun = make(chan struct{}), make(chan struct{}, 1)
	l := newList(t, Options{})
	k := keep(t, l, d, epoch, nil)
	offend(t, l, "a", "", epoch)
	<-d.begun
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if err := k.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	offend(t, l, "b", "", epoch) // the list lives on
	if got := names(l, epoch); got != "client:a client:b" {
		t.Error(got)
	}
}

// A caller who leaves while its Flush is being served does not make the store a failing one.
func TestFlushIsBrokenOff(t *testing.T) {
	d := newDisk(t)
	l := newList(t, Options{})
	failed, tells := told()
	k := keep(t, l, d, epoch, failed)
	must(t, k.Flush(t.Context()))
	l.mu.Lock()
	k.failing = true // so that only Flush writes
	l.mu.Unlock()
	offend(t, l, "a", "", epoch)
	d.hold, d.begun = make(chan struct{}), make(chan struct{}, 1)
	ctx, leave := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { result <- k.Flush(ctx) }()
	<-d.begun
	leave()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-d.begun // it is tried again by itself
	close(d.hold)
	must(t, k.Flush(t.Context()))
	if err := <-tells; err != nil {
		t.Error(err)
	}
	stored(t, d, l, epoch)
}

// What is over is forgotten by the store too, now and then.
func TestTheStoreForgets(t *testing.T) {
	d := newDisk(t)
	l := newList(t, Options{})
	k := keep(t, l, d, epoch, nil)
	over := func() int {
		all, err := d.List(t.Context(), time.Unix(0, 0))
		must(t, err)
		return len(all)
	}
	must(t, l.Add(byOperator(t, "client:a", time.Minute), epoch))
	must(t, l.Add(byOperator(t, "client:b", 11*time.Minute), epoch))
	must(t, k.Flush(t.Context()))
	l.Advance(epoch.Add(time.Minute))
	must(t, k.Flush(t.Context()))
	if over() != 2 {
		t.Error("there is no hurry")
	}
	l.Advance(epoch.Add(11 * time.Minute))
	must(t, k.Flush(t.Context()))
	if over() != 0 {
		t.Error("it does not forget")
	}
}

// Whatever happens to the list and to the disk: when the disk works, it holds what the list holds.
func TestAnySequenceIsStored(t *testing.T) {
	d := newDisk(t)
	rapid.Check(t, func(rt *rapid.T) {
		d.broken.Store(false)
		left, err := d.List(context.Background(), time.Unix(0, 0))
		must(t, err)
		for _, b := range left {
			must(t, d.Remove(context.Background(), b.BanKey))
		}
		o := Options{Max: rapid.IntRange(2, 8).Draw(rt, "max"), AddressFrom: 2}
		l := newList(t, o)
		now := epoch
		k := keep(t, l, d, now, nil)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 600).Draw(rt, "seconds"))*time.Second + 1)
			client := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(rt, "client")
			switch rapid.IntRange(0, 7).Draw(rt, "step") {
			case 0, 1, 2:
				_ = l.Offend(Offence{Client: client, Source: netip.MustParseAddr("192.0.2.1")}, now)
			case 3:
				_ = l.Add(store.Ban{BanKey: store.BanKey{Client: client}, Operator: true, Until: now.Add(time.Hour)},
					now)
			case 4:
				_ = l.Remove(store.BanKey{Client: client}, now)
			case 5:
				d.broken.Store(rapid.Bool().Draw(rt, "broken"))
			case 6:
				l.Advance(now)
			case 7:
				broken := d.broken.Load()
				if err := k.Flush(context.Background()); err != nil && !broken {
					rt.Fatal(err)
				} else if !broken {
					stored(rt, d, l, now)
				}
			}
		}
		d.broken.Store(false)
		must(t, k.Close(context.Background()))
		stored(rt, d, l, now)
		again := newList(t, o)
		k = keep(t, again, d, now, nil)
		if got, want := names(again, now), names(l, now); got != want {
			rt.Fatalf("%s, want %s", got, want)
		}
		must(t, k.Close(context.Background()))
	})
}
