package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/store"
	"weir/store/sqlite"
)

// kill ends nodes without a goodbye.
func (g *grange) kill(nodes ...int) {
	g.t.Helper()
	for _, i := range nodes {
		if err := g.nodes[i].Process.Kill(); err != nil {
			g.t.Fatal(err)
		}
		<-g.nodes[i].ended
	}
}

// readiness is what a balancer hears of a node.
func (c *crop) readiness(i int) int {
	c.t.Helper()
	resp, err := (&http.Client{Transport: c.ways[i]}).Get("http://" + c.Address(i) + ":9000/readyz")
	if err != nil {
		c.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestFarmSharesAfterARestart: nodes that start while they hear nobody know whose turn it is, and what was taken over
// from them; without that they grant nothing.
func TestFarmSharesAfterARestart(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	nftables(t)
	c := growQuotas(t, 5, `{name: one, limit: 1, period: 1s, on_loss: share}`)
	parts := func(i int) bool { return c.status(i).Parts == 5 }
	for i := range c.nodes {
		c.eventually("all have their parts, also on their disks", func() bool {
			kept, err := os.ReadFile(filepath.Join(filepath.Dir(c.config[i]), "nodes"))
			return err == nil && strings.Contains(string(kept), `"agreed":true`) && parts(i)
		})
	}
	c.kill(c.everyone()...)
	for i := range c.nodes {
		c.part(i, true)
	}
	c.start(c.everyone()...)
	granted := 0
	for second := range 7 {
		// Early in each second, so that what is granted in one is not counted in the next.
		begin := time.Now().Truncate(time.Second).Add(time.Second)
		needs.Wait(t, "a second begins", func() bool { return time.Now().After(begin) })
		account := fmt.Sprint("account-", second)
		for i := range c.nodes {
			c.ask(i, account)
		}
		if time.Since(begin) > 800*time.Millisecond {
			continue // the machine is busy
		}
		n := len(c.of(account))
		if granted += n; n > 1 {
			t.Errorf("cut off from each other, five nodes grant %d of 1", n)
		}
	}
	if granted == 0 {
		t.Error("nobody has a turn")
	}
	for i := range c.nodes {
		if code := c.readiness(i); code != http.StatusOK {
			t.Errorf("%c waits for others: /readyz answers %d", 'a'+i, code)
		}
	}
	for i := range c.nodes {
		c.part(i, false)
	}
	c.settled(c.everyone()...)

	// One says goodbye, and the others take over its part. It starts again where it hears nobody.
	c.nodes[4].stop(t)
	c.eventually("its part is taken over", func() bool { s := c.status(0); return s.Parts == 4 && s.Share == 5 })
	c.part(4, true)
	c.start(4)
	for second := range 3 {
		account := fmt.Sprint("later-", second)
		begin := time.Now().Truncate(time.Second).Add(time.Second)
		needs.Wait(t, "a second begins", func() bool { return time.Now().After(begin) })
		if c.ask(4, account) == http.StatusOK {
			t.Error("it grants what others have taken over")
		}
	}
	c.part(4, false)
	c.settled(c.everyone()...)
	c.eventually("it has a part again", func() bool { return parts(4) })
}

// TestFarmWithADeadBus: without a list of the nodes and without a memory of them a node grants nothing where its part
// is all that it may grant. With that memory it grants its part.
func TestFarmWithADeadBus(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	c := &crop{grange: newGrange(t, 3)}
	c.serves = quotaOf(`{name: p, limit: 9, period: 1s, on_loss: share}`)
	c.over("nats://127.0.0.1:4222") // nobody is there
	grant := func(account string) (n int) {
		c.eventually("all are asked in one second", func() bool {
			account = "again " + account
			begin := time.Now().Truncate(time.Second).Add(time.Second)
			needs.Wait(t, "a second begins", func() bool { return time.Now().After(begin) })
			for i := range c.nodes {
				for range 10 {
					c.ask(i, account)
				}
			}
			n = len(c.of(account))
			return time.Since(begin) < 900*time.Millisecond
		})
		return n
	}
	c.start(c.everyone()...)
	if n := grant("x"); n != 0 {
		t.Errorf("nodes that never heard each other grant %d of 9", n)
	}
	c.kill(c.everyone()...)
	for i := range c.nodes { // as an earlier run kept it
		roll := fmt.Sprintf(`{"node":"%c","view":7,"names":{"a":1,"b":2,"c":3},"part":true,"agreed":true}`, 'a'+i)
		if err := os.WriteFile(filepath.Join(filepath.Dir(c.config[i]), "nodes"), []byte(roll), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.start(c.everyone()...)
	if n := grant("y"); n != 9 {
		t.Errorf("nodes that remember each other grant %d of 9", n)
	}
}

// TestFarmJoinerKnows: a node that starts with an empty disk is ready soon, and knows then what all accounts have used:
// it grants none of that again.
func TestFarmJoinerKnows(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	accounts, within := 5_000, time.Minute // a busy machine is slow
	if needs.Long() {
		accounts, within = 100_000, 10*time.Second
	}
	c := &crop{grange: newGrange(t, 3)}
	c.serves = strings.Replace(quotaOf(`{name: p, limit: 1, period: year}`), "{quota: {", "{quota: {max_accounts: 200000, ", 1)
	c.plant()
	c.start(0)
	if code := c.ask(0, "account"); code != http.StatusOK {
		t.Fatal(code)
	}
	c.nodes[0].stop(t)
	c.multiply(0, accounts)
	c.start(0, 1)
	c.settled(0, 1)
	c.eventually("b knows what a had kept", func() bool { return c.remaining(1, lastOf(accounts)) == 0 && c.status(1).Knows })

	began := time.Now()
	c.start(2)
	took := time.Since(began)
	t.Logf("%d accounts: ready after %s", accounts, took)
	if took > within {
		t.Errorf("ready after %s", took)
	}
	again := 0
	for i := range 500 {
		if c.ask(2, fmt.Sprint("account-", i*accounts/500)) == http.StatusOK {
			again++
		}
	}
	if again > 0 {
		t.Errorf("of 500 accounts that were used up a node that has just started grants %d again", again)
	}
}

func lastOf(accounts int) string { return fmt.Sprint("account-", accounts-1) }

// multiply writes into a node's store that more accounts used what one did.
func (c *crop) multiply(i, accounts int) {
	c.t.Helper()
	kept, err := sqlite.Open(c.t.Context(), sqlite.Options{Folder: filepath.Dir(c.config[i])})
	if err != nil {
		c.t.Fatal(err)
	}
	defer kept.Close()
	var all []store.Counter
	if err := kept.Counters().Load(c.t.Context(), time.Now(), func(one store.Counter) error {
		for n := range accounts {
			one.Account = fmt.Sprint("account-", n)
			all = append(all, one)
		}
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	for batch := range slices.Chunk(all, store.MaxBatch) {
		if err := kept.Counters().Save(c.t.Context(), batch); err != nil {
			c.t.Fatal(err)
		}
	}
}
