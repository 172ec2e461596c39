package middleware_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"google.golang.org/grpc"

	"weir"
	"weir/middleware"
	"weir/policy"
	"weir/throttle/quota"
)

// Two requests a day for each API key.
func ExampleLimiter_Handler() {
	q, err := quota.New(quota.Options{Policies: []quota.Policy{
		{Name: "daily", Limit: quota.Count(2), Period: weir.Period{Length: 24 * time.Hour}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := middleware.New(middleware.Options{
		Throttles: []weir.Throttle{q},
		Account:   []string{"header:X-Api-Key"},
	})
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	server := httptest.NewServer(limit.Handler(hello))
	defer server.Close()

	for range 3 {
		r, _ := http.NewRequest("GET", server.URL, nil)
		r.Header.Set("X-Api-Key", "acme")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		_ = res.Body.Close()
		fmt.Println(res.StatusCode, res.Header.Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "daily";q=2;w=86400
	// 200 "daily";q=2;w=86400
	// 429 "daily";q=2;w=86400
}

// A program that knows its users says so itself. A limit in shadow counts, and admits everything.
func ExampleNew() {
	q, err := quota.New(quota.Options{
		Policies: []quota.Policy{{Name: "daily", Limit: quota.Count(1), Period: weir.Period{Length: 24 * time.Hour}}},
		Plans:    map[string]map[string]quota.Override{"gold": {"daily": {Exempt: true}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	link := policy.NewLink("plans", q, policy.Open)
	chain, err := policy.New([]*policy.Link{link}, func(name string, err error) { log.Println(name, err) })
	if err != nil {
		log.Fatal(err)
	}
	type user struct{ name, plan string }
	type key struct{}
	limit, err := middleware.New(middleware.Options{
		Chain: chain,
		Identify: func(ctx context.Context, ev *weir.Event) error {
			if u, ok := ctx.Value(key{}).(user); ok {
				ev.Account, ev.Plan = u.name, u.plan
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(u user) {
		r := httptest.NewRequest("GET", "/", nil)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, u)))
		fmt.Println(u.name, w.Code)
	}
	ask(user{"ann", ""})
	ask(user{"ann", ""})
	ask(user{"bob", "gold"})
	ask(user{"bob", "gold"})
	link.Shadow.Store(true)
	ask(user{"ann", ""})
	// Output:
	// ann 200
	// ann 429
	// bob 200
	// bob 200
	// ann 200
}

// The same limits for calls of gRPC.
func ExampleLimiter_Unary() {
	q, err := quota.New(quota.Options{Policies: []quota.Policy{
		{Name: "per-second", Limit: quota.Count(10), Period: weir.Period{Length: time.Second}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := middleware.New(middleware.Options{
		Throttles: []weir.Throttle{q},
		Account:   []string{"header:x-api-key", "source"}, // of the metadata; else the address
	})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(limit.Unary), grpc.StreamInterceptor(limit.Stream))
	defer server.Stop()
	fmt.Println(len(server.GetServiceInfo()))
	// Output: 0
}
