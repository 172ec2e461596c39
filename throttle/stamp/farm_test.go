package stamp

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"weir"
)

// What may happen to a message of a testFarm.
type fate int

const (
	arrives fate = iota
	isLost
	answerLost
	comesTwice
	isGarbled
	isSilent // until whoever asks gives up
)

// A testFarm carries the questions of nodes, and loses some.
type testFarm struct {
	mu    sync.Mutex
	nodes map[[TagBytes]byte]*Throttle
	boots byte
	now   time.Time
	fate  func(from, to [TagBytes]byte) fate
	asked atomic.Int64
}

func newTestFarm() *testFarm {
	return &testFarm{nodes: map[[TagBytes]byte]*Throttle{}, now: start,
		fate: func(_, _ [TagBytes]byte) fate { return arrives }}
}

var errDown = errors.New("nobody of that name is up")

// A seat is a node's place in a testFarm.
type seat struct {
	farm *testFarm
	tag  [TagBytes]byte
}

func (s *seat) Self() [TagBytes]byte { return s.tag }

func (s *seat) Ask(ctx context.Context, issuer [TagBytes]byte, question []byte) ([]byte, error) {
	f := s.farm
	f.asked.Add(1)
	f.mu.Lock()
	th, now, what := f.nodes[issuer], f.now, f.fate(s.tag, issuer)
	f.mu.Unlock()
	if th == nil || what == isLost {
		return nil, errDown
	}
	if what == isSilent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	answer := th.Answer(now, question)
	switch what {
	case comesTwice:
		th.Answer(now, question)
	case answerLost:
		return nil, errDown
	case isGarbled:
		return answer[:len(answer)-1], nil
	}
	return answer, nil
}

func (s *seat) Tell(issuer [TagBytes]byte, question []byte) { _, _ = s.Ask(bg, issuer, question) }

const farmSecret = "the same on all nodes"

// start makes a node, or restarts one.
func (f *testFarm) start(t rapid.TB, name byte, covers int) *Throttle {
	t.Helper()
	return f.startAhead(t, name, covers, 0)
}

// startAhead is start of a node whose clock is ahead of the farm's time.
func (f *testFarm) startAhead(t rapid.TB, name byte, covers int, by time.Duration) *Throttle {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	th, err := NewThrottle(Options{Schedule: always, Covers: covers, Secret: farmSecret}, f.now.Add(by), nofiles)
	if err != nil {
		t.Fatal(err)
	}
	f.boots++
	f.stop(name)
	s := &seat{f, [TagBytes]byte{name, f.boots}}
	th.Join(s, f.now)
	f.nodes[s.tag] = th
	return th
}

// stop takes a node down. The farm is locked.
func (f *testFarm) stop(name byte) {
	for tag := range f.nodes {
		if tag[0] == name {
			delete(f.nodes, tag)
		}
	}
}

func (f *testFarm) kill(name byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop(name)
}

// event is one of the client that all of these tests have.
func (f *testFarm) event() *weir.Event {
	return &weir.Event{Time: f.now, Client: "client", Source: netip.MustParseAddr("192.0.2.1"),
		Load: weir.Load{Of: "gate"}}
}

// pays solves a challenge of a node.
func (f *testFarm) pays(t rapid.TB, at *Throttle) string {
	t.Helper()
	at.Observe(f.event().Load, f.now) // so that it asks for what the schedule says
	p, err := at.Ask(f.event(), "client", "message")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Solve(bg, p.Text, SolveOptions{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// brings shows a stamp to a node.
func (f *testFarm) brings(at *Throttle, stamp string) (weir.Paid, func()) {
	return at.Receive(bg, f.event(), stamp, "message")
}

func (f *testFarm) wants(t *testing.T, at *Throttle, stamp string, accepted bool, fault weir.Reason) {
	t.Helper()
	if paid, _ := f.brings(at, stamp); paid.Work > 0 != accepted || paid.Fault != fault {
		t.Fatalf("%+v, want accepted %v and the fault %q", paid, accepted, fault)
	}
}

// TestAStampIsSpentOnceInAFarm: a challenge of a is paid at b, which was restarted in between. Then it is spent
// everywhere, also after another restart of b, and whoever replays it is answered without asking again.
func TestAStampIsSpentOnceInAFarm(t *testing.T) {
	f := newTestFarm()
	a, _, c := f.start(t, 'a', 1), f.start(t, 'b', 1), f.start(t, 'c', 1)
	f.now = f.now.Add(time.Second)
	stamp := f.pays(t, a)
	f.now = f.now.Add(time.Second)
	b := f.start(t, 'b', 1)
	f.wants(t, b, stamp, true, weir.NoReason)
	f.wants(t, b, stamp, false, weir.Replayed)
	f.wants(t, c, stamp, false, weir.Replayed)
	f.wants(t, a, stamp, false, weir.Replayed)
	b = f.start(t, 'b', 1)
	f.wants(t, b, stamp, false, weir.Replayed)
	asked := f.asked.Load()
	for range 100 {
		f.wants(t, b, stamp, false, weir.Replayed)
		f.wants(t, c, stamp, false, weir.Replayed)
	}
	if n := f.asked.Load(); n != asked {
		t.Errorf("%d replays were asked about", n-asked)
	}
	if s := c.Stats(); s.Accepted != 0 || s.Spent != 1 || s.Gone != 0 {
		t.Errorf("%+v", s)
	}
}

// TestIssuerWasAhead: the stamps of a node whose clock was wrong until it joined are good at once, at all nodes. Those
// of its run before stay refused.
func TestIssuerWasAhead(t *testing.T) {
	for _, by := range []time.Duration{5 * time.Second, 10 * time.Minute, -5 * time.Second} {
		f := newTestFarm()
		a, b := f.start(t, 'a', 1), f.start(t, 'b', 1)
		old := f.pays(t, a)
		f.now = f.now.Add(time.Second)
		a = f.startAhead(t, 'a', 1, by)
		for _, at := range []*Throttle{a, b} {
			stamp := f.pays(t, a)
			f.wants(t, at, stamp, true, weir.NoReason)
			f.wants(t, at, stamp, false, weir.Replayed)
			if paid, _ := f.brings(at, old); paid.Work > 0 {
				t.Errorf("%s ahead: a stamp of the run before is good", by)
			}
		}
	}
}

// TestIssuerGone: when the issuer does not say that a stamp is good, the client is asked anew. That is no fault of
// theirs: nobody is refused or banned for it, not even by classic. The stamp is worth nothing from then on.
func TestIssuerGone(t *testing.T) {
	for name, break_ := range map[string]func(f *testFarm){
		"down":      func(f *testFarm) { f.kill('a') },
		"restarted": func(f *testFarm) { f.start(t, 'a', 1) },
		"lost":      func(f *testFarm) { f.fate = func(_, _ [TagBytes]byte) fate { return isLost } },
		"no answer": func(f *testFarm) { f.fate = func(_, _ [TagBytes]byte) fate { return answerLost } },
		"garbled":   func(f *testFarm) { f.fate = func(_, _ [TagBytes]byte) fate { return isGarbled } },
	} {
		t.Run(name, func(t *testing.T) {
			f := newTestFarm()
			a, b := f.start(t, 'a', 1), f.start(t, 'b', 1)
			if err := b.Configure(Options{Classic: true, Algorithm: SHA256K, Schedule: always, Secret: farmSecret},
				f.now, nofiles); err != nil {
				t.Fatal(err)
			}
			ask := func(stamp string) weir.Answer {
				ev := visit(b, "", "192.0.2.1", stamp)
				return judged(t, b, ev)
			}
			ev := f.event()
			ev.Client = ""
			p, err := a.Ask(ev, "", "message")
			if err != nil {
				t.Fatal(err)
			}
			stamp, err := Solve(bg, p.Text, SolveOptions{})
			if err != nil {
				t.Fatal(err)
			}
			break_(f)
			if got := ask(""); got.Verdict != weir.Challenge {
				t.Fatalf("%+v", got)
			}
			if got := ask(stamp); got.Verdict != weir.Challenge || got.Ban {
				t.Fatalf("whoever paid at a node that is gone: %+v", got)
			}
			if s := b.Stats(); s.Gone != 1 || s.NotPaying != 0 || s.Accepted != 0 {
				t.Errorf("%+v", s)
			}
			// The same stamp is no way around patience, and is not asked about again.
			asked := f.asked.Load()
			f.fate = func(_, _ [TagBytes]byte) fate { return arrives }
			if got := ask(stamp); got.Reason != weir.NotPaying || f.asked.Load() != asked {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestIssuerIsSilent: nobody waits for longer than AskTimeout, and whoever has left is not said to have met a node that
// is gone.
func TestIssuerIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTestFarm()
		a, b := f.start(t, 'a', 2), f.start(t, 'b', 2)
		first, second := f.pays(t, a), f.pays(t, a)
		f.fate = func(_, _ [TagBytes]byte) fate { return isSilent }
		begun := time.Now()
		f.wants(t, b, first, false, weir.NoReason)
		if d := time.Since(begun); d != AskTimeout {
			t.Errorf("it took %s", d)
		}
		ctx, cancel := context.WithTimeout(bg, AskTimeout/2)
		defer cancel()
		if paid, _ := b.Receive(ctx, f.event(), second, "message"); paid.Work != 0 || paid.Fault != weir.NoReason {
			t.Errorf("%+v", paid)
		}
		if s := b.Stats(); s.Gone != 1 {
			t.Errorf("%+v", s)
		}
		f.fate = func(_, _ [TagBytes]byte) fate { return arrives }
		f.wants(t, b, second, true, weir.NoReason)
	})
}

// TestMaxAsks: one question more than there may be is not asked. Its stamp may be good, and stays so.
func TestMaxAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTestFarm()
		a, b := f.start(t, 'a', MaxAsks+1), f.start(t, 'b', MaxAsks+1)
		stamp := f.pays(t, a)
		f.fate = func(_, _ [TagBytes]byte) fate { return isSilent }
		var all sync.WaitGroup
		for range MaxAsks {
			other := f.pays(t, a)
			all.Go(func() { f.brings(b, other) })
		}
		synctest.Wait()
		f.wants(t, b, stamp, false, weir.Overload)
		all.Wait()
		f.fate = func(_, _ [TagBytes]byte) fate { return arrives }
		f.wants(t, b, stamp, true, weir.NoReason)
		if s := b.Stats(); s.Busy != 1 || s.Gone != MaxAsks {
			t.Errorf("%+v", s)
		}
	})
}

// TestOneStampAtThreeNodesAtOnce is accepted exactly as often as it covers.
func TestOneStampAtThreeNodesAtOnce(t *testing.T) {
	for _, covers := range []int{1, 7} {
		f := newTestFarm()
		nodes := []*Throttle{f.start(t, 'a', covers), f.start(t, 'b', covers), f.start(t, 'c', covers)}
		for i := range 100 {
			stamp := f.pays(t, nodes[i%3])
			var accepted, refused atomic.Int64
			var all sync.WaitGroup
			for _, at := range nodes {
				for range covers + 1 {
					all.Go(func() {
						if paid, _ := f.brings(at, stamp); paid.Work > 0 {
							accepted.Add(1)
						} else {
							refused.Add(1)
						}
					})
				}
			}
			all.Wait()
			if got := accepted.Load(); got != int64(covers) {
				t.Fatalf("accepted %d times, refused %d times, and it covers %d", got, refused.Load(), covers)
			}
		}
	}
}

// TestRefundInAFarm: a use goes back to the issuer, once, however often the message comes. If that is lost, so is the
// use.
func TestRefundInAFarm(t *testing.T) {
	f := newTestFarm()
	a, b, c := f.start(t, 'a', 2), f.start(t, 'b', 2), f.start(t, 'c', 2)
	stamp := f.pays(t, a)
	f.wants(t, a, stamp, true, weir.NoReason)
	_, refund := f.brings(b, stamp)
	f.wants(t, b, stamp, false, weir.NoReason) // which b then knows from a
	f.fate = func(_, _ [TagBytes]byte) fate { return comesTwice }
	refund()
	f.fate = func(_, _ [TagBytes]byte) fate { return arrives }
	_, refund = f.brings(b, stamp)
	if refund == nil {
		t.Fatal("what was given back is not there")
	}
	f.wants(t, c, stamp, false, weir.NoReason)
	f.fate = func(_, _ [TagBytes]byte) fate { return isLost }
	refund()
	f.fate = func(_, _ [TagBytes]byte) fate { return arrives }
	for _, at := range []*Throttle{a, b, c} {
		f.wants(t, at, stamp, false, weir.NoReason)
	}
}

// TestSmallerCoversCounts, while a reload goes round.
func TestSmallerCoversCounts(t *testing.T) {
	f := newTestFarm()
	a, b := f.start(t, 'a', 2), f.start(t, 'b', 5)
	for _, issuer := range []*Throttle{a, b} {
		p, err := issuer.setup.Load().issuer.Issue(f.now, Ask{Work: 64, Lifetime: time.Minute, Client: "client"})
		if err != nil {
			t.Fatal(err)
		}
		stamp, err := Solve(bg, p, SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		other := a
		if issuer == a {
			other = b
		}
		n := 0
		for range 10 {
			if paid, _ := f.brings(other, stamp); paid.Work > 0 {
				n++
			}
		}
		if n != 2 {
			t.Errorf("accepted %d times, by nodes that think it covers 2 and 5", n)
		}
	}
}

// TestJoinAndLeave: what was issued before is asked for anew, and never counted twice.
func TestJoinAndLeave(t *testing.T) {
	f := newTestFarm()
	a, b := f.start(t, 'a', 1), f.start(t, 'b', 1)
	alone := newThrottle(t, Options{Schedule: always, Covers: 1, Secret: farmSecret})
	before := f.pays(t, alone)
	s := &seat{f, [TagBytes]byte{'d'}}
	alone.Join(s, f.now)
	f.nodes[s.tag] = alone
	for _, at := range []*Throttle{alone, a} { // nobody can tell who issued it
		f.wants(t, at, before, false, weir.NoReason)
	}
	joined := f.pays(t, alone)
	if err := alone.Configure(Options{Schedule: always, Covers: 1, Secret: farmSecret, Patience: 7}, f.now,
		nofiles); err != nil {
		t.Fatal(err)
	}
	f.wants(t, b, joined, true, weir.NoReason) // it is still one of them
	f.wants(t, alone, joined, false, weir.Replayed)

	own, others := f.pays(t, alone), f.pays(t, b)
	alone.Join(nil, f.now)
	for _, stamp := range []string{own, others} {
		f.wants(t, alone, stamp, false, weir.NoReason)
	}
	f.now = f.now.Add(time.Second)
	f.wants(t, alone, f.pays(t, alone), true, weir.NoReason)
	f.wants(t, a, own, false, weir.NoReason)
	f.wants(t, a, others, true, weir.NoReason)
	q := question{kind: askSpend, use: Use{Covers: 1, Lifetime: time.Second}}
	if got := alone.Answer(f.now, q.append(nil)); got != nil {
		t.Errorf("%x: it is in no farm", got)
	}
}

// TestIssuerForgot: a reload that begins a new memory refuses what was issued before, for other nodes too.
func TestIssuerForgot(t *testing.T) {
	f := newTestFarm()
	a, b := f.start(t, 'a', 1), f.start(t, 'b', 1)
	f.now = f.now.Add(time.Second)
	spent, fresh := f.pays(t, a), f.pays(t, a)
	f.wants(t, b, spent, true, weir.NoReason)
	f.now = f.now.Add(time.Second)
	if err := a.Configure(Options{Schedule: always, Covers: 1, Secret: farmSecret, MaxSpent: 7}, f.now,
		nofiles); err != nil {
		t.Fatal(err)
	}
	b = f.start(t, 'b', 1)
	f.wants(t, b, spent, false, weir.NoReason)
	f.wants(t, b, fresh, false, weir.NoReason)
	f.wants(t, b, f.pays(t, a), true, weir.NoReason)
}

// TestFullAtTheIssuer: no room to remember another stamp, so it is not accepted. A full memory of other nodes' stamps
// only means that more is asked.
func TestFullAtTheIssuer(t *testing.T) {
	f := newTestFarm()
	a, b := f.start(t, 'a', 1), f.start(t, 'b', 1)
	for _, th := range []*Throttle{a, b} {
		if err := th.Configure(Options{Schedule: always, Covers: 1, Secret: farmSecret, MaxSpent: 2}, f.now,
			nofiles); err != nil {
			t.Fatal(err)
		}
	}
	f.now = f.now.Add(time.Second)
	for range 2 {
		f.wants(t, b, f.pays(t, a), true, weir.NoReason)
	}
	f.wants(t, b, f.pays(t, a), false, weir.Overload)
	c := f.start(t, 'c', 1)
	third := f.pays(t, c)
	f.wants(t, b, third, true, weir.NoReason)
	f.wants(t, b, third, false, weir.Replayed)
	if s := b.Stats(); s.Spent != 2 || s.Full != 1 {
		t.Errorf("%+v", s)
	}
}

// TestAReceiptIsSpentAtItsIssuer goes the same way as a stamp that is shown.
func TestAReceiptIsSpentAtItsIssuer(t *testing.T) {
	f := newTestFarm()
	a, b := f.start(t, 'a', 3), f.start(t, 'b', 3)
	issuer := b.setup.Load().issuer
	r, err := issuer.Verify(bg, f.now, f.pays(t, a), Demand{Client: "client", Covers: 3})
	if err != nil || r.Uses != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := issuer.Spend(bg, f.now, &r); err != nil || r.Uses != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := issuer.Refund(bg, f.now, &r); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := issuer.Spend(bg, f.now, &r); (err == nil) != (i < 2) || i == 2 && err != ErrReplayed {
			t.Fatalf("%d: %+v, %v", i, r, err)
		}
	}
	if n := a.Stats().Spent; n != 1 {
		t.Errorf("%d stamps are remembered where it was issued", n)
	}
}

// TestNeverMoreThanItCovers: over lost, repeated and garbled messages, restarts and reloads, no stamp is accepted more
// often than it covers, less what was given back.
func TestNeverMoreThanItCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		covers := rapid.IntRange(1, 3).Draw(t, "covers")
		f := newTestFarm()
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		trouble := rapid.IntRange(0, 90).Draw(t, "trouble")
		f.fate = func(_, _ [TagBytes]byte) fate {
			if rnd.IntN(100) >= trouble {
				return arrives
			}
			return []fate{isLost, answerLost, comesTwice, isGarbled}[rnd.IntN(4)]
		}
		nodes := make([]*Throttle, 3)
		for i := range nodes {
			nodes[i] = f.start(t, byte('a'+i), covers)
		}
		node := rapid.IntRange(0, 2)
		var stamps []string
		var refunds []func()
		var of []int // the stamp of each refund
		used := map[int]int{}
		t.Repeat(map[string]func(*rapid.T){
			"pay": func(t *rapid.T) {
				if len(stamps) < 5 {
					stamps = append(stamps, f.pays(t, nodes[node.Draw(t, "node")]))
				}
			},
			"bring": func(t *rapid.T) {
				if len(stamps) == 0 {
					return
				}
				i := rapid.IntRange(0, len(stamps)-1).Draw(t, "stamp")
				paid, refund := f.brings(nodes[node.Draw(t, "node")], stamps[i])
				if paid.Work > 0 {
					used[i]++
					refunds, of = append(refunds, refund), append(of, i)
				}
				if paid.Fault == weir.Forged {
					t.Fatal("forged")
				}
			},
			"refund": func(t *rapid.T) {
				if len(refunds) == 0 {
					return
				}
				i := rapid.IntRange(0, len(refunds)-1).Draw(t, "refund")
				refunds[i]()
				used[of[i]]--
				refunds, of = slices.Delete(refunds, i, i+1), slices.Delete(of, i, i+1)
			},
			"restart": func(t *rapid.T) {
				i := node.Draw(t, "node")
				nodes[i] = f.start(t, byte('a'+i), covers)
			},
			"reload": func(t *rapid.T) {
				f.now = f.now.Add(time.Millisecond) // as finely as challenges tell the time
				o := Options{Schedule: always, Covers: covers, Secret: farmSecret,
					MaxSpent: rapid.IntRange(10, 11).Draw(t, "max_spent")}
				if err := nodes[node.Draw(t, "node")].Configure(o, f.now, nofiles); err != nil {
					t.Fatal(err)
				}
			},
			"wait": func(t *rapid.T) {
				f.now = f.now.Add(time.Duration(rapid.IntRange(1, 60_000).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(t *rapid.T) {
				for i, n := range used {
					if n > covers {
						t.Fatalf("stamp %d was accepted %d times", i, n)
					}
				}
			},
		})
	})
}

// FuzzQuestion: what is read is written the same way, and no question makes a node panic or say yes to what it did not
// issue.
func FuzzQuestion(f *testing.F) {
	farm := newTestFarm()
	a := farm.start(f, 'a', 3)
	n := Nonce{'a', 1, 7: 0, 8: 9}
	u := Use{Nonce: n, Expires: start.Add(time.Minute), Lifetime: time.Minute, Covers: 2}
	for _, kind := range []byte{askSpend, askRefund, 3} {
		f.Add((&question{kind: kind, use: u}).append(nil))
		f.Add((&question{kind: kind, use: Use{Expires: start, Lifetime: 1, Covers: 1}}).append(nil))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		answer := a.Answer(start, text)
		q, err := parseQuestion(text)
		if (err == nil) != (answer != nil) {
			t.Fatalf("%v, %x", err, answer)
		}
		if err != nil {
			return
		}
		if again := q.append(nil); string(again) != string(text) {
			t.Fatalf("%x is read and written %x", text, again)
		}
		r, err := parseReply(answer)
		if err != nil || r.result == nil && q.use.Nonce.issuer() != [TagBytes]byte{'a', 1} {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}

// FuzzReply: what is read is written the same way.
func FuzzReply(f *testing.F) {
	for _, err := range results() {
		f.Add((&reply{err, 3}).append(nil))
	}
	f.Add([]byte{wireVersion, 5, 0, 0, 0, 0})
	f.Add([]byte{2, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := parseReply(text); err == nil && string(r.append(nil)) != string(text) {
			t.Fatalf("%x is read and written %x", text, r.append(nil))
		}
	})
}
