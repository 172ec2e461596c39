package simulate

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"weir"
	"weir/internal/queue"
	"weir/lab/machine"
	"weir/throttle/stamp"
)

var floodStart = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// comesAgain is how long refused people wait before they try again.
const comesAgain = 2 * time.Second

// A crowd is all clients of one kind.
type crowd struct {
	name     string
	rate     float64       // a second
	from, to time.Duration // when they come
	speed    float64       // operations a second; 0 for those who cannot pay
	patience time.Duration
	people   bool // they try again, and leave when their patience ends; a flood does neither
	paying   bool // a flood that has all its speed together, and buys stamps ahead
	rng      *rand.Rand
	came     int

	counts FloodCrowd // of those who count
	waited float64
	waits  machine.Times
	second int // served in this second
	meant  int // served while the flood lasted, whenever they came

	// Of a flood that pays: the stamp in use, and whether it makes the next one.
	stamp  *bought
	making bool
}

// bought is a stamp.
type bought struct {
	id    string // of the client that made it
	work  stamp.Work
	left  int // requests that it still pays for
	until time.Duration
}

// A visit is one request of a flood, or all attempts of a person to get one page.
type visit struct {
	crowd   *crowd
	came    time.Duration
	source  netip.Addr
	counts  bool          // came while the flood lasted
	refused bool          // the last time
	over    bool          // served, or gone
	since   time.Duration // waiting inside the service

	// At weir's gate.
	stamp  *bought // a person's own
	ticket uint64
	purse  *weir.Purse
	called bool // from the waiting room
	hold   weir.Hold
	turn   *weir.Turn // while waiting in a lane
}

// A defence is what stands in front of the service.
type defence interface {
	arrive(*visit)                       // a client comes, or comes again
	leave(*visit)                        // the patience of a client is over
	done(*visit)                         // the service has done its work
	early(next time.Duration) (did bool) // does what falls due before that
}

// A play lets crowds come to a service, in the order of time.
type play struct {
	defence
	o      FloodOptions
	now    time.Duration
	agenda queue.Ranked[due]
	seq    int
	all    []*crowd
	takes  *rand.Rand
	luck   *rand.Rand

	// The service: requests that it works on are on the agenda, those that wait inside it are here.
	busy    int
	backlog []*visit
	timeout time.Duration // of those; 0 for none
}

func newPlay(o FloodOptions) *play {
	p := &play{o: o, takes: rand.New(rand.NewPCG(o.Seed, 1)), luck: rand.New(rand.NewPCG(o.Seed, 2)),
		agenda: queue.NewRanked((*due).before, func(d *due) *int { return &d.place })}
	without, phones := float64(o.Without), float64(o.Phones)
	for i, c := range []crowd{
		{name: CrowdDesktop, rate: o.People * (1 - without) * (1 - phones), to: o.For, speed: o.Desktop,
			patience: o.Patience, people: true},
		{name: CrowdPhone, rate: o.People * (1 - without) * phones, to: o.For, speed: o.Phone, patience: o.Patience,
			people: true},
		{name: CrowdWithout, rate: o.People * without, to: o.For, patience: o.Patient, people: true},
		{name: CrowdFlood, rate: o.Flood, from: o.From, to: o.Until},
		{name: CrowdPaying, rate: o.Paying, from: o.From, to: o.Until, speed: o.Hashes, paying: true},
	} {
		if c.rate > 0 {
			// Chances of their own, so that the same people come with weir and without it.
			c.rng = rand.New(rand.NewPCG(o.Seed, uint64(10+i)))
			c.counts.Crowd = c.name
			p.all = append(p.all, &c)
		}
	}
	return p
}

func (p *play) after(d time.Duration, do func()) {
	p.seq++
	p.agenda.Add(&due{at: p.now + max(d, 0), seq: p.seq, do: do})
}

// run plays until nobody is left. It reports for every second how many were served, by crowd.
func (p *play) run(shown func(second int, served map[string]int)) {
	for _, c := range p.all {
		p.now = c.from
		p.next(c)
	}
	p.now = 0
	p.after(time.Second, func() { p.tick(1, shown) })
	for {
		next := time.Duration(math.MaxInt64)
		first := p.agenda.First()
		if first != nil {
			next = first.at
		}
		if p.early(next) {
			continue
		}
		if first == nil {
			return
		}
		p.now = next
		p.agenda.Remove(first)
		first.do()
	}
}

// next lets the next client of a crowd come.
func (p *play) next(c *crowd) {
	gap := time.Duration(c.rng.ExpFloat64() / c.rate * float64(time.Second))
	if p.now+gap >= c.to {
		return
	}
	p.after(gap, func() {
		p.next(c)
		c.came++
		v := &visit{crowd: c, came: p.now, source: p.source(c)}
		if v.counts = p.counting(); v.counts {
			c.counts.Offered++
		}
		if c.people {
			p.after(c.patience, func() { p.lose(v) })
		}
		p.arrive(v)
	})
}

func (p *play) lose(v *visit) {
	if v.over {
		return
	}
	v.over = true
	p.leave(v)
	switch {
	case !v.counts:
	case v.refused:
		v.crowd.counts.Refused++
	default:
		v.crowd.counts.Left++
	}
}

func (p *play) flooded() bool { return p.o.Flood > 0 || p.o.Paying > 0 }

// counting reports whether clients that come now count: during the flood, or always where there is none.
func (p *play) counting() bool {
	if !p.flooded() {
		return p.now < p.o.For
	}
	return p.now >= p.o.From && p.now < p.o.Until
}

// source is the address of the latest client: people have an address each, a flood has some.
func (p *play) source(c *crowd) netip.Addr {
	n, net := c.came, byte(10)
	switch {
	case c.paying:
		n, net = n%p.o.Sources, 12
	case !c.people:
		n, net = n%p.o.Sources, 11
	case c.name == CrowdPhone:
		net = 14
	case c.name == CrowdWithout:
		net = 15
	}
	return netip.AddrFrom4([4]byte{net, byte(n >> 16), byte(n >> 8), byte(n)})
}

func (p *play) tick(second int, shown func(int, map[string]int)) {
	served := map[string]int{}
	for _, c := range p.all {
		served[c.name], c.second = c.second, 0
	}
	shown(second, served)
	if p.now+time.Second <= p.o.For {
		p.after(time.Second, func() { p.tick(second+1, shown) })
	}
}

// serve works for a client, or lets it wait inside the service.
func (p *play) serve(v *visit) {
	if p.busy == p.o.Concurrent {
		v.since = p.now
		p.backlog = append(p.backlog, v)
		return
	}
	p.busy++
	v.over = true // nobody leaves while the service works for them
	wait := p.now - v.came
	p.after(time.Duration(p.takes.ExpFloat64()*float64(p.o.Service)), func() {
		c := v.crowd
		if p.counting() {
			c.meant++
		}
		if c.second++; v.counts {
			c.counts.Served++
			c.waited += wait.Seconds()
			c.waits.Add(wait)
		}
		p.busy--
		p.pull()
		p.done(v)
	})
}

// pull works for the next client that waits inside the service and is still there.
func (p *play) pull() {
	p.drop()
	for len(p.backlog) > 0 && p.busy < p.o.Concurrent {
		v := p.backlog[0]
		p.backlog = p.backlog[1:]
		p.serve(v)
		p.drop()
	}
}

// drop removes clients from the front of the line that have left or timed out.
func (p *play) drop() {
	for len(p.backlog) > 0 {
		v := p.backlog[0]
		late := p.timeout > 0 && p.now-v.since >= p.timeout
		if !v.over && !late {
			return
		}
		p.backlog = p.backlog[1:]
		if !v.over {
			p.refuse(v)
		}
	}
}

// refuse turns a client away. People come again, as long as their patience lasts.
func (p *play) refuse(v *visit) {
	v.refused = true
	if v.crowd.people {
		p.after(comesAgain, func() { p.comeAgain(v) })
		return
	}
	v.over = true
	if v.counts {
		v.crowd.counts.Refused++
	}
}

func (p *play) comeAgain(v *visit) {
	if !v.over {
		v.refused = false
		p.arrive(v)
	}
}

// A due is what is done at a time; of one time in the order in which it was planned.
type due struct {
	at    time.Duration
	seq   int
	do    func()
	place int // in the agenda
}

func (d *due) before(o *due) bool { return d.at < o.at || d.at == o.at && d.seq < o.seq }

func (p *play) crowds() []FloodCrowd {
	span := (p.o.Until - p.o.From).Seconds()
	if !p.flooded() {
		span = p.o.For.Seconds()
	}
	var out []FloodCrowd
	for _, c := range p.all {
		n := c.counts
		if n.Offered > 0 {
			n.Share = float64(n.Served) / float64(n.Offered)
		}
		n.Capacity = float64(c.meant) / (p.o.Capacity() * span)
		if n.Served > 0 {
			n.MeanWait, n.P95Wait = c.waited/float64(n.Served), rounded(c.waits.Quantile(0.95).Seconds(), 1000)
		}
		out = append(out, n)
	}
	return out
}

// chance is the luck with a stamp: 1 on average. The algorithms have as many parts as make luck small.
func (p *play) chance() float64 {
	parts := 0
	switch p.o.Stamps.Algorithm {
	case stamp.SHA256K, stamp.EQS60:
		parts = 16
	default: // logarithms: anywhere in their interval
		return 0.5 + p.luck.Float64()
	}
	sum := 0.0
	for range parts {
		sum += p.luck.ExpFloat64()
	}
	return sum / float64(parts)
}
