package quota

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"weir"
)

// What is granted quickly of a loan is granted as everything else is. The same events go to two farms of one node, one
// of which has the long way only.
func TestExactGrant(t *testing.T) {
	for _, window := range []WindowKind{Fixed, Sliding, GCRA} {
		t.Run(string(window), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				r := rand.New(rand.NewPCG(seed, 1))
				o := exactly(Policy{Limit: Count(200), Period: weir.Period{Length: 4 * time.Second}, Window: window})
				var nodes [2]*lendingNode
				for i := range nodes {
					f := newLendingFarm(t, 1, o)
					defer f.close()
					f.lag.Store(0)
					nodes[i] = f.nodes[0]
				}
				if nodes[0].rules.Load().only == nil {
					t.Fatal("nothing is quick")
				}
				nodes[1].rules.Load().only = nil
				granted := 0
				for n := range 2000 {
					ev := weir.Event{Time: time.Now(), Account: "alice", Cost: r.Int64N(3)}
					var answers [2]weir.Answer
					for i, node := range nodes {
						a := &answers[i]
						_ = node.Judge(t.Context(), &ev, a)
						synctest.Wait()
						if !a.Hold.IsZero() {
							node.Settle(a.Hold, weir.Outcome{Time: ev.Time, Done: a.Verdict == weir.Admit})
						}
						a.Hold = weir.Hold{}
					}
					if !reflect.DeepEqual(answers[0], answers[1]) {
						t.Fatalf("event %d:\nquick %+v\nwhole %+v", n, answers[0], answers[1])
					}
					if answers[0].Verdict == weir.Admit {
						granted++
					}
					// Nothing else is due at the same nanosecond.
					time.Sleep(time.Duration(r.Int64N(int64(30 * time.Millisecond))))
					if r.IntN(200) == 0 {
						time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
					}
				}
				if granted < 500 {
					t.Errorf("only %d events were granted", granted)
				}
			})
		})
	}
}

// Nobody waits for the engine while an account uses what it has on loan, however long that goes on.
func TestExactRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLendingFarm(t, 2, exactly(Policy{Limit: Count(1_000_000), Period: hour}))
		defer f.close()
		n := f.nodes[0]
		use := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
				var a weir.Answer
				_ = n.Judge(t.Context(), &weir.Event{Time: time.Now(), Account: "alice"}, &a)
				if a.Verdict != weir.Admit {
					t.Fatalf("%v: %v", a.Verdict, a.Reason)
				}
				n.Settle(a.Hold, weir.Outcome{Time: time.Now(), Done: true})
			}
		}
		use(2 * time.Second)
		before := n.lender.Stats()
		use(10 * time.Second)
		s := n.lender.Stats()
		if s.Waited != before.Waited {
			t.Errorf("%d events waited", s.Waited-before.Waited)
		}
		if calls := s.Calls - before.Calls; calls < 10 || calls > 40 {
			t.Errorf("%d calls in ten seconds", calls)
		}
	})
}
