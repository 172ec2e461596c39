package quota

import (
	"flag"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/farm/farmtest"
	"weir/internal/testkit/needs"
)

// seeds makes rapid try so many, and more of them where tests are long.
func seeds(t *testing.T, some string) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if before != checks.DefValue {
		return // somebody has said how many
	}
	if needs.Long() {
		some = "10000"
	} else { // the same ones each time
		seed := flag.Lookup("rapid.seed")
		was := seed.Value.String()
		if err := seed.Value.Set("11"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = seed.Value.Set(was) }) // it was set to that
	}
	if err := checks.Value.Set(some); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(before) }) // it was set to that
}

// anyPolicy is a limit that nodes share.
func anyPolicy(name string) *rapid.Generator[Policy] {
	return rapid.Custom(func(t *rapid.T) Policy {
		p := Policy{Name: name}
		p.OnLoss = rapid.SampledFrom([]OnLoss{LossOpen, LossShare, LossClosed}).Draw(t, "on loss")
		if rapid.Bool().Draw(t, "delay") {
			p = delayed(p, rapid.IntRange(1, 20).Draw(t, "line"), 4*time.Second)
		}
		switch kind := rapid.SampledFrom([]string{"fixed", "sliding", "gcra", "month", "concurrent", "idle"}).
			Draw(t, "kind"); kind {
		case "concurrent":
			p.Kind = Concurrent
		case "idle":
			p.Kind, p.Gap = Idle, weir.Duration(rapid.SampledFrom([]int{50, 300, 1000}).Draw(t, "gap"))*1e6
			if p.OnLoss == LossShare {
				p.OnLoss = LossOpen // a gap has no parts
			}
			return p
		case "month":
			p.Period = weir.Period{Calendar: weir.Month}
		default:
			p.Window = WindowKind(kind)
			p.Period.Length = rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second, time.Minute,
				2 * time.Hour}).Draw(t, "period")
		}
		p.Limit = Count(rapid.Int64Range(1, 60).Draw(t, "limit"))
		return p
	})
}

// anyOverride is other terms of a policy.
func anyOverride(p Policy) *rapid.Generator[Override] {
	return rapid.Custom(func(t *rapid.T) (o Override) {
		switch {
		case rapid.IntRange(0, 9).Draw(t, "exempt") == 9:
			o.Exempt = true
		case p.Kind == Idle:
			o.Gap = weir.Duration(rapid.IntRange(20, 2000).Draw(t, "other gap")) * 1e6
		default:
			o.Limit = Count(rapid.Int64Range(1, 60).Draw(t, "other limit"))
		}
		return o
	})
}

// A drama is a world in which a lot happens.
type drama struct {
	*world
	rapid    *rapid.T
	stored   bool // nodes have stores
	accounts []string
	load     int // requests a second
}

func anyDrama(t *rapid.T) *drama {
	net := farmtest.Network{
		DelayMin: time.Duration(rapid.IntRange(0, 1000).Draw(t, "least delay")) * time.Microsecond,
		Loss:     float64(rapid.SampledFrom([]int{0, 0, 1, 5, 20}).Draw(t, "loss")) / 100,
		Repeat:   float64(rapid.SampledFrom([]int{0, 10}).Draw(t, "repeat")) / 100,
	}
	net.DelayMax = net.DelayMin + time.Duration(rapid.SampledFrom([]int{1, 5, 30}).Draw(t, "jitter"))*time.Millisecond
	o := one(anyPolicy("p").Draw(t, "policy"))
	if rapid.IntRange(0, 3).Draw(t, "policies") == 0 {
		o = one(o.Policies[0], anyPolicy("q").Draw(t, "another"))
	}
	// Some have no account and are counted by their source. Some have other limits than the rest.
	accounts := []string{"x", rapid.SampledFrom([]string{"y", "y", "192.0.2.1", "2001:db8::"}).Draw(t, "who else")}
	switch other := anyOverride(o.Policies[0]); rapid.SampledFrom([]string{"alike", "plan", "override"}).Draw(t, "terms") {
	case "plan":
		o.Plans = map[string]map[string]Override{"gold": {"p": other.Draw(t, "gold")}}
		o.Members = map[string]string{"x": "gold"}
	case "override":
		o.Overrides = map[string]map[string]Override{"x": {"p": other.Draw(t, "of its own")}}
	}
	p := &drama{rapid: t, stored: rapid.Bool().Draw(t, "stores"),
		load: rapid.SampledFrom([]int{20, 100, 400}).Draw(t, "load")}
	p.world = newWorld(t, rapid.Uint64().Draw(t, "seed"), rapid.IntRange(2, 6).Draw(t, "nodes"), net, o)
	p.faults = net.Loss > 0 || net.DelayMax-net.DelayMin > tellApart // then messages overtake each other
	p.checks, p.accounts = true, accounts
	for i, n := range p.nodes {
		if len(p.nodes) >= 3 && i > 0 {
			n.Skew = time.Duration(rapid.IntRange(-100, 100).Draw(t, "skew")) * time.Millisecond
		}
		if p.stored {
			n.kept = shelf{}
		}
	}
	p.start()
	return p
}

func (p *drama) node() *node { return p.nodes[rapid.IntRange(0, len(p.nodes)-1).Draw(p.rapid, "node")] }

// ask lets one request come to a node, and go after a while.
func (p *drama) ask(n *node) {
	account := p.accounts[p.Rand.IntN(len(p.accounts))]
	v := n.ask(account)
	if v.ended {
		return
	}
	done := p.Rand.IntN(10) > 0
	p.After(time.Duration(p.Rand.IntN(100))*time.Millisecond, func() {
		if v.in || p.Rand.IntN(10) == 0 {
			v.end(done)
			return
		}
		var again func()
		again = func() {
			if v.in {
				v.end(done)
			} else if !v.ended && v.run == v.node.run {
				p.After(50*time.Millisecond, again)
			}
		}
		again()
	})
}

// serve lets requests come for a while, to all nodes or to one.
func (p *drama) serve(d time.Duration, only *node) {
	end := p.Now().Add(d)
	p.Every(time.Second/time.Duration(p.load), func() bool {
		n := only
		if n == nil {
			n = p.nodes[p.Rand.IntN(len(p.nodes))]
		}
		p.ask(n)
		return p.Now().Before(end)
	})
	p.Run(d)
}

func (p *drama) configure(n *node, o Options) {
	n.options = o
	if n.Running() {
		if err := n.quota.Configure(o, n.FarmTime()); err != nil {
			p.t.Fatal(err)
		}
		n.called()
	}
}

// Whatever happens to the nodes of a farm and between them, none grants what it knows to be used up, none refuses what
// nobody has used, those in line are called in order, and after quiet all agree on what was granted.
func TestFarmAnySequence(t *testing.T) {
	needs.Unwatched(t)
	seeds(t, "100")
	rapid.Check(t, func(t *rapid.T) {
		p := anyDrama(t)
		ms := func(name string, from, to int) time.Duration {
			return time.Duration(rapid.IntRange(from, to).Draw(t, name)) * time.Millisecond
		}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			p.step(t, ms)
		}
		p.calm()
		p.agree()
		p.serve(300*time.Millisecond, nil)
		p.calm()
		p.agree()
		p.leaks()
	})
}

// step lets one thing happen, and requests come meanwhile.
func (p *drama) step(t *rapid.T, ms func(string, int, int) time.Duration) {
	what := rapid.SampledFrom([]string{"serve", "one serves", "quiet", "cut", "heal", "stop", "wake", "restart", "kill",
		"all restart", "reset", "configure", "save"}).Draw(t, "what")
	switch n := p.node(); what {
	case "serve":
		p.serve(ms("ms", 1, 2000), nil)
	case "one serves":
		p.serve(ms("ms", 1, 2000), n)
	case "quiet":
		p.Run(ms("ms", 1, 3000))
	case "cut":
		p.faults = true
		at := rapid.IntRange(1, len(p.nodes)-1).Draw(t, "at")
		var sims []*farmtest.SimNode
		for _, n := range p.nodes {
			sims = append(sims, n.SimNode)
		}
		p.Cut(sims[:at], sims[at:])
		p.serve(ms("ms", 1, 3000), nil)
	case "heal":
		p.Heal()
		p.serve(ms("ms", 1, 500), nil)
	case "stop":
		p.faults = true
		n.Stop()
		p.serve(ms("ms", 1, 3000), nil)
	case "wake":
		p.wake(n)
	case "restart":
		p.faults = true
		n.save()
		n.Kill()
		p.serve(ms("ms", 0, 1500), nil)
		n.start()
	case "kill":
		p.faults = true
		n.Kill()
		p.serve(ms("ms", 0, 1500), nil)
		n.start()
	case "all restart":
		p.faults = true
		for _, n := range p.nodes {
			n.save()
			n.Kill()
		}
		for _, n := range p.nodes {
			n.start()
		}
		p.Run(500 * time.Millisecond)
	case "reset":
		if n.Running() {
			account := rapid.SampledFrom(p.accounts).Draw(t, "account")
			if n.quota.Reset(account, n.FarmTime()) {
				p.resets[account] = max(nanos(n.FarmTime()), p.resets[account]+1)
			}
			n.called()
		}
	case "configure":
		o := p.options
		o.Policies = append([]Policy(nil), o.Policies...)
		if first := &o.Policies[0]; first.Limit.Set {
			first.Limit = Count(rapid.Int64Range(1, 60).Draw(t, "limit"))
			first.Burst = Amount{}
		}
		if len(o.Policies) == 1 && rapid.Bool().Draw(t, "add") {
			o.Policies = append(o.Policies, anyPolicy("q").Draw(t, "another"))
		}
		p.options = o
		p.faults = true
		for _, n := range p.nodes {
			p.configure(n, o)
			p.serve(ms("ms", 0, 100), nil)
		}
	case "save":
		n.save()
	}
}

func (p *drama) wake(n *node) {
	if n.Farm() == nil {
		n.start()
	}
	n.Wake()
	n.called()
	p.configure(n, p.options)
}

// calm heals everything and lets everybody end.
func (p *drama) calm() {
	p.Heal()
	for _, n := range p.nodes {
		p.wake(n)
	}
	p.Network.Loss = 0
	for range 200 {
		p.Run(100 * time.Millisecond)
		waiting := 0
		for _, n := range p.nodes {
			waiting += len(n.line)
		}
		if waiting == 0 {
			break
		}
	}
	p.Run(3 * time.Second)
	for _, n := range p.nodes {
		if len(n.line) > 0 {
			p.t.Fatalf("%s: %d wait for ever", n.Name, len(n.line))
		}
	}
}

// leaks checks that when everything is over nothing is held.
func (p *drama) leaks() {
	for _, n := range p.nodes {
		rs := n.quota.rules.Load()
		later := nanos(n.FarmTime()) + int64(100*24*time.Hour)
		for i := range n.quota.table.shards {
			sh := &n.quota.table.shards[i]
			for _, a := range sh.ring {
				if !a.idle(rs, later) {
					p.t.Fatalf("%s: %s is never forgotten: %+v", n.Name, a.name, a.state(rs.list[0]))
				}
				if sh.untold.has(int(a.index)) || sh.dirty {
					p.t.Fatalf("%s: %s is not told of", n.Name, a.name)
				}
			}
		}
	}
}
