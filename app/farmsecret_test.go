package app_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/config"
	"weir/console"
	"weir/farm"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
)

const (
	oldSecret = "the secret of last year"
	newSecret = "the secret of this year"
)

// rotation is how a farm changes its secret: each node goes one step ahead of the others.
var rotation = [][]string{{oldSecret}, {oldSecret, newSecret}, {newSecret, oldSecret}, {newSecret}}

// members returns the options of two nodes that know each other.
func members() (all [2]farm.Options) {
	for i := range all {
		all[i] = farm.Options{Node: []string{"one", "two"}[i], Listen: needs.FreeAddress()}
	}
	all[0].Peers, all[1].Peers = []string{all[1].Listen}, []string{all[0].Listen}
	return all
}

// withSecrets makes a configuration that of a member of a farm.
func withSecrets(cfg *config.Config, member farm.Options, secrets []string) *config.Config {
	member.Secret = secrets
	cfg.Farm = &member
	return cfg
}

// meet waits until nodes see each other. Their clocks stand still otherwise; the bus between them does not.
func meet(t *testing.T, nodes ...*site) {
	t.Helper()
	last := time.Now()
	sees := func(s *site) bool {
		status, err := console.StatusCall.Ask(t.Context(), console.NewClient(s.app.ControlPath()), console.None{})
		if err != nil {
			t.Fatal(err)
		}
		up := 0
		for _, n := range status.Farm.Nodes {
			if n.State == "up" {
				up++
			}
		}
		return up == len(nodes)-1
	}
	needs.Wait(t, "the nodes find each other", func() bool {
		if !slices.ContainsFunc(nodes, func(s *site) bool { return !sees(s) }) {
			return true
		}
		passed := time.Since(last)
		last = last.Add(passed)
		passed = min(passed, farm.HeartbeatEvery) // or each would take the other for lost on a busy machine
		for _, s := range nodes {
			s.clock.Advance(passed)
		}
		return false
	})
}

// TestFarmSecretRotates: while two nodes change the secret, one after the other, each honours what the other gives to
// clients: challenges, ids and tickets. What only the secret signs that was dropped is honoured no more.
func TestFarmSecretRotates(t *testing.T) {
	t.Parallel()
	const gate, options = "capacity: {concurrent: 10}, throttles: [stamps]", always
	member := members()
	var nodes [2]*site
	for i := range nodes {
		s := stampedBy(t, func(s *site) *config.Config {
			return withSecrets(s.stampConfig(gate, options), member[i], rotation[0])
		})
		nodes[i] = s
	}
	// taken pays at a node. An issuer that does not answer in time, or cannot be reached for a moment after a reload,
	// has its stamps refused, and the client is asked for another one.
	taken := func(to *site, pays func() (p *person, stamp string)) {
		t.Helper()
		needs.Wait(t, "a stamp of the other node is accepted", func() bool {
			before := to.stamps().Stamp.Gone
			p, stamp := pays()
			p.s = to
			r := p.get("/", "Stamp", stamp)
			if r.status == 200 {
				return true
			}
			if now := to.stamps().Stamp; now.Gone == before {
				t.Fatalf("%d: %s\n%+v", r.status, r.body, now)
			}
			// Nobody waits any more for a node that was late once, until it is heard again: by its clock.
			for _, s := range nodes {
				s.clock.Advance(farm.HeartbeatEvery)
			}
			return false
		})
	}
	// carried checks that what one node gives is good at the other.
	carried := func(from, to *site) {
		t.Helper()
		ticket := from.program("192.0.2.9").get("/").want(503, "unpaid").header.Get("Stamp-Ticket")
		to.program("192.0.2.9").get("/", "Stamp-Ticket", ticket).want(200, "")
		taken(to, func() (*person, string) {
			p := from.program("192.0.2.1")
			return p, solve(t, p.get("/").want(503, "unpaid").header.Get("Stamp-Challenge"))
		})
		taken(to, func() (*person, string) {
			p, good := visitor(from)
			p.address = "192.0.2.3" // so that it is known by the id alone
			return p, good
		})
	}
	first := nodes[0].program("192.0.2.8").get("/").want(503, "unpaid")
	second := nodes[0].program("192.0.2.8").get("/").want(503, "unpaid")
	for step, secrets := range rotation {
		for i, s := range nodes {
			if step > 0 {
				if err := s.app.Reload(withSecrets(s.stampConfig(gate, options), member[i], secrets)); err != nil {
					t.Fatal(err)
				}
			}
			meet(t, nodes[:]...)
			carried(nodes[0], nodes[1])
			carried(nodes[1], nodes[0])
		}
		if step == 2 { // what the first step signed is still honoured
			nodes[1].program("192.0.2.8").get("/", "Stamp-Ticket", first.header.Get("Stamp-Ticket")).want(200, "")
		}
	}
	p := nodes[1].program("192.0.2.8")
	p.get("/", "Stamp-Ticket", second.header.Get("Stamp-Ticket")).want(503, "unpaid")
	p.get("/", "Stamp", solve(t, second.header.Get("Stamp-Challenge"))).want(503, "unpaid")
}

// stampedBy is stamped by a whole configuration.
func stampedBy(t *testing.T, by func(*site) *config.Config) *site {
	t.Helper()
	s := &site{t: t, clock: clock.NewFake(noon), arrived: make(chan string, 10000), folder: t.TempDir()}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.server.Close)
	s.beginBy(by(s))
	return s
}

// visitor is somebody who was given an id and has paid what is asked of it.
func visitor(at *site) (p *person, stamp string) {
	p = at.person("192.0.2.2")
	page := p.look("/")
	for _, c := range page.header.Values("Set-Cookie") {
		if name, value, _ := strings.Cut(strings.SplitN(c, ";", 2)[0], "="); name == "weir-client" {
			p.keeps(name, value)
		}
	}
	p.drops("weir-ticket")
	return p, solve(at.t, page.header.Get("Stamp-Challenge"))
}
