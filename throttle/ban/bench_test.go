package ban

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"weir"
	"weir/store"
)

// full returns a list of 100,000 bans: nine of ten are clients, the others addresses and some networks.
func full(b *testing.B) *List {
	l := newList(b, Options{})
	for i := range 90_000 {
		must(b, l.Add(store.Ban{BanKey: store.BanKey{Client: fmt.Sprint("client-", i)}}, epoch))
	}
	for i := range 9_900 {
		must(b, l.Add(store.Ban{BanKey: store.BanKey{Prefix: netip.PrefixFrom(address(i), 32)}}, epoch))
	}
	for i := range 100 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{172, byte(i), 0, 0}), 16+i%9)
		must(b, l.Add(store.Ban{BanKey: store.BanKey{Prefix: p}, Operator: true}, epoch))
	}
	return l
}

func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// BenchmarkFind looks people up in a list of 100,000. networks=10 has networks of 10 different lengths, which all have
// to be tried for somebody who is not banned.
func BenchmarkFind(b *testing.B) {
	l := full(b)
	few := newList(b, Options{})
	must(b, few.Add(store.Ban{BanKey: store.BanKey{Prefix: netip.MustParsePrefix("10.0.0.1/32")}}, epoch))
	must(b, few.Add(store.Ban{BanKey: store.BanKey{Client: "x"}}, epoch))
	var ids [1024]string
	for i := range ids {
		ids[i] = fmt.Sprint("client-", i*80)
	}
	for _, c := range []struct {
		name   string
		list   *List
		client func(i int) string
		source func(i int) netip.Addr
		want   bool
	}{
		{"client", l, func(i int) string { return ids[i%1024] }, address, true},
		{"address", l, func(int) string { return "nobody" }, func(i int) netip.Addr { return address(i % 9_900) },
			true},
		{"nobody/networks=10", l, func(int) string { return "nobody" },
			func(i int) netip.Addr { return address(1<<20 + i%1000) }, false},
		{"nobody/networks=1", few, func(int) string { return "nobody" },
			func(i int) netip.Addr { return address(1<<20 + i%1000) }, false},
		{"nobody/empty", newList(b, Options{}), func(int) string { return "nobody" }, address, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, found := c.list.Find(c.client(i), c.source(i), epoch); found != c.want {
					b.Fatal("wrong")
				}
			}
		})
	}
	b.Run("client/parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				l.Find(ids[i%1024], netip.Addr{}, epoch)
			}
		})
	})
}

// BenchmarkJudge judges somebody who is not banned, as for every request: with a full list, and with the empty one that
// most have.
func BenchmarkJudge(b *testing.B) {
	for name, l := range map[string]*List{"full": full(b), "empty": newList(b, Options{})} {
		b.Run(name, func(b *testing.B) {
			ev, a := weir.Event{Time: epoch, Client: "nobody", Source: netip.MustParseAddr("192.0.2.1")}, weir.Answer{}
			b.ReportAllocs()
			for b.Loop() {
				a.Clear()
				_ = l.Judge(context.Background(), &ev, &a)
			}
		})
	}
}

// BenchmarkOffend bans clients that were never seen, one address each, with a list that is full: each pushes another
// one out.
func BenchmarkOffend(b *testing.B) {
	l := full(b)
	now := epoch
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now = now.Add(time.Microsecond)
		must(b, l.Offend(Offence{Client: fmt.Sprint("new-", i), Source: address(i), Reason: "forged stamp",
			By: "stamp"}, now))
	}
}
