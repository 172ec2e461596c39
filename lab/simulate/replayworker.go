package simulate

import (
	"encoding/binary"
	"fmt"
	"time"

	"weir/throttle/outbreak"
)

// A replayJob is mails of one user, to be run under all columns.
type replayJob struct {
	u     *replayUser
	words []uint64
	last  bool // nothing more will come
}

// A replayWorker runs the mails of some of the users.
type replayWorker struct {
	jobs    chan replayJob
	general outbreak.Params
	columns []outbreak.Params
	tallies []tally // of each column
	packing []byte
	out     []outbreak.Item
}

func newReplayWorker(general outbreak.Params, columns []outbreak.Params) *replayWorker {
	w := &replayWorker{jobs: make(chan replayJob, 16), general: general, columns: columns,
		tallies: make([]tally, len(columns))}
	w.tallies[0].line.bound = mainChanges
	return w
}

// run runs jobs until there are no more, and gives back what they came in.
func (w *replayWorker) run(spare chan<- []uint64) {
	for j := range w.jobs {
		w.job(j)
		if cap(j.words) == maxPending {
			select {
			case spare <- j.words:
			default:
			}
		}
	}
}

// What is kept of a user in front of each state.
const (
	wasDelayed byte = 1 << iota
	wasStopped
)

// job runs mails of a user, one column after the other, so that a state is unpacked once for many mails. States are
// kept as bytes: there are as many for each user as values are tried. Users who have sent little have none yet.
func (w *replayWorker) job(j replayJob) {
	u, kept := j.u, j.u.packed
	if len(j.words) == 0 && len(kept) == 0 {
		return
	}
	w.packing = w.packing[:0]
	for i := range w.columns {
		one := columnRun{p: w.columns[i], t: &w.tallies[i], out: w.out}
		if u.own != nil {
			one.p = ownColumn(w.general, w.columns[i], *u.own)
		}
		if i == 0 {
			one.u = &u.userTally
		}
		kept = one.unpack(kept)
		one.mails(j.words)
		if j.last {
			one.rest()
		} else {
			w.packing = one.pack(w.packing)
		}
		w.out = one.out
	}
	u.packed = nil
	if !j.last {
		u.packed = append(make([]byte, 0, len(w.packing)), w.packing...)
	}
}

// ownColumn returns the parameters of a user who has some of their own, where others are tried for everybody: their own
// ones stay.
func ownColumn(general, tried, own outbreak.Params) outbreak.Params {
	for _, s := range sweepables {
		if s.count != nil && *s.count(&own) == *s.count(&general) {
			*s.count(&own) = *s.count(&tried)
		}
	}
	if own.Every == general.Every {
		own.Every = tried.Every
	}
	if own.MultiEvery == general.MultiEvery {
		own.MultiEvery = tried.MultiEvery
	}
	return own
}

// A columnRun runs mails of one user under the parameters of one column.
type columnRun struct {
	p     outbreak.Params
	s     outbreak.State
	t     *tally
	u     *userTally // only where the user is studied
	flags byte
	out   []outbreak.Item
}

// unpack reads the state, and returns the bytes after it.
func (c *columnRun) unpack(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	c.flags = b[0]
	n, size := binary.Uvarint(b[1:])
	b = b[1+size:]
	if err := c.s.UnmarshalBinary(b[:n]); err != nil {
		panic(fmt.Sprint("simulate: a state that cannot be read: ", err)) // pack wrote it
	}
	return b[n:]
}

// pack appends the state to b.
func (c *columnRun) pack(b []byte) []byte {
	b = append(b, c.flags)
	// The length goes before the state, and is known only after it: there is room for the longest.
	start := len(b) + binary.MaxVarintLen32
	b = append(b, make([]byte, binary.MaxVarintLen32)...)
	b, _ = c.s.AppendBinary(b)
	state := b[start:]
	b = binary.AppendUvarint(b[:start-binary.MaxVarintLen32], uint64(len(state)))
	return append(b, state...)
}

// mails runs mails. The number of a mail is its time, so that the queue itself knows how long each recipient waits.
func (c *columnRun) mails(words []uint64) {
	for len(words) > 0 {
		at, n := int64(words[0]), words[1]
		keys := words[2 : 2+n]
		words = words[2+n:]
		now := time.Unix(0, at)
		c.tick(now)
		d := c.s.Submit(&c.p, now, uint64(at), keys, nil, nil)
		switch {
		case d.Held:
			c.delayed()
			c.t.large++
		case d.Refused: // with this mail there would be more in the queue than any queue has room for
			c.delayed()
			c.stop(at)
		case d.Delayed > 0:
			c.delayed()
			c.t.waited += d.Delayed
			c.t.line.add(at, d.Delayed, 0)
			if c.u != nil {
				c.u.most = max(c.u.most, len(c.s.Waiting()))
			}
			if d.Stopped {
				c.stop(at)
			}
		}
	}
}

// delayed counts a mail that does not go on as it is.
func (c *columnRun) delayed() {
	c.t.delayed++
	if c.flags&wasDelayed == 0 {
		c.flags |= wasDelayed
		c.t.delayedUsers++
	}
	if c.u != nil {
		c.u.delayed++
	}
}

// stop counts a stop: the user releases everything, and goes on.
func (c *columnRun) stop(at int64) {
	c.t.stops++
	if c.flags&wasStopped == 0 {
		c.flags |= wasStopped
		c.t.stoppedUsers++
	}
	if c.u != nil {
		c.u.stops++
	}
	if n := len(c.s.Take(func(outbreak.Item) bool { return true })); n > 0 {
		c.t.line.add(at, 0, n)
	}
	c.s.Resume(&c.p, time.Unix(0, at), false)
}

// tick runs the clock until now, and counts who leaves by it and when.
func (c *columnRun) tick(now time.Time) {
	one := c.p.Every == c.p.MultiEvery
	for due := c.s.Due(&c.p); !due.IsZero() && !due.After(now); due = c.s.Due(&c.p) {
		until, at, step := due, due.UnixNano(), int64(0)
		if one {
			until, step = now, int64(c.p.Every) // those who leave do so one period after the other
		}
		c.out = c.s.Tick(&c.p, until, c.out[:0])
		for _, it := range c.out {
			c.left(time.Duration(at-int64(it.Mail)), at)
			at += step
		}
		if len(c.out) == 0 {
			break
		}
	}
	if !one {
		c.s.Tick(&c.p, now, nil) // one clock may earn credit while recipients wait for the other
	}
}

// rest lets all recipients leave that still wait.
func (c *columnRun) rest() {
	if len(c.s.Waiting()) > 0 {
		c.tick(latest.AddDate(50, 0, 0))
	}
}

// left counts a recipient that leaves the queue by the clock.
func (c *columnRun) left(waited time.Duration, at int64) {
	ms := waited.Milliseconds()
	c.t.leaves(ms)
	c.t.line.add(at, -1, 0)
	if c.u != nil {
		c.u.left.add(delaySum{1, ms, ms})
	}
}
