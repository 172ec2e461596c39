package stamp_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir"
	"weir/throttle/stamp"
)

// A server asks for work, a client pays, and pays only once.
func Example() {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	ctx := context.Background()
	issuer, err := stamp.New(stamp.Options{}, now)
	if err != nil {
		fmt.Println(err)
		return
	}

	page := stamp.ID("GET", "https://example.com/search?q=weir", "")
	challenge, err := issuer.Issue(now, stamp.Ask{Work: stamp.Bits(12), Lifetime: 5 * time.Minute, Client: "c42",
		Message: page})
	if err != nil {
		fmt.Println(err)
		return
	}

	paid, err := stamp.Solve(ctx, challenge, stamp.SolveOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}

	receipt, err := issuer.Verify(ctx, now.Add(time.Second), paid, stamp.Demand{Client: "c42", Message: page})
	fmt.Println(receipt.Algorithm, receipt.Work, err)
	_, err = issuer.Verify(ctx, now.Add(time.Second), paid, stamp.Demand{Client: "c42", Message: page})
	fmt.Println(errors.Is(err, stamp.ErrReplayed))
	// Output:
	// sha256-k 12 bits <nil>
	// true
}

// The work that is asked for follows the delay of those who paid.
func ExampleDifficulty() {
	d := stamp.Options{}.Difficulty()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	var s stamp.State
	for _, m := range []struct {
		load  float64
		delay time.Duration
	}{{0.5, 0}, {0.95, 0}, {1, 900 * time.Millisecond}, {1, 150 * time.Millisecond}, {1, 20 * time.Millisecond}} {
		s = d.Next(s, now, weir.Share(m.load), m.delay)
		fmt.Println(s.Work)
		now = now.Add(time.Second)
	}
	// Output:
	// 0
	// 16 bits
	// 19 bits
	// 19 bits
	// 349526
}

// A mail client stamps a message for each recipient, knowing only what the server publishes.
func ExampleMailStamp() {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	ctx := context.Background()
	issuer, err := stamp.NewMailIssuer(stamp.MailOptions{Algorithm: stamp.SHA256K, Work: stamp.Bits(10)}, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	binding := stamp.MailBinding{Message: "sha256:9f86d081884c7d65", Recipient: "bob@example.net"}
	s, err := stamp.MailStamp(ctx, issuer.Params(now), binding, stamp.SolveOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(issuer.VerifyEach(ctx, now, []string{s}, binding, []string{"bob@example.net", "eve@example.net"}))
	// Output:
	// [<nil> stamp: of another client, message or recipient]
}
