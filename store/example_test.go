package store_test

import (
	"fmt"
	"time"

	"weir/store"
)

// A ban says who is not served, why, who decided it and until when. What keeps it is in store/sqlite.
func ExampleBan() {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	key, err := store.ParseBanKey("192.0.2.77/24")
	if err != nil {
		fmt.Println(err)
		return
	}
	ban := store.Ban{BanKey: key, Reason: "scraper", By: "alice", Operator: true, Since: now, Until: now.Add(time.Hour)}
	fmt.Println(ban.BanKey, ban.Validate(), ban.Holds(now), ban.Holds(now.Add(time.Hour)))
	// Output: 192.0.2.0/24 <nil> true false
}

// The id of a mail is what logs and operators call it. Later mails have greater ones.
func ExampleMailIDs() {
	ids := store.MailIDs{}
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	first, second := ids.Next(now), ids.Next(now)
	read, err := store.ParseMailID("6eawtv6000001")
	fmt.Println(first, second > first, read == first, err)
	// Output: 6EAWTV6000001 true true <nil>
}
