package settings

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/parcel"
	"weir/store"
	"weir/store/sqlite"
)

var epoch = time.Date(2026, 3, 2, 12, 0, 0, 123, time.UTC)

// A node is its settings, with what it was sent and what it sends.
type node struct {
	*Settings
	t       *testing.T
	changes int
	said    [][]byte
	due     time.Time
}

func newNode(t *testing.T) *node {
	n := &node{t: t}
	n.Settings = New(func() { n.changes++ })
	n.Alarm(func(due time.Time) { n.due = due })
	n.Share(func(msg []byte) { n.said = append(n.said, msg) })
	return n
}

func limit(name string) store.SettingKey { return store.SettingKey{Kind: "limit", Name: name} }

func (n *node) set(name, value string, at time.Time, lasts time.Duration) {
	n.t.Helper()
	v := store.Setting{SettingKey: limit(name), Value: value, By: "ann"}
	if lasts > 0 {
		v.Until = at.Add(lasts)
	}
	if _, err := n.Set(v, at); err != nil {
		n.t.Fatal(err)
	}
}

// is wants a setting to have a value; empty: there is none.
func (n *node) is(name, value string, at time.Time) {
	n.t.Helper()
	v, found := n.Get(limit(name), at)
	if found != (value != "") || found && v.Value != value {
		n.t.Errorf("%s is %q (%v), want %q", name, v.Value, found, value)
	}
}

func TestSettingsAreSetReplacedAndRemoved(t *testing.T) {
	n := newNode(t)
	n.set("a", "1", epoch, 0)
	n.is("a", "1", epoch)
	before, err := n.Set(store.Setting{SettingKey: limit("a"), Value: "2"}, epoch) // at the same time
	if err != nil || before.Value != "1" || before.By != "ann" {
		t.Errorf("before: %+v, %v", before, err)
	}
	n.is("a", "2", epoch)
	if all := n.All("limit", epoch); len(all) != 1 || all[0].Value != "2" {
		t.Errorf("all: %+v", all)
	}
	if before, err := n.Remove(limit("a"), "bob", epoch); err != nil || before.Value != "2" {
		t.Errorf("removed: %+v, %v", before, err)
	}
	n.is("a", "", epoch)
	if _, err := n.Remove(limit("a"), "bob", epoch); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	if n.changes != 3 {
		t.Errorf("%d changes, want 3", n.changes)
	}
	for _, bad := range []store.Setting{{SettingKey: limit("b")}, {SettingKey: limit(""), Value: "1"},
		{SettingKey: limit("b"), Value: "1", Until: epoch}} {
		if _, err := n.Set(bad, epoch); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestSettingsEnd(t *testing.T) {
	n := newNode(t)
	n.set("a", "for good", epoch, 0)
	n.set("a", "for a minute", epoch.Add(1), time.Minute)
	end := epoch.Add(time.Minute + 1)
	if !n.due.Equal(end) {
		t.Errorf("due at %s, want %s", n.due, end)
	}
	n.is("a", "for a minute", end.Add(-1))
	n.is("a", "", end)
	changes := n.changes
	n.Advance(end)
	if n.changes != changes+1 {
		t.Error("nobody is told of the end")
	}
	// A node that was away does not bring back what the setting replaced.
	other := newNode(t)
	other.set("a", "for good", epoch, 0)
	hear(t, n, other.said[0], end)
	n.is("a", "", end)
	if due := n.Advance(end); !due.Equal(epoch.Add(1 + KeepRemoved)) {
		t.Errorf("due at %s", due)
	}
}

func hear(t *testing.T, n *node, msg []byte, at time.Time) {
	t.Helper()
	if err := n.Hear(msg, at); err != nil {
		t.Fatal(err)
	}
	n.Advance(at)
}

// Whatever order the words of several nodes come in, and however often, all nodes end up with the same.
func TestNodesAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		nodes := []*node{newNode(t), newNode(t), newNode(t)}
		now := epoch
		for range 12 {
			n := nodes[random.IntN(3)]
			name := fmt.Sprint(random.IntN(3))
			if random.IntN(3) == 0 {
				_, _ = n.Remove(limit(name), "ann", now) // it may not be there
			} else {
				n.set(name, fmt.Sprint(random.IntN(100)), now, time.Duration(random.IntN(2))*time.Hour)
			}
			now = now.Add(time.Duration(random.IntN(3)-1) * time.Second)
		}
		var all [][]byte
		for _, n := range nodes {
			all = append(all, n.said...)
			all = append(all, n.said...)
			n.Snapshot(now, func(msg []byte) bool { all = append(all, msg); return true })
		}
		for _, n := range nodes {
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for _, msg := range all {
				hear(t, n, msg, now)
			}
		}
		for name := range 3 {
			want, _ := nodes[0].Get(limit(fmt.Sprint(name)), now)
			for _, n := range nodes[1:] {
				if got, _ := n.Get(limit(fmt.Sprint(name)), now); !got.Equal(&want) {
					t.Fatalf("one node has %+v, another %+v", got, want)
				}
			}
		}
	}
}

func TestASnapshotOfMany(t *testing.T) {
	n, joiner := newNode(t), newNode(t)
	for i := range 2000 {
		n.set(fmt.Sprint("account ", i), "some value that is not very long", epoch, 0)
	}
	n.Snapshot(epoch, func(msg []byte) bool {
		if len(msg) > parcel.Most {
			t.Errorf("a message of %d bytes", len(msg))
		}
		hear(t, joiner, msg, epoch)
		return true
	})
	if got := len(joiner.All("limit", epoch)); got != 2000 {
		t.Errorf("%d settings, want 2000", got)
	}
}

func TestBounds(t *testing.T) {
	n := newNode(t)
	for i := range Max {
		n.set(fmt.Sprint(i), "v", epoch.Add(time.Duration(i)), 0)
	}
	if _, err := n.Set(store.Setting{SettingKey: limit("one more"), Value: "v"}, epoch); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	n.set("7", "changed", epoch, 0) // one that is there needs no room
	// Removals are bounded too: the first one is forgotten.
	later := epoch.Add(time.Second)
	for i := range Max {
		if _, err := n.Remove(limit(fmt.Sprint(i)), "ann", later.Add(time.Duration(i))); err != nil {
			t.Fatal(err)
		}
	}
	n.set("x", "v", later, 0)
	if _, err := n.Remove(limit("x"), "ann", later); err != nil {
		t.Fatal(err)
	}
	if n.removed != Max || len(n.by) != Max {
		t.Errorf("%d removals, %d in all", n.removed, len(n.by))
	}
}

func TestMessagesThatMakeNoSense(t *testing.T) {
	n := newNode(t)
	good := `{"kind":"limit","name":"a","value":"1","at":"2026-03-02T12:00:00Z"}`
	for _, msg := range []string{"", "{", `{"v":2,"w":[]}`, `{"v":1,"w":[{}]}`,
		`{"v":1,"w":[` + good + `,{"kind":"limit","name":"b","value":"1","at":"2026-03-04T12:00:00Z"}]}`} {
		if err := n.Hear([]byte(msg), epoch); err == nil {
			t.Errorf("%s was taken", msg)
		}
	}
	n.is("a", "1", epoch)
	n.is("b", "", epoch)
	if err := n.Hear(make([]byte, parcel.Most+1), epoch); err == nil {
		t.Error("a message that is too long was taken")
	}
}

func FuzzHear(f *testing.F) {
	f.Add([]byte(`{"v":1,"w":[{"kind":"limit","name":"a","value":"1","at":"2026-03-02T12:00:00Z"}]}`))
	f.Add([]byte(`{"v":1,"w":[{"kind":"limit","name":"a","at":"2026-03-02T12:00:00Z","until":"2026-03-03T12:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, msg []byte) {
		b := New(func() {})
		_ = b.Hear(msg, epoch)
		b.Advance(epoch)
		for _, v := range b.by {
			if v.Validate() != nil {
				t.Errorf("%+v was taken", v)
			}
		}
	})
}

// What is set is there after a restart, and what was removed is not.
func TestSettingsAreKept(t *testing.T) {
	folder := t.TempDir()
	ctx := context.Background()
	run := func(f func(n *node)) {
		t.Helper()
		s, err := sqlite.Open(ctx, sqlite.Options{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		n := newNode(t)
		if err := n.Keep(ctx, s.Settings(), epoch, nil); err != nil {
			t.Fatal(err)
		}
		f(n)
		if err := errors.Join(n.Close(ctx), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	run(func(n *node) {
		n.set("a", "1", epoch, 0)
		n.set("b", "2", epoch, time.Hour)
		n.set("c", "3", epoch, 0)
		if err := n.Flush(ctx); err != nil || n.Unsaved() != 0 {
			t.Errorf("%v, %d are not saved", err, n.Unsaved())
		}
	})
	run(func(n *node) {
		n.is("a", "1", epoch)
		n.is("b", "2", epoch)
		n.is("b", "", epoch.Add(time.Hour))
		if _, err := n.Remove(limit("a"), "ann", epoch); err != nil {
			t.Fatal(err)
		}
		n.set("c", "4", epoch, 0)
	})
	run(func(n *node) {
		n.is("a", "", epoch)
		n.is("c", "4", epoch)
		// The removal is remembered: an older word of another node does not bring it back.
		hear(t, n, []byte(`{"v":1,"w":[{"kind":"limit","name":"a","value":"1","at":"2026-03-02T11:00:00Z"}]}`), epoch)
		n.is("a", "", epoch)
	})
}

// A store that fails is tried again.
func TestAStoreThatFails(t *testing.T) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	broken := &brokenStore{Settings: s.Settings()}
	n := newNode(t)
	var told []error
	if err := n.Keep(ctx, broken, epoch, func(err error) { told = append(told, err) }); err != nil {
		t.Fatal(err)
	}
	broken.err = errors.New("the disk is full")
	n.set("a", "1", epoch, 0)
	if err := n.Flush(ctx); err == nil {
		t.Error("a store that fails keeps it")
	}
	n.is("a", "1", epoch)
	if due := n.Advance(epoch); !due.Equal(epoch.Add(retryEvery)) && !due.Before(epoch.Add(retryEvery)) {
		t.Errorf("tried again at %s", due)
	}
	broken.err = nil
	n.Advance(epoch.Add(2 * retryEvery))
	if n.Unsaved() != 0 || len(told) < 2 || told[len(told)-1] != nil {
		t.Errorf("%d are not saved, told %v", n.Unsaved(), told)
	}
}

// brokenStore fails to write while it has an error: a fault that cannot be made otherwise.
type brokenStore struct {
	store.Settings
	err error
}

func (b *brokenStore) Put(ctx context.Context, all ...store.Setting) error {
	if b.err != nil {
		return b.err
	}
	return b.Settings.Put(ctx, all...)
}
