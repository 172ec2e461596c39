package ban

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/farm"
	"weir/internal/parcel"
	"weir/internal/testkit/needs"
	"weir/store"
)

// A member is a list that is shared, with what it has sent.
type member struct {
	*List
	*Shared
	sent [][]byte
	fail error // of sending
}

func newMember(t testing.TB, o Options) *member {
	t.Helper()
	m := &member{List: newList(t, o)}
	m.share()
	return m
}

func (m *member) share() {
	m.Shared = m.List.Share(func(msg []byte) error {
		if m.fail == nil {
			m.sent = append(m.sent, append([]byte(nil), msg...))
		}
		return m.fail
	})
}

// take returns what has been sent, and what waits to be.
func (m *member) take(t testing.TB) [][]byte {
	t.Helper()
	must(t, m.Flush())
	sent := m.sent
	m.sent = nil
	return sent
}

func (m *member) snapshot(now time.Time) (all [][]byte) {
	m.Snapshot(now, func(msg []byte) bool {
		all = append(all, append([]byte(nil), msg...))
		return true
	})
	return all
}

func (m *member) hears(t testing.TB, now time.Time, all ...[]byte) {
	t.Helper()
	for _, msg := range all {
		must(t, m.Hear(msg, now))
	}
}

// lifted is whose lifts are remembered.
func (m *member) lifted() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for key := range m.lifts.by {
		all = append(all, key.String())
	}
	return strings.Join(all, " ")
}

func minutes(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) }

func TestMessagesFitAFarm(t *testing.T) {
	if parcel.Most > farm.MaxPlain {
		t.Errorf("messages of %d bytes, a farm takes %d", parcel.Most, farm.MaxPlain)
	}
}

// Three clients of one address, each at another node: the address is banned at all of them.
func TestThresholdsHoldOverAFarm(t *testing.T) {
	nodes := []*member{newMember(t, Options{}), newMember(t, Options{}), newMember(t, Options{})}
	for i, m := range nodes {
		offend(t, m.List, fmt.Sprint("client-", i), "192.0.2.1", minutes(i))
		for _, msg := range m.take(t) {
			for j, other := range nodes {
				if i != j {
					other.hears(t, minutes(i), msg, msg) // twice is as good as once
				}
			}
		}
	}
	for i, m := range nodes {
		if got := names(m.List, minutes(2)); got != "192.0.2.1 client:client-0 client:client-1 client:client-2" {
			t.Errorf("node %d: %s", i, got)
		}
		b, _ := m.Get(key(t, "192.0.2.1"), minutes(2))
		if b.Reason != "3 clients: forged stamp" || b.By != "stamp" || !b.Until.Equal(minutes(62)) {
			t.Errorf("node %d: %+v", i, b)
		}
		if sent := m.take(t); len(sent) != 0 {
			t.Errorf("node %d: an echo: %s", i, sent)
		}
	}
}

// Clients without an id are told apart, also when several come between two messages, and when those come twice.
func TestNamelessClientsCountEach(t *testing.T) {
	for n, want := range map[int]string{2: "", 3: "192.0.2.1"} {
		a, b := newMember(t, Options{}), newMember(t, Options{})
		for range n {
			offend(t, a.List, "", "192.0.2.1", epoch)
		}
		sent := a.take(t)
		if len(sent) != 1 {
			t.Fatalf("%d messages", len(sent))
		}
		b.hears(t, epoch, sent[0], sent[0])
		b.hears(t, epoch, a.snapshot(epoch)...)
		if got := names(b.List, epoch); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	a := newMember(t, Options{AddressFrom: MaxAddressFrom})
	for range 3 * MaxAddressFrom {
		offend(t, a.List, "", "192.0.2.1", epoch)
	}
	b := newMember(t, Options{AddressFrom: MaxAddressFrom})
	b.hears(t, epoch, a.take(t)...)
	if got := names(b.List, epoch); got != "192.0.2.1" {
		t.Error(got)
	}
}

// What operators say goes by its time, not by the order in which it comes.
func TestTheLaterWordCounts(t *testing.T) {
	for name, c := range map[string]struct {
		a, b func(*member)
		want string
	}{
		"ban, lift": {
			func(m *member) { must(t, m.Add(byOperator(t, "10.0.0.0/8", 0), minutes(1))) },
			func(m *member) {
				must(t, m.Add(byOperator(t, "10.0.0.0/8", 0), minutes(0)))
				must(t, m.Remove(key(t, "10.0.0.0/8"), minutes(2)))
			}, ""},
		"lift, ban": {
			func(m *member) {
				must(t, m.Add(byOperator(t, "10.0.0.0/8", 0), minutes(0)))
				must(t, m.Remove(key(t, "10.0.0.0/8"), minutes(1)))
			},
			func(m *member) { must(t, m.Add(byOperator(t, "10.0.0.0/8", 0), minutes(2))) }, "for good"},
		"a shorter ban later": {
			func(m *member) { must(t, m.Add(byOperator(t, "10.0.0.0/8", 0), minutes(1))) },
			func(m *member) { must(t, m.Add(byOperator(t, "10.0.0.0/8", time.Hour), minutes(2))) }, "1h0m0s"},
		"at the same time": {
			func(m *member) { must(t, m.Add(byOperator(t, "10.0.0.0/8", 2*time.Hour), minutes(1))) },
			func(m *member) { must(t, m.Add(byOperator(t, "10.0.0.0/8", time.Hour), minutes(1))) }, "2h0m0s"},
		"a mechanism, then an operator": {
			func(m *member) { must(t, m.Add(store.Ban{BanKey: key(t, "10.0.0.0/8")}, minutes(1))) },
			func(m *member) { must(t, m.Add(byOperator(t, "10.0.0.0/8", 5*time.Minute), minutes(0))) }, "5m0s"},
	} {
		a, b, first, last := newMember(t, Options{V4: 8}), newMember(t, Options{V4: 8}), newMember(t, Options{V4: 8}),
			newMember(t, Options{V4: 8})
		c.a(a)
		c.b(b)
		fromA, fromB := a.snapshot(minutes(2)), b.snapshot(minutes(2))
		a.hears(t, minutes(2), fromB...)
		b.hears(t, minutes(2), fromA...)
		first.hears(t, minutes(2), append(fromA, fromB...)...)
		last.hears(t, minutes(2), append(fromB, fromA...)...)
		for i, m := range []*member{a, b, first, last} {
			got := ""
			if v, found := m.Get(key(t, "10.0.0.0/8"), minutes(2)); found {
				if got = "for good"; !v.Until.IsZero() {
					got = v.Until.Sub(epoch).String()
				}
			}
			if got != c.want {
				t.Errorf("%s, node %d: %q, want %q", name, i, got, c.want)
			}
		}
	}
}

// What an operator does is sent at once, and goes before what is known, even if the other clock is ahead.
func TestAnOperatorsClockIsBehind(t *testing.T) {
	a, b := newMember(t, Options{}), newMember(t, Options{})
	must(t, a.Add(byOperator(t, "client:x", 0), minutes(10)))
	b.hears(t, epoch, a.sent...)
	must(t, b.Remove(key(t, "client:x"), epoch))
	a.sent = nil
	a.hears(t, minutes(10), b.sent...)
	if got := names(a.List, minutes(10)); got != "" {
		t.Error(got)
	}
	b.sent = nil
	must(t, b.Add(byOperator(t, "client:x", 0), epoch))
	a.hears(t, minutes(10), b.sent...)
	if got := names(a.List, minutes(10)); got != "client:x" || a.lifted() != "" {
		t.Error(got, a.lifted())
	}
}

// A lift ends mechanisms' bans that are not newer, and what came before it counts for nothing.
func TestALiftAndMechanisms(t *testing.T) {
	t.Run("an offence from before", func(t *testing.T) {
		a, b := newMember(t, Options{}), newMember(t, Options{})
		offend(t, b.List, "x", "", minutes(1))
		late := b.take(t)
		offend(t, a.List, "x", "", minutes(0))
		must(t, a.Remove(key(t, "client:x"), minutes(2)))
		a.hears(t, minutes(3), late...)
		b.hears(t, minutes(3), a.take(t)...)
		if names(a.List, minutes(3)) != "" || names(b.List, minutes(3)) != "" {
			t.Error("banned for what was before")
		}
		offend(t, a.List, "x", "", minutes(4))
		if names(a.List, minutes(4)) != "client:x" {
			t.Error("not banned for what was after")
		}
	})
	t.Run("a ban prolonged since", func(t *testing.T) {
		a, b := newMember(t, Options{}), newMember(t, Options{})
		offend(t, a.List, "x", "", minutes(0))
		b.hears(t, minutes(0), a.take(t)...)
		must(t, a.Remove(key(t, "client:x"), minutes(2)))
		offend(t, b.List, "x", "", minutes(3)) // it has not heard of the lift
		b.hears(t, minutes(4), a.take(t)...)
		v, found := b.Get(key(t, "client:x"), minutes(4))
		if !found || !v.Since.Equal(minutes(3)) {
			t.Errorf("%+v", v)
		}
	})
	t.Run("of an address", func(t *testing.T) {
		a, b := newMember(t, Options{AddressFrom: 2}), newMember(t, Options{AddressFrom: 2})
		offend(t, b.List, "x", "192.0.2.1", minutes(0))
		late := b.take(t)
		offend(t, a.List, "y", "192.0.2.1", minutes(0))
		offend(t, a.List, "z", "192.0.2.1", minutes(0))
		must(t, a.Remove(key(t, "192.0.2.1"), minutes(1)))
		b.hears(t, minutes(1), a.take(t)...) // the lift, and only then the offences
		a.hears(t, minutes(1), late...)
		for _, m := range []*member{a, b} {
			if s := m.List.Stats(); s.Networks != 0 || s.Suspects != 0 {
				t.Errorf("%+v", s)
			}
			offend(t, m.List, "w", "192.0.2.1", minutes(2))
			if banned(m.List, "", "192.0.2.1", minutes(2)) != "" {
				t.Error("what was before the lift counts")
			}
		}
	})
	t.Run("an operator's ban stays", func(t *testing.T) {
		a, b := newMember(t, Options{}), newMember(t, Options{})
		must(t, a.Add(byOperator(t, "client:x", time.Minute), epoch))
		offend(t, b.List, "x", "", epoch)
		a.hears(t, epoch, b.take(t)...)
		a.hears(t, epoch, b.snapshot(epoch)...)
		if v, _ := a.Get(key(t, "client:x"), epoch); !v.Operator || !v.Until.Equal(minutes(1)) {
			t.Errorf("%+v", v)
		}
	})
	t.Run("the later end", func(t *testing.T) {
		a, b := newMember(t, Options{}), newMember(t, Options{})
		offend(t, a.List, "x", "", minutes(0))
		offend(t, b.List, "x", "", minutes(1))
		a.hears(t, minutes(1), b.snapshot(minutes(1))...)
		b.hears(t, minutes(1), a.snapshot(minutes(1))...)
		for _, m := range []*member{a, b} {
			if v, _ := m.Get(key(t, "client:x"), minutes(1)); !v.Until.Equal(minutes(61)) {
				t.Errorf("%+v", v)
			}
		}
	})
}

// An operator's ban that replaced a longer one and has ended does not let a node that was cut off bring that one back.
func TestAnEndedWordIsRemembered(t *testing.T) {
	a, cut := newMember(t, Options{}), newMember(t, Options{})
	must(t, a.Add(byOperator(t, "client:x", 0), minutes(0)))
	cut.hears(t, epoch, a.take(t)...)
	must(t, a.Add(byOperator(t, "client:x", 10*time.Minute), minutes(1)))
	a.Advance(minutes(10))
	a.hears(t, minutes(11), cut.snapshot(minutes(11))...)
	if got := names(a.List, minutes(11)); got != "" {
		t.Error(got)
	}
	cut.hears(t, minutes(11), a.snapshot(minutes(11))...)
	if got := names(cut.List, minutes(11)); got != "" {
		t.Error(got)
	}
	a.Advance(minutes(1).Add(KeepWords))
	if a.lifted() != "" {
		t.Error("it is remembered for ever")
	}
}

// A node that was cut off does not bring back what was lifted meanwhile, even if whoever lifted it was started again.
func TestALiftSurvivesARestart(t *testing.T) {
	d := newDisk(t)
	a, cut := newMember(t, Options{}), newMember(t, Options{})
	k := keep(t, a.List, d, epoch, nil)
	must(t, a.Add(byOperator(t, "10.0.0.0/8", 0), epoch))
	must(t, a.Add(byOperator(t, "client:x", 0), epoch))
	cut.hears(t, epoch, a.take(t)...)
	must(t, a.Remove(key(t, "10.0.0.0/8"), minutes(1)))
	must(t, a.Remove(key(t, "client:x"), minutes(1)))
	offend(t, a.List, "x", "", minutes(2)) // a ban beside the lift
	must(t, k.Close(t.Context()))

	again := newMember(t, Options{})
	k = keep(t, again.List, d, minutes(3), nil)
	again.hears(t, minutes(3), cut.snapshot(minutes(3))...)
	if got := names(again.List, minutes(3)); got != "client:x" {
		t.Error(got)
	}
	if v, _ := again.Get(key(t, "client:x"), minutes(3)); v.Operator {
		t.Errorf("the operator's ban is back: %+v", v)
	}
	cut.hears(t, minutes(3), again.snapshot(minutes(3))...)
	if got := names(cut.List, minutes(3)); got != "client:x" {
		t.Error(got)
	}
	// Banned again, it stays banned over a restart.
	must(t, again.Add(byOperator(t, "10.0.0.0/8", 0), minutes(4)))
	must(t, k.Close(t.Context()))
	last := newMember(t, Options{})
	keep(t, last.List, d, minutes(5), nil)
	if got := names(last.List, minutes(5)); got != "10.0.0.0/8 client:x" {
		t.Error(got)
	}
	if all, err := d.List(t.Context(), minutes(5)); err != nil || len(all) != 3 { // two bans and a lift
		t.Error(all, err)
	}
}

// weir may end after a lift was written and before its ban was removed, or after a ban and before its lift was removed.
func TestLoadingALiftAndItsBan(t *testing.T) {
	d := newDisk(t)
	ban := func(who string, at int) store.Ban {
		b := byOperator(t, who, 0)
		b.Since = minutes(at)
		return b
	}
	lift := func(who string, at int) store.Ban {
		b := ban(who, at)
		b.Lifted, b.Until = true, minutes(at).Add(KeepWords)
		return b
	}
	must(t, d.Put(t.Context(), ban("client:gone", 0), lift("client:gone", 1), ban("client:back", 1),
		lift("client:back", 0)))
	m := newMember(t, Options{})
	k := keep(t, m.List, d, minutes(2), nil)
	must(t, k.Flush(t.Context()))
	if got := names(m.List, minutes(2)); got != "client:back" {
		t.Error(got)
	}
	if _, err := keptBan(t.Context(), d, key(t, "client:gone"), minutes(2)); !errors.Is(err, store.ErrNotFound) {
		t.Error("the store still has it:", err)
	}
}

// What is heard goes into the store and to whoever watches, as everything else.
func TestWhatIsHeardIsKeptAndWatched(t *testing.T) {
	d := newDisk(t)
	a, b := newMember(t, Options{}), newMember(t, Options{})
	k := keep(t, b.List, d, epoch, nil)
	var changes []string
	b.Watch(func(c Change) { changes = append(changes, fmt.Sprint(c.What, " ", c.Ban.BanKey)) })
	must(t, a.Add(byOperator(t, "10.0.0.0/8", 0), epoch))
	offend(t, a.List, "x", "", epoch)
	b.hears(t, epoch, a.take(t)...)
	must(t, k.Flush(t.Context()))
	stored(t, d, b.List, epoch)
	must(t, a.Remove(key(t, "10.0.0.0/8"), minutes(1)))
	b.hears(t, minutes(1), a.take(t)...)
	must(t, k.Flush(t.Context()))
	if _, err := keptBan(t.Context(), d, key(t, "10.0.0.0/8"), minutes(1)); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	lift := key(t, "10.0.0.0/8")
	lift.Lifted = true
	if _, err := keptBan(t.Context(), d, lift, minutes(1)); err != nil {
		t.Error(err)
	}
	if got := strings.Join(changes, ", "); got != "added 10.0.0.0/8, added client:x, removed 10.0.0.0/8" {
		t.Error(got)
	}
	if _, found := b.Get(lift, minutes(1)); found || len(b.All(minutes(1))) != 1 {
		t.Error("a lift is shown as a ban")
	}
	for _, err := range []error{b.Remove(lift, minutes(1)), b.Add(store.Ban{BanKey: lift, Operator: true,
		Since: epoch, Until: minutes(9)}, minutes(1))} {
		if !errors.Is(err, store.ErrInvalid) {
			t.Error(err)
		}
	}
}

// Exempt ranges and trusted proxies are each node's own.
func TestWhatIsSparedHere(t *testing.T) {
	a := newMember(t, Options{AddressFrom: 1})
	offend(t, a.List, "x", "192.0.2.1", epoch)
	offend(t, a.List, "", "198.51.100.1", epoch)
	said := a.take(t)
	all := a.snapshot(epoch)
	for name, msgs := range map[string][][]byte{"offences": said, "snapshot": all} {
		b := newMember(t, Options{AddressFrom: 1, Exempt: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
		proxy := netip.MustParsePrefix("198.51.100.1/32")
		b.Spare(proxy.Overlaps)
		b.hears(t, epoch, msgs...)
		if banned(b.List, "", "192.0.2.1", epoch) != "" || banned(b.List, "", "198.51.100.1", epoch) != "" {
			t.Errorf("%s: %s", name, names(b.List, epoch))
		}
		if banned(b.List, "x", "", epoch) == "" {
			t.Errorf("%s: the client is not banned", name)
		}
	}
	// A network of another width than those that mechanisms ban here is not taken.
	wide := newMember(t, Options{AddressFrom: 1, V4: 24})
	wide.hears(t, epoch, all...)
	if got := names(wide.List, epoch); got != "client:x" {
		t.Error(got)
	}
}

// What waits is bounded: one word for each client until the next flush, and a bound for all.
func TestTheOutboxIsBounded(t *testing.T) {
	needs.Unwatched(t)
	a := newMember(t, Options{})
	woken := 0
	a.Wake(func() { woken++ })
	for range 3 {
		for i := range maxOutbox {
			offend(t, a.List, fmt.Sprint(i), "", epoch)
		}
	}
	if s := a.Shared.Stats(); s.Waiting != maxOutbox || a.Dropped() != 0 || woken != 1 || !a.Due() {
		t.Fatalf("%+v, woken %d times", s, woken)
	}
	offend(t, a.List, "one more", "", epoch)
	a.fail = farm.ErrOutbox // what an operator does has room of its own, and waits if it cannot be sent
	must(t, a.Add(byOperator(t, "10.0.0.0/8", 0), epoch))
	if s := a.Shared.Stats(); s.Waiting != maxOutbox+1 || a.Dropped() != 1 {
		t.Fatalf("%+v", s)
	}
	if err := a.Flush(); !errors.Is(err, farm.ErrOutbox) {
		t.Error(err)
	}
	a.fail = nil
	b := newMember(t, Options{})
	for _, msg := range a.take(t) {
		if len(msg) > parcel.Most {
			t.Errorf("a message of %d bytes", len(msg))
		}
		b.hears(t, epoch, msg)
	}
	if s := b.List.Stats(); s.Clients != maxOutbox || s.Networks != 1 || a.Due() {
		t.Errorf("%+v", s)
	}
	for i := range maxOutbox + 1 {
		a.fail = farm.ErrOutbox
		b := store.Ban{BanKey: store.BanKey{Client: fmt.Sprint(i)}, Operator: true}
		if i > 0 && i < maxOutbox { // sending each time would make this a slow test
			a.mu.Lock()
			a.say(b)
			a.mu.Unlock()
			continue
		}
		must(t, a.Add(b, epoch))
	}
	if s := a.Shared.Stats(); s.Waiting != maxOutbox || a.Dropped() != 2 {
		t.Errorf("%+v", s)
	}
}

// A flood of offences leaves every list within its bounds.
func TestAFloodIsBounded(t *testing.T) {
	needs.Unwatched(t)
	a, b := newMember(t, Options{Max: 100}), newMember(t, Options{Max: 50})
	for i := range 20_000 {
		source := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		must(t, a.Offend(Offence{Client: fmt.Sprint(i), Source: source}, epoch.Add(time.Duration(i))))
		if i%5000 == 0 {
			b.hears(t, epoch.Add(time.Duration(i)), a.take(t)...)
		}
	}
	b.hears(t, minutes(1), a.take(t)...)
	b.hears(t, minutes(1), a.snapshot(minutes(1))...)
	if s := b.List.Stats(); s.Clients+s.Networks != 50 || s.Suspects > 50 {
		t.Errorf("%+v", s)
	}
}

// As many lifts are remembered as the list has entries. The one that ends soonest goes first, in the store too.
func TestLiftsAreBounded(t *testing.T) {
	d := newDisk(t)
	m := newMember(t, Options{Max: 3})
	k := keep(t, m.List, d, epoch, nil)
	for i := range 4 {
		who := fmt.Sprint("client:", i)
		must(t, m.Add(byOperator(t, who, 0), minutes(i)))
		must(t, m.Remove(key(t, who), minutes(i)))
		if want := min(i+1, 3); m.List.Stats().Lifts != want {
			t.Errorf("%d lifts, want %d", m.List.Stats().Lifts, want)
		}
	}
	must(t, k.Flush(t.Context()))
	all, err := d.List(t.Context(), minutes(4))
	must(t, err)
	if len(all) != 3 || all[0].Client != "1" || strings.Contains(m.lifted(), "client:0") {
		t.Errorf("%v, %s", all, m.lifted())
	}
	short := fmt.Sprintf(`{"k":"lift","c":"x","t":%d,"u":%d}`, minutes(4).UnixNano(), minutes(5).UnixNano())
	m.hears(t, minutes(4), []byte(`{"v":1,"w":[`+short+`]}`)) // it ends before all others
	if strings.Contains(m.lifted(), "client:x") {
		t.Error(m.lifted())
	}
	must(t, m.Configure(Options{Max: 1}, minutes(4)))
	if got := m.lifted(); got != "client:3" {
		t.Error(got)
	}
	must(t, k.Flush(context.Background()))
}

// Words of a newer weir are left out and counted. Words that make no sense too, and those beside them hold.
func TestHearing(t *testing.T) {
	at := epoch.UnixNano()
	ahead := epoch.Add(maxAhead).UnixNano()
	for name, c := range map[string]struct {
		words              string
		want               string
		unknown, malformed uint64
	}{
		"a field more":     {fmt.Sprintf(`{"k":"offence","c":"x","t":%d,"zz":{"a":[1]}}`, at), "client:x", 0, 0},
		"an unknown kind":  {`{"k":"reach","s":17},{"k":"","c":5}`, "", 2, 0},
		"not a word":       {`17`, "", 0, 1},
		"a wrong type":     {`{"k":"ban","c":5}`, "", 0, 1},
		"nobody":           {fmt.Sprintf(`{"k":"offence","t":%d}`, at), "", 0, 1},
		"everybody":        {fmt.Sprintf(`{"k":"ban","p":"0.0.0.0/0","t":%d}`, at), "", 0, 1},
		"everybody else":   {fmt.Sprintf(`{"k":"listed","p":"::/0","t":%d,"u":%d}`, at, at+1e9), "", 0, 1},
		"both":             {fmt.Sprintf(`{"k":"ban","p":"10.0.0.0/8","c":"x","t":%d}`, at), "", 0, 1},
		"no time":          {`{"k":"ban","p":"10.0.0.0/8"}`, "", 0, 1},
		"a lift for ever":  {fmt.Sprintf(`{"k":"lift","p":"10.0.0.0/8","t":%d}`, at), "", 0, 1},
		"listed for ever":  {fmt.Sprintf(`{"k":"listed","c":"x","t":%d}`, at), "", 0, 1},
		"a clock ahead":    {fmt.Sprintf(`{"k":"ban","c":"x","t":%d}`, ahead), "client:x", 0, 0},
		"a clock too far":  {fmt.Sprintf(`{"k":"ban","c":"x","t":%d}`, ahead+1), "", 0, 1},
		"an offence ahead": {fmt.Sprintf(`{"k":"offence","c":"x","t":%d}`, ahead+1), "", 0, 1},
		"marks ahead":      {fmt.Sprintf(`{"k":"suspect","p":"10.0.0.1/32","m":[{"c":1,"t":%d}]}`, ahead+1), "", 0, 1},
		"an old offence":   {fmt.Sprintf(`{"k":"offence","c":"x","t":%d}`, at-int64(time.Hour)), "", 0, 0},
		"before the epoch": {`{"k":"offence","c":"x","t":-5}`, "", 0, 1},
		"a long id":        {fmt.Sprintf(`{"k":"ban","c":"%0257d","t":%d}`, 1, at), "", 0, 1},
		"a long reason":    {fmt.Sprintf(`{"k":"offence","c":"x","r":"%0513d","t":%d}`, 1, at), "", 0, 1},
		"IPv4 in IPv6":     {fmt.Sprintf(`{"k":"ban","p":"::ffff:10.0.0.0/104","t":%d}`, at), "", 0, 1},
		"too many marks": {fmt.Sprintf(`{"k":"suspect","p":"10.0.0.1/32","m":[%s{"c":1,"t":1}]}`,
			strings.Repeat(`{"c":1,"t":1},`, 100)), "", 0, 1},
		"the others hold": {fmt.Sprintf(`17,{"k":"ban","c":"x","t":%d}`, at), "client:x", 0, 1},
		"an old word":     {fmt.Sprintf(`{"k":"ban","c":"x","t":%d,"u":%d}`, at-9, at-5), "", 0, 0},
		"longer than a ttl": {fmt.Sprintf(`{"k":"listed","c":"x","t":%d,"u":%d}`, at, int64(1<<63-1)),
			"client:x", 0, 0},
	} {
		m := newMember(t, Options{})
		err := m.Hear([]byte(`{"v":1,"w":[`+c.words+`]}`), epoch)
		if (err != nil) != (c.malformed > 0) {
			t.Errorf("%s: %v", name, err)
		}
		s := m.Shared.Stats()
		if got := names(m.List, epoch); got != c.want || s.Unknown != c.unknown || s.Malformed != c.malformed {
			t.Errorf("%s: %q, want %q, %+v", name, got, c.want, s)
		}
		for _, b := range m.All(epoch) {
			if !b.Operator && b.Until.Sub(epoch) > maxTTL {
				t.Errorf("%s: %+v", name, b)
			}
		}
	}
	m := newMember(t, Options{})
	for _, msg := range []string{"", "{}", `{"v":2,"w":[]}`, `{"v":1,"w":{}}`, "[]",
		`{"v":1,"w":[` + strings.Repeat(" ", parcel.Most) + `]}`} {
		if err := m.Hear([]byte(msg), epoch); err == nil {
			t.Errorf("%.30q is taken", msg)
		}
	}
	if s := m.Shared.Stats(); s.Malformed != 6 {
		t.Errorf("%+v", s)
	}
}

// When sharing has ended, nothing is heard or told; a second call of Share ends the first.
func TestSharingEnds(t *testing.T) {
	a, b := newMember(t, Options{}), newMember(t, Options{})
	must(t, b.Add(byOperator(t, "client:x", 0), epoch))
	said := b.take(t)
	before := a.Shared
	a.share()
	if err := before.Hear(said[0], epoch); !errors.Is(err, ErrNotShared) {
		t.Error(err)
	}
	a.hears(t, epoch, said...)
	before.Close() // it is over already
	must(t, a.Add(byOperator(t, "client:y", 0), epoch))
	if len(a.sent) != 1 {
		t.Error("the second one has ended too")
	}
	a.Close()
	offend(t, a.List, "z", "", epoch)
	must(t, a.Remove(key(t, "client:y"), epoch))
	if err := a.Hear(said[0], epoch); !errors.Is(err, ErrNotShared) || len(a.take(t)) != 1 ||
		len(a.snapshot(epoch)) != 0 {
		t.Error(err, "shared still")
	}
	if a.lifted() != "" {
		t.Error("a lift is remembered for nobody")
	}
}

// Nothing that comes in may panic, exceed a bound, ban everybody, or ban for longer than a mechanism may.
func FuzzHear(f *testing.F) {
	at := epoch.UnixNano()
	for _, words := range []string{
		fmt.Sprintf(`{"k":"offence","c":"x","s":"192.0.2.1","t":%d}`, at),
		fmt.Sprintf(`{"k":"offence","s":"2001:db8::1%%eth0","t":%d,"m":[{"c":1,"t":%d},{"c":2,"t":%d}]}`, at, at, at),
		fmt.Sprintf(`{"k":"ban","p":"10.0.0.0/8","t":%d},{"k":"lift","p":"10.0.0.0/8","t":%d,"u":%d}`, at, at+1, at+9),
		fmt.Sprintf(`{"k":"listed","p":"192.0.2.1/32","t":%d,"u":%d,"l":%d}`, at, at+1e12, at+5),
		fmt.Sprintf(`{"k":"suspect","p":"192.0.2.1/32","m":[{"c":18446744073709551615,"t":%d}]}`, at),
		`{"k":"ban","p":"0.0.0.0/0","t":1},{"k":"listed","p":"::/0","t":1,"u":9223372036854775807}`,
		`{"k":"ban","c":"x","t":-9223372036854775808},{"k":"listed","c":"y","t":1,"u":9223372036854775807,"l":-1}`,
	} {
		f.Add([]byte(`{"v":1,"w":[` + words + `]}`))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		m := newMember(t, Options{Max: 4, AddressFrom: 2})
		for range 2 {
			_ = m.Hear(msg, epoch)
		}
		m.Advance(minutes(1))
		s := m.List.Stats()
		if s.Clients+s.Networks > 4 || s.Suspects > 4 || s.Lifts > 4 {
			t.Errorf("%+v", s)
		}
		for _, b := range m.All(epoch) {
			if b.Validate() != nil || b.Prefix.IsValid() && b.Prefix.Bits() == 0 ||
				!b.Operator && (b.Until.IsZero() || b.Until.Sub(minutes(1)) > maxTTL) {
				t.Errorf("%+v", b)
			}
		}
		for _, said := range m.snapshot(epoch) {
			if err := newMember(t, Options{}).Hear(said, epoch); err != nil || !json.Valid(said) {
				t.Errorf("%s: %v", said, err)
			}
		}
		if m.Due() {
			t.Error("an echo")
		}
	})
}

// keptBan returns what a store has of a key, or store.ErrNotFound.
func keptBan(ctx context.Context, s store.Bans, key store.BanKey, now time.Time) (store.Ban, error) {
	all, err := s.List(ctx, now)
	if i := slices.IndexFunc(all, func(b store.Ban) bool { return b.BanKey == key }); i >= 0 {
		return all[i], err
	}
	return store.Ban{}, cmp.Or(err, store.ErrNotFound)
}
