package ban_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"weir"
	"weir/store"
	"weir/store/sqlite"
	"weir/throttle/ban"
)

// Three clients behind one address forge stamps: each is banned, and with the third the address.
func Example() {
	list, err := ban.New(ban.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	now, office := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), netip.MustParseAddr("192.0.2.1")
	ask := func(client string) {
		var a weir.Answer
		_ = list.Judge(context.Background(), &weir.Event{Time: now, Client: client, Source: office}, &a)
		fmt.Println(client+":", a.Explain())
	}
	for i, client := range []string{"c1", "c2", "c3"} {
		if err := list.Offend(ban.Offence{Client: client, Source: office, Reason: "forged stamp", By: "stamp"},
			now); err != nil {
			fmt.Println(err)
		}
		if i == 1 {
			ask("c1")
			ask("innocent")
		}
	}
	ask("innocent")
	for _, b := range list.All(now) {
		fmt.Println(b.BanKey, "-", b.Reason)
	}
	// Output:
	// c1: refuse by client (banned), until 2026-03-02T13:00:00.000Z
	// innocent: admit
	// innocent: refuse by network (banned), until 2026-03-02T13:00:00.000Z
	// 192.0.2.1 - 3 clients: forged stamp
	// client:c1 - forged stamp
	// client:c2 - forged stamp
	// client:c3 - forged stamp
}

// The list is kept over restarts, and whoever wants to know is told what happens to it.
func ExampleList_Keep() {
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	ctx, now := context.Background(), time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for range 2 {
		s, err := sqlite.Open(ctx, sqlite.Options{Folder: folder})
		if err != nil {
			fmt.Println(err)
			return
		}
		list, _ := ban.New(ban.Options{})
		list.Watch(func(c ban.Change) { fmt.Println(c.What, c.Ban.BanKey, "by", c.Ban.By) })
		keeper, err := list.Keep(ctx, s.Bans(), now, func(err error) { fmt.Println("the store:", err) })
		if err != nil {
			fmt.Println(err)
			return
		}
		if key, _ := store.ParseBanKey("198.51.100.0/24"); len(list.All(now)) == 0 {
			_ = list.Add(store.Ban{BanKey: key, Reason: "scraper", By: "alice", Operator: true}, now)
		}
		_, _ = keeper.Close(ctx), s.Close() // in this order
	}
	// Output:
	// added 198.51.100.0/24 by alice
	// added 198.51.100.0/24 by alice
}
