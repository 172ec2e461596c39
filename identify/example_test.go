package identify_test

import (
	"fmt"
	"net/netip"
	"time"

	"weir"
	"weir/identify"
)

// Unsure has DNS asked. Until Confirm tells the answer, a bot is like any other client.
func ExampleExempt() {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	g, err := identify.NewExempt(identify.ExemptOptions{
		Paths: []string{"/healthz", "/webhooks/*"},
		Bots:  []identify.Bot{{Name: "google", Agent: "Googlebot", Domains: []string{"googlebot.com"}}},
	}, nil) // os.ReadFile, where there are files
	if err != nil {
		fmt.Println(err)
		return
	}
	g.Unsure(func(addr netip.Addr) { fmt.Println("who is", addr) })

	crawler := weir.Event{Time: now, Source: netip.MustParseAddr("66.249.66.1"), Agent: "Googlebot/2.1",
		Route: weir.Route{Path: "/"}}
	fmt.Println(g.Known(&crawler))
	g.Confirm(crawler.Source, []string{"crawl-66-249-66-1.googlebot.com"}, now)
	fmt.Println(g.Known(&crawler))
	// Output:
	// who is 66.249.66.1
	// false
	// true
}

func ExampleClients() {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	c := identify.NewClients([]byte("the same on all nodes"))
	id, cookie := c.New(now)
	read, err := c.Read(cookie, now.AddDate(1, 0, 0))
	fmt.Println(read == id, err)
	_, err = c.Read(cookie[:len(cookie)-1]+"!", now)
	fmt.Println(err)
	fmt.Println(identify.AddressID(netip.MustParseAddr("2001:db8:1:2:3::4")))
	// Output:
	// true <nil>
	// not the cookie of a client
	// @2001:db8:1:2::
}
