package admission_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"weir"
	"weir/admission"
)

// One request at a time: who paid goes before who did not, and a place that becomes free is never given to a newcomer.
func Example() {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	lanes, err := admission.New(admission.Options{Concurrent: 1}, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	ask := func(work uint64) (weir.Hold, weir.Answer) {
		ev := weir.Event{Time: now, Source: netip.MustParseAddr("192.0.2.1")}
		if work > 0 { // as the throttle that takes stamps would
			ev.Purse = weir.NewPurse(func(context.Context, *weir.Event) (weir.Paid,
				func()) {
				return weir.Paid{Work: work}, nil
			})
			ev.Purse.Open(context.Background(), &ev)
		}
		var a weir.Answer
		_ = lanes.Judge(context.Background(), &ev, &a)
		h := a.Hold
		a.Clear()
		lanes.Enter(&h, now, &a)
		return h, a
	}
	first, a := ask(0)
	fmt.Println("first:", a.Verdict)
	_, plain := ask(0)
	fmt.Println("second:", plain.Verdict)
	_, paid := ask(1 << 20)
	fmt.Println("paid:", paid.Verdict)

	now = now.Add(2 * time.Second)
	lanes.Settle(first, weir.Outcome{Time: now, Done: true})
	select {
	case <-paid.Turn.Called():
		fmt.Println("the one who paid is next")
	case <-plain.Turn.Called():
		fmt.Println("the one who did not pay is next")
	}
	now = now.Add(time.Second / 10)
	share, delay := lanes.Load(now)
	fmt.Printf("load %s, those who paid wait for %s\n", share.Rounded(), delay)
	// Output:
	// first: admit
	// second: wait
	// paid: wait
	// the one who paid is next
	// load 290%, those who paid wait for 2s
}

// A waiting room: a ticket, a place in line, and the turn.
func ExampleLanes_Present() {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	lanes, err := admission.New(admission.Options{Concurrent: 10}, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	tickets := admission.NewTickets([]byte("a secret of the deployment"))
	cookie := tickets.Sign(lanes.Issue("client-1", now)) // with the page that says: wait

	now = now.Add(5 * time.Second) // the page reloads
	ticket, err := tickets.Parse(cookie, "client-1", now)
	if err != nil {
		fmt.Println(err)
		return
	}
	standing := lanes.Present(ticket.Number, netip.MustParseAddr("192.0.2.1"), 50, now)
	fmt.Println(standing.State)
	_, err = tickets.Parse(cookie, "client-2", now)
	fmt.Println(err)
	_, err = tickets.Parse(cookie, "client-1", now.Add(time.Minute))
	fmt.Println(err)
	// Output:
	// called
	// ticket: of another client
	// ticket: lapsed
}
