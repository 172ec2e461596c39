//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// TestLists: who is allowed, who is banned, for how long, and what does not fit.
func TestLists(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	newCable(t)
	o := onHost(t)
	o.Mode = Packets
	o.Bloom.Burst, o.Bloom.Rate = 1000, weir.Rate{Count: 1000, Per: time.Hour}
	o.Bloom.Attackers = 1000
	o.Ban = []netip.Prefix{netip.MustParsePrefix("198.18.9.0/24")}
	g, move := handClock(t, o, Env{})
	net := netip.MustParsePrefix
	counted := func(src string) string {
		t.Helper()
		before, _ := g.Counters()
		g.judge(t, synFrom(netip.MustParseAddr(src)))
		after, err := g.Counters()
		if err != nil {
			t.Fatal(err)
		}
		return after.minus(before)
	}
	expect := func(when string, want map[string]string) {
		t.Helper()
		for src, how := range want {
			if got := counted(src); got != how {
				t.Errorf("%s: %s counted as %s, want %s", when, src, got, how)
			}
		}
	}
	in := func(d time.Duration) time.Time { return g.env.Clock.Now().Add(d) }
	expect("at first", map[string]string{"198.18.9.1": "banned", "198.18.1.1": "passed", "fd00::9": "passed"})
	if err := errors.Join(
		g.Ban(net("198.18.1.0/24"), in(time.Hour)),
		g.Ban(net("198.18.1.1/32"), in(time.Minute)),
		g.Ban(net("198.18.1.128/25"), in(2*time.Hour)),
		g.Ban(net("::ffff:198.18.2.0/120"), time.Time{}),
		g.Ban(net("fd00:1::/32"), in(time.Minute)),
		g.Ban(net("198.18.3.0/24"), in(-time.Minute)), // over already
		g.Ban(net("::/0"), in(time.Minute)),           // of IPv6 only
		g.Allow(net("198.18.9.7/32"), in(time.Minute)),
	); err != nil {
		t.Fatal(err)
	}
	expect("banned", map[string]string{"198.18.1.1": "banned", "198.18.1.2": "banned", "198.18.1.200": "banned",
		"198.18.2.1": "banned", "fd00:1::7": "banned",
		"198.18.3.1": "passed", "fd00::9": "banned", "198.18.9.1": "banned", "198.18.9.7": "allowed",
		"198.18.5.1": "passed"})
	if bans, err := g.Bans(); err != nil || len(bans) != 7 {
		t.Errorf("bans %v, %v", bans, err)
	}

	// The kernel sees by itself what has expired, even when nobody takes it out; what is around it still holds.
	g.kernel.memory.state.Clock += uint64(2 * time.Minute)
	expect("expired", map[string]string{"198.18.1.1": "banned", "198.18.1.2": "banned", "fd00:1::7": "passed",
		"fd00::9": "passed", "198.18.9.7": "banned"})
	g.kernel.memory.state.Clock += uint64(time.Hour)
	expect("later", map[string]string{"198.18.1.1": "passed", "198.18.1.2": "passed", "198.18.1.200": "banned",
		"198.18.2.1": "banned"})

	move(2 * time.Minute)
	if bans, err := g.Bans(); err != nil ||
		fmt.Sprint(bans[0].Prefix, bans[1].Prefix, len(bans)) != "198.18.1.0/24 198.18.1.128/25 4" {
		t.Errorf("bans %v, %v", bans, err)
	}
	if n := len(g.kernel.ban.entries); n != 4 {
		t.Errorf("%d entries are left", n)
	}
	if allowed, err := g.Allowed(); err != nil || len(allowed) != 0 || g.kernel.memory.control()&controlAllow != 0 {
		t.Errorf("allowed %v, %v", allowed, err)
	}
	// The later end counts.
	if err := errors.Join(g.Ban(net("198.18.1.0/24"), in(time.Second)),
		g.Ban(net("198.18.9.0/24"), in(time.Second))); err != nil {
		t.Fatal(err)
	}
	move(time.Minute)
	expect("banned twice", map[string]string{"198.18.1.2": "banned", "198.18.9.1": "banned"})
	if err := errors.Join(g.Unban(net("198.18.1.0/24")), g.Unban(net("198.18.77.0/24"))); err != nil {
		t.Fatal(err)
	}
	expect("unbanned", map[string]string{"198.18.1.2": "passed"})
	if err := g.Unban(net("198.18.9.0/24")); !errors.Is(err, ErrStatic) {
		t.Errorf("unban what is configured: %v", err)
	}
	if err := g.Ban(netip.Prefix{}, time.Time{}); err == nil {
		t.Error("banned nothing")
	}
}

// TestListBound: one network more than a list holds is refused by name, and what is on it stays.
func TestListBound(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	newCable(t)
	g, _ := handClock(t, onHost(t), Env{})
	nth := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
	}
	for i := range MaxEntries {
		if err := g.Ban(nth(i), time.Time{}); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := g.Ban(nth(MaxEntries), time.Time{}); !errors.Is(err, ErrListFull) {
		t.Errorf("one more: %v", err)
	}
	if err := g.Ban(nth(0), time.Time{}); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	if err := g.Unban(nth(7)); err != nil {
		t.Fatal(err)
	}
	if err := g.Ban(nth(MaxEntries), time.Time{}); err != nil {
		t.Errorf("after one was taken off: %v", err)
	}
}
