package payer

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"weir/throttle/stamp"
)

// ask makes a request whose answer is told by the channel.
func ask(ctx context.Context, tr *Transport) chan error {
	done := make(chan error, 1)
	go func() {
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://gate.example/", nil)
		resp, err := tr.RoundTrip(r)
		if err == nil && resp.StatusCode != 200 {
			err = errors.New(resp.Status)
		}
		done <- err
	}()
	return done
}

// TestTakesTooLong: work that turns out to take too long is given up.
func TestTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []struct{ most, lifetime, ends time.Duration }{
			{0, 10 * time.Minute, DefaultMaxTime},
			{time.Second, 10 * time.Minute, time.Second},
			{time.Minute, 10 * time.Second, 10 * time.Second}, // a stamp is of no use after its challenge has expired
		} {
			g := newGate(t)
			g.ask.Work, g.ask.Lifetime = 1<<24, limit.lifetime
			tr := &Transport{Base: direct{g}, MaxTime: limit.most, Workers: 1}
			tr.Progress = func(string, stamp.Work, stamp.Work) { time.Sleep(time.Hour) } // a slow machine
			err := <-ask(t.Context(), tr)
			if dear, ok := errors.AsType[*TooDearError](err); !ok || dear.MaxTime != limit.ends || dear.Work != 1<<24 {
				t.Errorf("%v", err)
			}
		}
	})
}

// TestGivenUp: the work ends when the only request that wanted it is given up, and another one begins anew.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, single := range []bool{false, true} {
			g := newGate(t)
			g.ask.Work, g.single = 1<<34, single
			ctx, cancel := context.WithCancel(t.Context())
			tr := &Transport{Base: direct{g}, Workers: 1, Progress: func(string, stamp.Work, stamp.Work) { cancel() }}
			if err := <-ask(ctx, tr); err != context.Canceled {
				t.Error(err)
			}
			g.ask.Work = 256
			if err := <-ask(t.Context(), tr); err != nil {
				t.Error(err)
			}
		}
		// The bubble ends only when nobody works any more.
	})
}

// TestOthersGoOn: a request that is given up does not take the work with it that others wait for.
func TestOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		paid, release := 0, make(chan struct{})
		tr := &Transport{Base: direct{g}, Workers: 1,
			Progress: func(string, stamp.Work, stamp.Work) { <-release },
			Paid:     func(string, Payment) { paid++ },
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := ask(ctx, tr)
		synctest.Wait()
		second, third := ask(t.Context(), tr), ask(t.Context(), tr)
		synctest.Wait()
		cancel()
		if err := <-first; err != context.Canceled {
			t.Error(err)
		}
		close(release)
		for _, other := range []chan error{second, third} {
			if err := <-other; err != nil {
				t.Error(err)
			}
		}
		if paid != 1 {
			t.Errorf("paid %d times", paid)
		}
	})
}

// TestTurns: stamps for single messages are made one after the other, and a waiting one may give up.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		g.single, g.covers = true, 1
		working, most := 0, 0
		release := make(chan struct{})
		tr := &Transport{Base: direct{g}, Workers: 1, MaxTime: time.Second, Paid: func(string, Payment) { working = 0 }}
		tr.Progress = func(string, stamp.Work, stamp.Work) {
			working = 1
			most++
			<-release
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := ask(t.Context(), tr)
		synctest.Wait()
		second, third := ask(ctx, tr), ask(t.Context(), tr)
		synctest.Wait()
		if most != 1 || working != 1 {
			t.Errorf("%d are worked on", most)
		}
		cancel()
		if err := <-second; err != context.Canceled {
			t.Error(err)
		}
		close(release)
		if err := errors.Join(<-first, <-third); err != nil {
			t.Error(err)
		}
	})
}

// TestExpires: a stamp is not sent along after its challenge has expired.
func TestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		paid := 0
		tr := &Transport{Base: direct{g}, Paid: func(string, Payment) { paid++ }}
		for _, later := range []time.Duration{0, g.ask.Lifetime - 1, 1} {
			time.Sleep(later)
			if err := <-ask(t.Context(), tr); err != nil {
				t.Error(err)
			}
		}
		if paid != 2 || errors.Join(g.verdicts...) != nil {
			t.Errorf("paid %d times, %v", paid, g.verdicts)
		}
	})
}

// TestPay: a challenge that came some other way.
func TestPay(t *testing.T) {
	g := newGate(t)
	for _, alg := range stamp.Algorithms {
		now := time.Now()
		c, err := g.issuer.Issue(now, stamp.Ask{Algorithm: alg, Work: 8192, Lifetime: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		told := false
		p, err := Pay(t.Context(), c, Options{Progress: func(_, _ stamp.Work) { told = true }})
		if err != nil || !told || p.Algorithm != alg {
			t.Fatalf("%+v, %v", p, err)
		}
		if _, err := g.issuer.Verify(t.Context(), now, p.Stamp, stamp.Demand{}); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
	}
	if _, err := Pay(t.Context(), "nonsense", Options{}); err != stamp.ErrMalformed {
		t.Error(err)
	}
}
