package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"weir/store"
	"weir/store/sqlite"
)

// A ban is kept until it is over, or removed.
func Example() {
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	ctx, now := context.Background(), time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	s, err := sqlite.Open(ctx, sqlite.Options{Folder: folder})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	key, _ := store.ParseBanKey("192.0.2.77/24")
	ban := store.Ban{BanKey: key, Reason: "scraper", By: "alice", Operator: true, Since: now, Until: now.Add(time.Hour)}
	if err := s.Bans().Put(ctx, ban); err != nil {
		fmt.Println(err)
		return
	}
	all, err := s.Bans().List(ctx, now)
	for _, b := range all {
		fmt.Println(b.BanKey, "until", b.Until.Format(time.TimeOnly), "by", b.By, err)
	}
	all, err = s.Bans().List(ctx, now.Add(time.Hour))
	fmt.Println(len(all), err)
	// Output:
	// 192.0.2.0/24 until 13:00:00 by alice <nil>
	// 0 <nil>
}

// What an account has used in a month is there after a restart.
func ExampleStore_Counters() {
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	ctx, now := context.Background(), time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	march := store.Counter{
		Throttle: "plans", Rule: "monthly requests fixed month", Account: "acme",
		Period: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, used := range []int64{100, 250} {
		s, err := sqlite.Open(ctx, sqlite.Options{Folder: folder})
		if err != nil {
			fmt.Println(err)
			return
		}
		err = s.Counters().Load(ctx, now, func(c store.Counter) error {
			fmt.Println(c.Account, "has used", c.Used)
			return nil
		})
		march.Used = used
		fmt.Println(errors.Join(err, s.Counters().Save(ctx, []store.Counter{march}), s.Close()))
	}
	// Output:
	// <nil>
	// acme has used 100
	// <nil>
}

// A mail and what the throttle remembers of its sender are safe together: both, or none.
func ExampleStore_Mail() {
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	ctx, now := context.Background(), time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	s, err := sqlite.Open(ctx, sqlite.Options{Folder: folder})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	staged := s.Mail().Stage()
	defer staged.Discard() // does nothing once a mail has the text
	fmt.Fprint(staged, "Subject: Hello\r\n\r\nHow are you?\r\n")
	text, err := staged.Seal()
	if err != nil {
		fmt.Println(err)
		return
	}
	message := store.Message{ID: 1, Gate: "submission", User: "ann", Sender: "ann@example.org", Subject: "Hello",
		Received: now}
	to := []store.Addressee{{Address: "bob@example.org", State: store.Ready, Due: now}}
	err = s.Mail().Update(ctx, func(tx store.MailTx) error {
		memory, err := tx.Remembered("outgoing", "ann")
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		// as the throttle says
		memory = store.Memory{Throttle: "outgoing", User: "ann", State: append(memory.State, "bob"...)}
		return errors.Join(tx.Remember(memory), tx.PutMessage(message, text, to))
	})
	fmt.Println(err)
	err = s.Mail().View(ctx, func(tx store.MailTx) error {
		ready, err := tx.Ready(now, false, 10)
		for _, a := range ready {
			fmt.Println(a.Mail, a.Address, a.State)
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// <nil>
	// 0000000000001 bob@example.org ready
	// <nil>
}
