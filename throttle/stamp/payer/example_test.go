package payer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"weir/throttle/stamp"
	"weir/throttle/stamp/payer"
)

// A client that pays does not notice that it was asked to.
func ExampleTransport() {
	issuer, err := stamp.New(stamp.Options{}, time.Time{})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A gate in front of a service, which is overloaded.
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := issuer.Verify(r.Context(), time.Now(), r.Header.Get("Stamp"), stamp.Demand{Covers: 50})
		if err == nil {
			fmt.Fprint(w, "what you wanted")
			return
		}
		challenge, _ := issuer.Issue(time.Now(), stamp.Ask{Work: stamp.Bits(12), Lifetime: 5 * time.Minute})
		w.Header().Set("Stamp-Challenge", challenge)
		http.Error(w, "pay first", http.StatusServiceUnavailable)
	}))
	defer gate.Close()

	client := &http.Client{Transport: &payer.Transport{
		Paid: func(_ string, p payer.Payment) { fmt.Println("paid:", p.Work, "of", p.Algorithm) },
	}}
	for range 2 {
		resp, err := client.Get(gate.URL)
		if errors.Is(err, payer.ErrTooDear) {
			fmt.Println("another time, then")
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, string(body))
	}
	// Output:
	// paid: 12 bits of sha256-k
	// 200 what you wanted
	// 200 what you wanted
}

// A mail gets a stamp for each recipient before it goes to sendmail.
func ExampleMail() {
	issuer, err := stamp.NewMailIssuer(stamp.MailOptions{Algorithm: stamp.SHA256K, Work: stamp.Bits(10)}, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	m,
		err := payer.ReadMail(strings.NewReader("From: alice@example.org\nTo: bob@example.net\nBcc: " +
		"carol@example.net\n\nHello!\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	// The parameters are what the server publishes.
	paid, err := m.Stamp(context.Background(), time.Now(), issuer.Params(time.Now()), nil, payer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(paid.Recipients)
	if _, err := m.WriteTo(io.Discard); err != nil { // to sendmail -t, which takes Bcc out
		fmt.Fprintln(os.Stderr, err)
	}
	// Output:
	// [bob@example.net carol@example.net]
}
