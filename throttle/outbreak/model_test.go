package outbreak

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A model is the throttle as one would write it down without a thought of its cost: it counts the seconds one by one,
// and keeps credit, not what is missing of it. Rates are whole seconds.
type model struct {
	p             Params
	now           int // seconds since the epoch of the tests
	started       bool
	c1, c2        int // seconds since the clocks ticked
	slack, mSlack int
	set           []uint64 // the oldest first
	queue         []Item
	stopped       bool
	operator      bool
	slow          bool
	since         int
}

func (m *model) periods() (one, several int) {
	one, several = int(m.p.Every/time.Second), int(m.p.MultiEvery/time.Second)
	if m.slow {
		return one * m.p.Slow, several * m.p.Slow
	}
	return one, several
}

// second lets a second pass.
func (m *model) second() (out []Item) {
	m.now++
	if !m.started {
		return nil
	}
	m.c1++
	m.c2++
	one, several := m.periods()
	if m.stopped {
		m.c1 %= one
		m.c2 %= several
		return nil
	}
	if one == several {
		if m.c1 == one {
			m.c1, m.c2 = 0, 0
			if len(m.queue) > 0 {
				return m.leave(0)
			}
			m.slack, m.mSlack = min(m.slack+1, m.p.MaxSlack), min(m.mSlack+1, m.p.MaxMSlack)
		}
		return nil
	}
	if m.c1 == one {
		m.c1 = 0
		if i := m.first(true); i >= 0 {
			out = append(out, m.leave(i)...)
		} else {
			m.slack = min(m.slack+1, m.p.MaxSlack)
		}
	}
	if _, several = m.periods(); m.c2 == several {
		m.c2 = 0
		if i := m.first(false); i >= 0 {
			out = append(out, m.leave(i)...)
		} else {
			m.mSlack = min(m.mSlack+1, m.p.MaxMSlack)
		}
	}
	return out
}

func (m *model) first(single bool) int {
	return slices.IndexFunc(m.queue, func(it Item) bool { return it.Single == single })
}

func (m *model) leave(i int) []Item {
	it := m.queue[i]
	m.queue = slices.Delete(m.queue, i, i+1)
	if it.Single {
		m.remember(it.Key)
	}
	return []Item{it}
}

// full ends slow motion when nobody waits and the credit is full.
func (m *model) full() {
	if m.slow && len(m.queue) == 0 && m.slack == m.p.MaxSlack && m.mSlack == m.p.MaxMSlack {
		m.normal()
	}
}

// normal ends slow motion. The clocks have ticked in the normal pace all the while, as it were.
func (m *model) normal() {
	m.slow = false
	one, several := m.periods()
	m.c1 %= one
	m.c2 %= several
}

func (m *model) remember(key uint64) {
	if i := slices.Index(m.set, key); i >= 0 {
		if m.p.FIFO {
			return
		}
		m.set = slices.Delete(m.set, i, i+1)
	}
	m.set = append(m.set, key)
	m.set = m.set[max(0, len(m.set)-m.p.WorkingSet):]
}

func (m *model) submit(mail uint64, keys []uint64) (d Decision, fates []Fate) {
	fates = make([]Fate, len(keys))
	if m.stopped {
		return refused, fates
	}
	before := *m
	before.queue, before.set = slices.Clone(m.queue), slices.Clone(m.set)
	if !m.started {
		m.started, m.c1, m.c2, m.slack, m.mSlack = true, 0, 0, m.p.MaxSlack, m.p.MaxMSlack
	}
	for i, key := range keys {
		switch {
		case len(keys) == 1 && slices.Contains(m.set, key):
			m.remember(key)
		case len(keys) == 1 && m.slack > 0:
			m.slack--
			m.remember(key)
		case len(keys) > 1 && m.mSlack > 0:
			m.mSlack--
		default:
			fates[i] = Delay
			m.queue = append(m.queue, Item{mail, i, key, len(keys) == 1})
			d.Delayed++
			continue
		}
		d.Passed++
	}
	if m.p.HoldLarge && d.Delayed > m.p.Stop {
		*m = before
		for i := range fates {
			fates[i] = Hold
		}
		return Decision{Held: true}, fates
	}
	if d.Delayed > 0 && len(m.queue) > m.p.Stop {
		d.Stopped = true
		m.stop()
	}
	return d, fates
}

func (m *model) stop() {
	if !m.stopped {
		m.since = m.now
	}
	m.stopped = true
	if m.slow {
		m.normal()
	}
}

func (m *model) resume(slow bool) {
	if m.slow && !slow {
		m.normal()
	}
	if m.stopped {
		m.queue = nil
		if slow && m.started {
			m.slack, m.mSlack = 0, 0
		}
	}
	m.stopped, m.operator, m.slow = false, false, slow && m.started
	m.full()
}

// Whatever happens, the state machine says what the model says, which ticks second by second.
func TestAgainstTheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seconds := func(most int, what string) time.Duration {
			return time.Duration(rapid.IntRange(1, most).Draw(rt, what)) * time.Second
		}
		p := Params{
			Every:      seconds(7, "every"),
			WorkingSet: rapid.IntRange(0, 4).Draw(rt, "working set"),
			FIFO:       rapid.Bool().Draw(rt, "fifo"),
			MaxSlack:   rapid.IntRange(0, 3).Draw(rt, "max slack"),
			MaxMSlack:  rapid.IntRange(0, 5).Draw(rt, "max mSlack"),
			Stop:       rapid.IntRange(0, 8).Draw(rt, "stop"),
			HoldLarge:  rapid.Bool().Draw(rt, "hold large"),
			Slow:       rapid.IntRange(1, 4).Draw(rt, "slow"),
		}
		p.MultiEvery = p.Every
		if rapid.Bool().Draw(rt, "two rates") {
			p.MultiEvery = seconds(9, "multi every")
		}
		if rapid.Bool().Draw(rt, "tried again") {
			p.Resume = seconds(40, "resume")
		}
		s, m := &State{}, &model{p: p}
		at := func() time.Time { return epoch.Add(time.Duration(m.now) * time.Second) }
		same := func(what string, got, want any) {
			rt.Helper()
			if !reflect.DeepEqual(got, want) {
				rt.Fatalf("%s at %d s: %v, the model says %v", what, m.now, got, want)
			}
		}
		pass := func(n int) {
			var out []Item
			for range n {
				out = append(out, m.second()...)
			}
			before, _ := s.AppendBinary(nil)
			peeked := s.Peek(&p, at(), []uint64{3}, nil)
			slack, mSlack := s.Credit(&p, at())
			if after, _ := s.AppendBinary(nil); !bytes.Equal(before, after) {
				rt.Fatal("a look changed it")
			}
			m.full()
			same("left", s.Tick(&p, at(), nil), out)
			same("peeked", peeked, s.Peek(&p, at(), []uint64{3}, nil))
			slackNow, mSlackNow := s.Credit(&p, at())
			same("credit", [...]int{slack, mSlack}, [...]int{slackNow, mSlackNow})
			if m.stopped && !m.operator && p.Resume > 0 && m.now-m.since >= int(p.Resume/time.Second) {
				m.resume(true)
			}
		}
		for mail := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0, 1, 2:
				pass(rapid.IntRange(0, 12).Draw(rt, "seconds"))
			case 3:
				pass(rapid.IntRange(20, 200).Draw(rt, "many seconds"))
			case 4, 5, 6, 7:
				most := 1
				if rapid.Bool().Draw(rt, "several") {
					most = 12
				}
				keys := rapid.SliceOfN(rapid.Uint64Range(1, 9), 1, most).Draw(rt, "to")
				fates, peeked := make([]Fate, len(keys)), make([]Fate, len(keys))
				peek := s.Peek(&p, at(), keys, peeked)
				d := s.Submit(&p, at(), uint64(mail), keys, nil, fates)
				want, placed := m.submit(uint64(mail), keys)
				same("decided", d, want)
				same("peeked", peek, want)
				same("placed", fates, placed)
				same("peeked places", peeked, placed)
			case 8:
				if slow := rapid.Bool().Draw(rt, "slowly"); rapid.Bool().Draw(rt, "resume") {
					s.Resume(&p, at(), slow)
					m.resume(slow)
				} else {
					s.Stop(at())
					m.stop()
					m.operator = true
				}
			case 9:
				match := func(it Item) bool { return it.Key%3 == 0 }
				var taken []Item
				m.queue = slices.DeleteFunc(m.queue, func(it Item) bool {
					if match(it) {
						taken = append(taken, it)
					}
					return match(it)
				})
				same("taken", s.Take(match), taken)
				m.full()
			}
			same("left", s.Tick(&p, at(), nil), []Item(nil))
			_, stopped := s.Stopped()
			same("stopped", stopped, m.stopped)
			same("slow", s.Slow(), m.slow)
			var queue []Item
			queue = append(queue, m.queue...)
			same("waiting", s.Waiting(), queue)
			if m.started {
				slack, mSlack := s.Credit(&p, at())
				same("slack", slack, m.slack)
				same("mSlack", mSlack, m.mSlack)
			}
			recent := slices.Clone(m.set)
			slices.Reverse(recent)
			same("working set", append([]uint64{}, s.set...), append([]uint64{}, recent...))
			s = reread(rt, s)
			dueIsDue(rt, &p, s, at())
		}
	})
}

// reread writes a state and reads it again.
func reread(t rapid.TB, s *State) *State {
	t.Helper()
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	var read State
	if err := read.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(&read, s) {
		t.Fatalf("%+v becomes %+v: %v", s, read, err)
	}
	if again, _ := read.AppendBinary(nil); !bytes.Equal(again, b) {
		t.Fatalf("%x becomes %x", b, again)
	}
	return &read
}

// dueIsDue: just before Due nothing happens, and then something does.
func dueIsDue(t rapid.TB, p *Params, s *State, now time.Time) {
	t.Helper()
	due := s.Due(p)
	if due.IsZero() {
		if _, stopped := s.Stopped(); len(s.queue) > 0 && !stopped {
			t.Fatal("somebody waits, and nothing is due")
		}
		return
	}
	if due.Before(now) {
		t.Fatalf("due %s at %s", due, now)
	}
	c := reread(t, s)
	_, stopped := c.Stopped()
	if out := c.Tick(p, due.Add(-1), nil); len(out) > 0 {
		t.Fatalf("%v left before %s", out, due)
	}
	if _, still := c.Stopped(); still != stopped {
		t.Fatalf("resumed before %s", due)
	}
	out := c.Tick(p, due, nil)
	if _, still := c.Stopped(); len(out) == 0 && still == stopped {
		t.Fatalf("nothing happened at %s", due)
	}
}

// How often somebody looks makes no difference: one Tick does what many do.
func TestLookingSeldom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := standard()
		p.MultiEvery = time.Duration(rapid.IntRange(20, 90).Draw(rt, "multi every")) * time.Second
		p.MaxMSlack = rapid.IntRange(0, 3).Draw(rt, "max mSlack")
		often := &State{}
		often.Submit(&p, epoch, 1, []uint64{1, 2, 3, 4, 5, 6}, nil, nil)
		for key := range uint64(6) {
			often.Submit(&p, epoch, 2+key, []uint64{100 + key}, nil, nil)
		}
		if rapid.Bool().Draw(rt, "slowly") {
			often.Resume(&p, epoch, true)
		}
		seldom := reread(rt, often)
		var many []Item
		now := epoch
		for _, ms := range rapid.SliceOfN(rapid.IntRange(0, 100_000), 1, 20).Draw(rt, "ms") {
			now = now.Add(time.Duration(ms) * time.Millisecond)
			many = often.Tick(&p, now, many)
		}
		one := seldom.Tick(&p, now, nil)
		if !slices.Equal(one, many) || !reflect.DeepEqual(often, seldom) {
			rt.Fatalf("%v and %v,\n%+v and %+v", one, many, seldom, often)
		}
	})
}
