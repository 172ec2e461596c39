package flood

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/throttle/stamp"
)

// A wire is a handler that is asked without a network, so that time can be in the test's hand.
type wire func(w http.ResponseWriter, r *http.Request) error

// RoundTrip implements http.RoundTripper.
func (h wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if err := h(w, r); err != nil {
		return nil, err
	}
	return w.Result(), r.Context().Err()
}

// visitOnce lets one visitor look at a page. It returns what became of them, and after what time.
func visitOnce(t *testing.T, g group, h wire) (result, time.Duration, *tally) {
	t.Helper()
	o := Options{Reload: 1900 * time.Millisecond}.WithDefaults() // nothing falls due as patience ends
	tally := newTally(o)
	patience := o.Patience
	if g == without {
		patience = o.Patient
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := &crowd{front: "front", proxy: h, reload: o.Reload, tally: tally, solver: newHere()}
	res := c.visitor(g, 0).view(ctx, o.WarmUp)
	return res, time.Since(began), tally
}

// TestPeoplePay: a challenge is paid at once, and the request sent again with the stamp and the cookies.
func TestPeoplePay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer, err := stamp.New(stamp.Options{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		res, took, tally := visitOnce(t, people, func(w http.ResponseWriter, r *http.Request) error {
			asked++
			from := r.Header.Get("X-Forwarded-For")
			if r.Header.Get("Accept") != acceptData || from != "198.19.0.1" {
				t.Errorf("headers %v", r.Header)
			}
			paid := r.Header.Get(stampHeader)
			if paid == "" {
				challenge, err := issuer.Issue(time.Now(),
					stamp.Ask{Algorithm: stamp.SHA256K, Work: 1000, Lifetime: time.Minute, Client: from})
				if err != nil {
					return err
				}
				w.Header().Set(challengeHeader, challenge)
				w.Header().Set("Retry-After", "5")
				http.SetCookie(w, &http.Cookie{Name: "ticket", Value: "7", Path: "/"})
				w.WriteHeader(http.StatusServiceUnavailable)
				return nil
			}
			if _, err := issuer.Verify(r.Context(), time.Now(), paid,
				stamp.Demand{Client: from, Covers: 1}); err != nil {
				t.Errorf("the stamp is not good: %v", err)
			}
			if c, err := r.Cookie("ticket"); err != nil || c.Value != "7" {
				t.Errorf("the cookie is gone: %v", err)
			}
			return nil
		})
		if res != served || took != 0 || asked != 2 {
			t.Errorf("result %d after %s, asked %d times", res, took, asked)
		}
		if len(tally.paid) != 1 || tally.paid[0].work != 1000 {
			t.Errorf("paid %+v", tally.paid)
		}
	})
}

// TestPeoplePayOnce: somebody who looks at several pages at once pays for all of them together, and again when that is
// used up.
func TestPeoplePayOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages, covers = 7, 4
		issuer, err := stamp.New(stamp.Options{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		h := func(w http.ResponseWriter, r *http.Request) error {
			_, err := issuer.Verify(r.Context(), time.Now(), r.Header.Get(stampHeader),
				stamp.Demand{Client: "c", Covers: covers})
			if err == nil {
				return nil
			}
			challenge, err := issuer.Issue(time.Now(), stamp.Ask{Work: 500, Lifetime: time.Minute, Client: "c"})
			w.Header().Set(challengeHeader, challenge)
			w.WriteHeader(http.StatusServiceUnavailable)
			return err
		}
		o := Options{}.WithDefaults()
		tally := newTally(o)
		c := &crowd{front: "front", proxy: wire(h), reload: o.Reload, tally: tally, solver: newHere()}
		v := c.visitor(people, 0)
		ctx, cancel := context.WithTimeout(t.Context(), o.Patience)
		defer cancel()
		var all sync.WaitGroup
		for range pages {
			all.Go(func() {
				if res := v.view(ctx, o.WarmUp); res != served {
					t.Errorf("result %d", res)
				}
			})
		}
		all.Wait()
		if len(tally.paid) != 2 {
			t.Errorf("%d stamps for %d pages, %d for each", len(tally.paid), pages, covers)
		}
	})
}

// TestPeopleReload: people come again when they are told to, or after a while, until their patience ends.
func TestPeopleReload(t *testing.T) {
	answer := func(status int, header, value, body string) wire {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set(header, value)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return nil
		}
	}
	for name, c := range map[string]struct {
		group group
		wire  wire
		tries int
		want  result
		took  time.Duration
	}{
		"nothing is said":      {people, answer(503, "Server", "x", "sorry"), 3, refused, 5 * time.Second},
		"too long":             {people, answer(429, "Retry-After", "10", ""), 1, refused, 5 * time.Second},
		"soon":                 {people, answer(503, "Retry-After", "3", ""), 2, refused, 5 * time.Second},
		"an unreadable puzzle": {people, answer(503, challengeHeader, "x", ""), 3, refused, 5 * time.Second},
		"nobody there": {people, func(http.ResponseWriter, *http.Request) error { return errors.New("no") }, 3,
			failed, 5 * time.Second},
		"the page comes late": {people, late, 1, failed, 5 * time.Second},
		"by Refresh":          {without, answer(503, "Refresh", "25; url=/", ""), 3, refused, time.Minute},
		"by a page": {without,
			answer(503, "Retry-After", "7", `<!doctype html><meta http-equiv="refresh" content="40">`), 2, refused,
			time.Minute},
		"no puzzles without JS": {without, answer(503, challengeHeader, "x", ""), 32, refused, time.Minute},
		"moved":                 {people, answer(302, "Location", "/elsewhere", ""), 3, refused, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				res, took, _ := visitOnce(t, c.group, func(w http.ResponseWriter, r *http.Request) error {
					tries++
					return c.wire(w, r)
				})
				if res != c.want || took != c.took || tries != c.tries {
					t.Errorf("result %d after %s and %d tries, want %d after %s and %d", res, took, tries, c.want,
						c.took, c.tries)
				}
			})
		})
	}
}

// late answers when nobody waits any more.
func late(_ http.ResponseWriter, r *http.Request) error {
	<-r.Context().Done()
	return r.Context().Err()
}

// TestWaitingRoom: without JavaScript, people keep their cookies and reload until they are let in.
func TestWaitingRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var brought []string
		res, took, _ := visitOnce(t, without, func(w http.ResponseWriter, r *http.Request) error {
			ticket := ""
			if c, err := r.Cookie("weir-ticket"); err == nil {
				ticket = c.Value
			}
			brought = append(brought, ticket)
			if len(brought) == 4 {
				return nil
			}
			http.SetCookie(w, &http.Cookie{Name: "weir-ticket", Value: fmt.Sprint(len(brought)), Path: "/"})
			w.Header().Set("Refresh", "5")
			w.WriteHeader(http.StatusServiceUnavailable)
			return nil
		})
		if res != served || took != 15*time.Second || !slices.Equal(brought, []string{"", "1", "2", "3"}) {
			t.Errorf("result %d after %s, brought %q", res, took, brought)
		}
	})
}
