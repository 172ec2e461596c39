package smtpgate

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/mail/login"
	"weir/store"
	"weir/throttle/bloom"
	"weir/throttle/quota"
)

// atOnce logs in over a connection for each, all at the same time, and counts the answers by their code.
func (r *rig) atOnce(n int, as func(i int) (name, password string)) map[string]int {
	r.t.Helper()
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = r.greeted()
	}
	codes := make([]string, n)
	var all sync.WaitGroup
	for i, c := range clients {
		name, password := as(i)
		all.Go(func() {
			c.send("AUTH PLAIN " + plain(name, password) + "\r\n")
			got, err := c.reply()
			if err != nil || len(got) < 3 {
				r.t.Errorf("%q, %v", got, err)
				return
			}
			codes[i] = got[:3]
		})
	}
	all.Wait()
	counts := map[string]int{}
	for _, code := range codes {
		counts[code]++
	}
	return counts
}

func newGuesses(t *testing.T, burst int64) weir.Throttle {
	t.Helper()
	limit, err := bloom.New(bloom.Options{Rate: weir.Rate{Count: burst, Per: 24 * time.Hour},
		Burst: weir.Number(burst)}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return limit.Throttle()
}

// Wrong passwords that come at once over many connections are no more than may come one after the other, whoever
// verifies them.
func TestParallelGuesses(t *testing.T) {
	t.Parallel()
	const most, guesses = 5, 40
	for name, change := range map[string]func(*rig){
		"for a user":     func(r *rig) { r.parts.UserGuesses = userGuesses(t, most) },
		"from a network": func(r *rig) { r.parts.Guesses = newGuesses(t, most) },
		"both": func(r *rig) {
			r.parts.UserGuesses, r.parts.Guesses = userGuesses(t, most),
				newGuesses(t, most)
		},
		"for one, at next hop":  func(r *rig) { r.opts.Auth, r.parts.UserGuesses = AuthNextHop, userGuesses(t, most) },
		"from one, at next hop": func(r *rig) { r.opts.Auth, r.parts.Guesses = AuthNextHop, newGuesses(t, most) },
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			verifier := login.New(login.Options{Workers: 4, Waiting: 1000})
			r := newRig(t, func(r *rig) {
				r.env.Door = &login.Door{Verifier: verifier}
				r.parts.Relay = relay(func(string, string) error { asked.Add(1); return login.ErrWrong })
				change(r)
			})
			codes := r.atOnce(guesses, func(i int) (string, string) {
				if r.parts.UserGuesses == nil { // whoever it is
					return fmt.Sprint("user", i), "sesame"
				}
				return "ann", fmt.Sprint("sesame ", i)
			})
			verified := int(asked.Load()) + int(verifier.Stats().Wrong)
			if verified > most || verified < 1 || codes["535"] != verified || codes["454"] != guesses-verified {
				t.Errorf("%d were verified, answers %v", verified, codes)
			}
			// Nothing came back.
			if codes := r.atOnce(10, func(int) (string, string) { return "ann", "sesame" }); codes["454"] != 10 ||
				r.parts.UserGuesses == nil && verified != most {
				t.Errorf("%d were verified, and then %v", verified, codes)
			}
		})
	}
}

func userGuesses(t *testing.T, most int64) weir.Throttle {
	return newQuota(t, quota.Policy{Name: "wrong", Limit: quota.Count(most),
		Period: weir.Period{Length: 10 * time.Minute}})
}

// A mail program that logs in for the first time over ten connections, and forty users of one network who do so at
// once, all get in, however few guesses are left; and no guess is lost by it.
func TestParallelFirstLogIns(t *testing.T) {
	t.Parallel()
	for name, auth := range map[string]Auth{"our own": AuthUsers, "of the next hop": AuthNextHop} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.opts.Auth = auth
				r.parts.Guesses, r.parts.UserGuesses = newGuesses(t, 5), userGuesses(t, 2)
				r.env.Door = &login.Door{Verifier: login.New(login.Options{Workers: 4, Waiting: 1000})}
				r.parts.Relay = relay(func(_, password string) error {
					if password != "correct horse" {
						return login.ErrWrong
					}
					return nil
				})
			})
			for i := range 20 {
				r.put(store.User{Name: fmt.Sprint("user", i), Password: passwords()})
			}
			for _, name := range []string{"ann", "bound", "eve", "mallory"} {
				r.greeted().cmd("AUTH PLAIN "+plain(name, "sesame"), "535 ")
			} // one is left for the network, and one for ann
			if codes := r.atOnce(10, func(int) (string, string) { return "ann", "correct horse" }); codes["235"] != 10 {
				t.Errorf("ten connections: %v", codes)
			}
			if codes := r.atOnce(40, func(i int) (string, string) {
				return fmt.Sprint("user", i%20),
					"correct horse"
			}); codes["235"] != 40 {
				t.Errorf("forty of a network: %v", codes)
			}
			r.greeted().cmd("AUTH PLAIN "+plain("ann", "sesame"), "535 ")
			r.greeted().cmd("AUTH PLAIN "+plain("ann", "sesame"), "454 4.7.0 too many wrong passwords")
			r.as("ann") // who is remembered, and so are the others
			if codes := r.atOnce(20, func(i int) (string, string) {
				return fmt.Sprint("user", i),
					"correct horse"
			}); codes["235"] != 20 {
				t.Errorf("those who were here before: %v", codes)
			}
		})
	}
}

// A password that was right a short while ago, and is not any more, is charged like any other.
func TestChangedPasswordIsCharged(t *testing.T) {
	t.Parallel()
	var changed atomic.Bool
	r := newRig(t, func(r *rig) {
		r.opts.Auth, r.parts.UserGuesses = AuthNextHop, userGuesses(t, 2)
		r.env.Door = &login.Door{Verifier: login.New(login.Options{})}
		r.parts.Relay = relay(func(string, string) error {
			if changed.Load() {
				return login.ErrWrong
			}
			return nil
		})
	})
	r.as("ann")
	changed.Store(true)
	for range 2 {
		r.greeted().cmd("AUTH PLAIN "+plain("ann", "correct horse"), "535 ")
	}
	r.greeted().cmd("AUTH PLAIN "+plain("ann", "sesame"), "454 ")
}

// What nobody could verify is not charged, and a verifier that breaks does not keep others waiting.
func TestUnverifiedIsNotCharged(t *testing.T) {
	t.Parallel()
	var what atomic.Pointer[func() error]
	say := func(f func() error) { what.Store(&f) }
	r := newRig(t, func(r *rig) {
		r.opts.Auth, r.parts.UserGuesses = AuthNextHop, userGuesses(t, 2)
		r.env.Door = nil
		r.parts.Relay = relay(func(string, string) error { return (*what.Load())() })
	})
	for _, err := range []error{login.ErrBusy, fmt.Errorf("the next hop is away")} {
		say(func() error { return err })
		for range 4 {
			r.greeted().cmd("AUTH PLAIN "+plain("ann", "correct horse"), "454 4.7.0 logging in is not possible")
		}
	}
	say(func() error { panic("broken") })
	c := r.greeted()
	c.send("AUTH PLAIN " + plain("ann", "sesame") + "\r\n")
	if got, _ := c.reply(); strings.HasPrefix(got, "235") {
		t.Error(got)
	}
	say(func() error { return login.ErrWrong }) // one is left
	r.greeted().cmd("AUTH PLAIN "+plain("ann", "sesame"), "535 ")
	r.greeted().cmd("AUTH PLAIN "+plain("ann", "sesame"), "454 4.7.0 too many wrong passwords")
}
