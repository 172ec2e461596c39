package ban

import (
	"net/netip"
	"testing"
	"time"

	"weir"
	"weir/identify"
	"weir/policy"
	"weir/store"
)

func TestAsAThrottle(t *testing.T) {
	l := newList(t, Options{})
	offend(t, l, "a", "", epoch)
	must(t, l.Add(byOperator(t, "192.0.2.0/24", 0), epoch))
	chain, err := policy.New([]*policy.Link{policy.NewLink("bans", l, policy.Closed)}, nil)
	must(t, err)
	ask := func(client, source string) *weir.Answer {
		ev := weir.Event{Time: epoch, Client: client, Account: "a"} // the account is not the client
		if source != "" {
			ev.Source = netip.MustParseAddr(source)
		}
		var p policy.Pass
		chain.Judge(t.Context(), &ev, &p)
		defer p.Settle(weir.Outcome{Time: epoch, Done: true})
		_, why := chain.Explain(&ev)
		if why.Verdict != p.Answer.Verdict || why.Rule != p.Answer.Rule {
			t.Errorf("explained as %s, judged %s", why.Explain(), p.Answer.Explain())
		}
		return &p.Answer
	}
	if a := ask("b", "198.51.100.1"); a.Verdict != weir.Admit {
		t.Error(a.Explain())
	}
	if a := ask("", ""); a.Verdict != weir.Admit {
		t.Error(a.Explain())
	}
	a := ask("a", "198.51.100.1")
	if a.Verdict != weir.Refuse || a.Reason != weir.Banned || a.By != "bans" || a.Rule != RuleClient ||
		!a.Until.Equal(epoch.Add(time.Hour)) || !a.Reset.Equal(a.Until) {
		t.Error(a.Explain())
	}
	if got := a.Explain(); got != "refuse by bans/client (banned), until 2026-03-02T13:00:00.000Z" {
		t.Error(got)
	}
	if a := ask("b", "192.0.2.7"); a.Verdict != weir.Refuse || a.Reason != weir.Banned || a.Rule != RuleNetwork ||
		!a.Until.IsZero() || !a.Reset.IsZero() {
		t.Error(a.Explain())
	}

	door := policy.NewDoor(chain, nil)
	if door.Admit(netip.MustParseAddr("192.0.2.7"), epoch) || !door.Admit(netip.MustParseAddr("198.51.100.1"), epoch) {
		t.Error("a door asks the list")
	}
}

func TestLookingUpAllocatesNothing(t *testing.T) {
	l := newList(t, Options{})
	offend(t, l, "a", "", epoch)
	must(t, l.Add(byOperator(t, "192.0.2.0/24", 0), epoch))
	must(t, l.Add(byOperator(t, "2001:db8::/32", 0), epoch))
	for what, ev := range map[string]weir.Event{
		"client":  {Time: epoch, Client: "a"},
		"network": {Time: epoch, Client: "b", Source: netip.MustParseAddr("::ffff:192.0.2.1")},
		"nobody":  {Time: epoch, Client: "b", Source: netip.MustParseAddr("2001:db9::1")},
	} {
		var a weir.Answer
		n := testing.AllocsPerRun(1000, func() {
			a.Clear()
			_ = l.Judge(t.Context(), &ev, &a)
		})
		if n != 0 || (a.Verdict == weir.Refuse) != (what != "nobody") {
			t.Errorf("%s: %s, %v allocations", what, a.Explain(), n)
		}
	}
}

// TestBanOfASource: a ban of the network refuses, and an exemption lets off. Where the source is not known, nothing
// exempts it.
func TestBanOfASource(t *testing.T) {
	exempt := []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("10.0.0.0/8")}
	l := newList(t, Options{Exempt: exempt, AddressFrom: 1})
	must(t, l.Add(byOperator(t, "192.0.2.0/24", 0), epoch))
	// by mechanisms, before a reload
	for _, prefix := range []string{"203.0.113.0/24", "198.51.100.0/24", "10.0.0.0/8"} {
		must(t, l.Add(store.Ban{BanKey: store.BanKey{Prefix: netip.MustParsePrefix(prefix)}, Reason: "forged",
			By: "stamps"}, epoch))
	}
	for _, c := range []struct {
		source  string
		unknown bool
		banned  bool
	}{
		{"", false, false},
		{"100.64.0.1", false, false},
		{"192.0.2.1", false, true},
		{"203.0.113.1", false, true},
		{"198.51.100.1", false, false}, // exempt
		{"10.0.0.1", true, true},       // the proxy is, but it is not the client
		{"100.64.0.1", true, false},
	} {
		ev := weir.Event{Time: epoch, SourceUnknown: c.unknown}
		if c.source != "" {
			ev.Source = netip.MustParseAddr(c.source)
		}
		var a weir.Answer
		must(t, l.Judge(t.Context(), &ev, &a))
		if (a.Verdict == weir.Refuse) != c.banned {
			t.Errorf("%+v: %s", c, a.Explain())
		}
		if n := testing.AllocsPerRun(100, func() { a.Clear(); _ = l.Judge(t.Context(), &ev, &a) }); n != 0 {
			t.Errorf("%+v: %v allocations", c, n)
		}
	}
}

// TestAnIdAtAnAddress: what a mechanism holds against the id of a cookie holds at its address. An operator's ban of the
// id holds everywhere.
func TestAnIdAtAnAddress(t *testing.T) {
	l := newList(t, Options{})
	id, _ := identify.NewClients(nil).New(epoch)
	here, there := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.9")
	must(t, l.Offend(Offence{Client: identify.ClientAt(id, there), Source: there}, epoch))
	for _, c := range []struct {
		client string
		source netip.Addr
		want   bool
	}{{id, there, true}, {id, here, false}, {"", there, false}, {id, netip.Addr{}, false}} {
		if _, banned := l.Find(c.client, c.source, epoch); banned != c.want {
			t.Errorf("%q at %s: %t", c.client, c.source, banned)
		}
	}
	must(t, l.Add(store.Ban{BanKey: store.BanKey{Client: id}, Operator: true, Since: epoch}, epoch))
	if _, banned := l.Find(id, here, epoch); !banned {
		t.Error("an operator's ban of the id does not hold")
	}
}
