package farm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Bounds of what a Pot is asked.
const (
	MaxKey    = 512 // bytes
	MaxRule   = 512 // bytes
	MaxRun    = 128 // bytes
	MaxMark   = 512 // bytes
	MaxWants  = 64
	MaxRuns   = 128     // of which a pot keeps totals for one key
	MaxRules  = 256     // that count for one key at the same time
	MaxNumber = 1 << 53 // engines count in floating point
	MinPeriod = time.Millisecond
	MaxPeriod = 10 * 366 * 24 * time.Hour
	MaxLife   = 2 * time.Second // of a level, and of what is taken ahead of a steady rate
)

// Never is how long to wait for what will not come.
const Never = time.Duration(math.MaxInt64)

// Errors of a pot. Engines have more.
var (
	ErrAsk     = errors.New("the pot cannot be asked that")
	ErrNumber  = errors.New("the number is too large for a pot")
	ErrOutside = errors.New("the engine's time is outside of the period")
	ErrCrowded = errors.New("too many rules or runs count for one key")
	ErrEngine  = errors.New("the engine is another one than the call was for")
)

// A Pot holds what the nodes of a farm have been granted of the limits of an account. It is in an engine that all nodes
// reach, and that has its own clock. Together they are never granted more than a limit. Goroutines may share a Pot.
//
// A node tells totals, never differences: in each Want, what it has spent of the current slice. The engine takes its
// word and adds what it grants. So a call whose reply is lost does no harm: it can be repeated with the same number, or
// superseded by the next one. A call that arrives after a later one changes nothing.
//
// Who calls it keeps these rules:
//
//   - For each key it has one call under way. Each has a greater Seq, unless it repeats one.
//   - From when it calls until the reply comes it spends no more than Used, even if it had been granted more. It spends
//     no more than Total afterwards. This holds after an error as well: the engine may have done its part.
//   - It spends only while For lasts, counted from when it called.
//   - When Slice is another one, nothing is spent of Total yet. What it spent of the last slice over its total, it may
//     count as Used of this one.
//
// To return what it does not need, a node asks for nothing: Need and Ahead are 0. What it was granted and has not spent
// is free at once. It does the same to tell of what was spent although it was not granted: Used is taken as it is, also
// over the limit.
//
// An engine that was restarted or promoted may have lost what it knew: it has another identity then. A limit whose
// window began earlier is closed until all nodes have told what they know (any Take does that). Nodes that hear of it
// tell at once, and who is refused for it asks again each second. The latest of their marks is the last state that
// somebody knows. A window that began MaxLife after the engine did, or later, is open: nothing of it can have been
// lost, as clocks of engines differ by less.
type Pot interface {
	// Take tells what this node has used, and asks for more. Either all wants are granted what they need, or none is
	// granted anything. With ErrOutside and ErrEngine the reply tells the engine's time and identity, and nothing has
	// changed.
	Take(ctx context.Context, ask Ask) (Reply, error)
	// Close lets go of the engine.
	Close()
}

// An Ask is one call.
type Ask struct {
	Key string // throttle and account
	// Run is the run of the node that asks: another one after a restart. A node that has forgotten what it spent of a
	// key goes on under the same name with a plus and something else: what it had stays counted. The part before the
	// plus is the node.
	Run string
	Seq uint64 // greater than in all earlier calls for this key by this run
	// Nodes are all of the farm, also those that cannot be heard. They must have told what they know before a key under
	// a new engine is open. Those that have told an engine of all keys stand there as Excused says.
	Nodes []string
	// Engine is the identity of the engine that the call is for. Leave it empty: the pot knows. A call that was sent to
	// an earlier engine tells too little, and must not be taken for the last word.
	Engine string
	// Drop has all that is kept for the key forgotten, unless another node has used it, or this one has since. It is
	// for accounts that somebody invented. There are no wants then, and the reply says whether it was granted.
	Drop  bool
	Wants []Want
}

// A Way is how a pot counts.
type Way uint8

const (
	Fixed   Way = iota // from zero in each period
	Sliding            // over the last period, in 16 buckets and the current one
	Steady             // paid off at a steady rate
	Level              // what is under way at the same time
)

// A Want is what a node asks of one limit.
type Want struct {
	Rule   string // identity of the limit: the same on all nodes, another one when it counts something else
	Way    Way
	Limit  int64
	Burst  int64         // Steady: how many at once
	Period time.Duration // Fixed, Sliding, Steady: whole microseconds
	// Start and End are the bounds of the current period where calendars make them, instead of Period.
	Start, End time.Time
	// Life is how long what is granted of a steady rate may be kept: 0 is "spend it when the reply comes". The burst is
	// smaller by what the rate gives in that time, so that what is spent late is not too much. Of a level it is when
	// the node is taken for dead unless it has asked again; 0 is MaxLife.
	Life time.Duration
	// Forget starts the limit anew, as an operator has said: what was spent counts no more, Used with it. When the call
	// has been answered, nothing is spent of Total yet. What nodes have been granted and not spent they may spend.
	// A level has nothing to forget.
	Forget bool
	// Unknown: an earlier run of the node may have been granted something in this window, and nobody knows how much. A
	// new engine stays closed until the window is over.
	Unknown bool

	Mark  string // of the last Grant for this rule and key, "" if there is none
	Used  int64  // spent of that grant's slice, and what will be before the reply comes; Level: what is under way
	Need  int64  // so many more, or nothing
	Ahead int64  // so many more than Need, if they are there
}

// A Reply is what a pot answers.
type Reply struct {
	Engine string    // its identity
	Now    time.Time // by its clock
	// Granted: each want has what it needed.
	Granted bool
	// Stale: a call with this number, or a greater one, was there before. The grants are what there is.
	Stale bool
	// Failed is the want that must wait longest, -1 if none must. Wait is how long if nobody returns anything.
	Failed int
	Wait   time.Duration
	// Waiting are the nodes that have to tell what they know. Until then nothing is granted.
	Waiting []string
	Grants  []Grant // one for each want
}

// A Grant is what this node has of one limit.
type Grant struct {
	Slice  int64 // what Total is of: another number is another slice. Level: 0
	Total  int64 // what this node may spend of the slice, with what it has spent
	Others int64 // what is counted besides Total in the window; Steady: 0
	Left   int64 // what could be granted now
	For    time.Duration
	Mark   string // for the next Want
}

// Excused returns how a node stands among Nodes that began, at a time by the clock of an engine, to tell it all that it
// knows, and has. It counts as long as the engine is the same and has forgotten nothing since.
func Excused(node, engine string, at time.Time) string {
	b := append(append([]byte(node), 0), tailOf(engine)...)
	return string(binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(at.UnixMicro()))))
}

// Excuse returns the node of an entry of Nodes, and whether it has told an engine of all keys that knows nothing that
// is older than birth, in microseconds.
func Excuse(entry, engine string, birth int64) (node string, excused bool) {
	node, rest, _ := strings.Cut(entry, "\x00")
	if len(rest) != 16 || rest[:8] != tailOf(engine) {
		return node, false
	}
	return node, math.Float64frombits(binary.LittleEndian.Uint64([]byte(rest[8:]))) >= float64(birth)
}

// tailOf is the last 8 bytes of an engine's identity.
func tailOf(engine string) string {
	engine = "        " + engine
	return engine[len(engine)-8:]
}

// Home is the node of a run.
func Home(run string) string {
	home, _, _ := strings.Cut(run, "+")
	return home
}

// Check tells whether a pot can be asked that. Engines call it.
func (a *Ask) Check() error {
	switch {
	case a.Key == "" || len(a.Key) > MaxKey:
		return fmt.Errorf("%w: its key has %d bytes, 1 to %d are possible", ErrAsk, len(a.Key), MaxKey)
	case a.Drop && len(a.Wants) > 0:
		return fmt.Errorf("%w: it is to be dropped, and has %d wants", ErrAsk, len(a.Wants))
	case !a.Drop && (len(a.Wants) == 0 || len(a.Wants) > MaxWants):
		return fmt.Errorf("%w: it has %d wants, 1 to %d are possible", ErrAsk, len(a.Wants), MaxWants)
	case len(a.Nodes) > MaxNodes:
		return fmt.Errorf("%w: it names %d nodes, %d are possible", ErrAsk, len(a.Nodes), MaxNodes)
	case a.Seq == 0:
		return fmt.Errorf("%w: its number is 0, the first one is 1", ErrAsk)
	case a.Seq > MaxNumber:
		return fmt.Errorf("%w: Seq is %d, the most is 2^53", ErrNumber, a.Seq)
	}
	if err := checkRun(a.Run); err != nil {
		return err
	}
	for _, node := range a.Nodes {
		if err := checkRun(node); err != nil {
			return err
		}
	}
	for i := range a.Wants {
		w := &a.Wants[i]
		if err := w.check(); err != nil {
			return fmt.Errorf("want %d: %w", i, err)
		}
		for j := range i { // they are few
			if a.Wants[j].Rule == w.Rule {
				return fmt.Errorf("%w: two wants are of the rule %q", ErrAsk, w.Rule)
			}
		}
	}
	return nil
}

func checkRun(run string) error {
	if run == "" || len(run) > MaxRun {
		return fmt.Errorf("%w: a run is named with %d bytes, 1 to %d are possible", ErrAsk, len(run), MaxRun)
	}
	return nil
}

func (w *Want) check() error {
	for _, n := range [...]struct {
		name  string
		value int64
	}{{"Limit", w.Limit}, {"Burst", w.Burst}, {"Used", w.Used}, {"Need", w.Need}, {"Ahead", w.Ahead}} {
		switch {
		case n.value < 0:
			return fmt.Errorf("%w: %s is %d, below zero", ErrAsk, n.name, n.value)
		case n.value > MaxNumber:
			return fmt.Errorf("%w: %s is %d, the most is 2^53", ErrNumber, n.name, n.value)
		}
	}
	calendar := !w.Start.IsZero() || !w.End.IsZero()
	switch {
	case w.Rule == "" || len(w.Rule) > MaxRule:
		return fmt.Errorf("%w: its rule has %d bytes, 1 to %d are possible", ErrAsk, len(w.Rule), MaxRule)
	case len(w.Mark) > MaxMark:
		return fmt.Errorf("%w: its mark has %d bytes, %d are possible", ErrAsk, len(w.Mark), MaxMark)
	case w.Way > Level:
		return fmt.Errorf("%w: there is no way %d", ErrAsk, w.Way)
	case w.Forget && w.Way == Level:
		return fmt.Errorf("%w: a level has nothing to forget", ErrAsk)
	case w.Life < 0 || w.Life > MaxLife:
		return fmt.Errorf("%w: Life is %v, at most %v are possible", ErrAsk, w.Life, MaxLife)
	case w.Life != 0 && w.Way != Steady && w.Way != Level:
		return fmt.Errorf("%w: Life is for steady rates and levels", ErrAsk)
	case w.Way == Level:
		return nil
	case calendar && (w.Way != Fixed || w.Period != 0):
		return fmt.Errorf("%w: Start and End are for fixed periods, instead of Period", ErrAsk)
	case w.End.Year() > 2200: // microseconds since the epoch must stay below 2^53
		return fmt.Errorf("%w: End is in the year %d", ErrNumber, w.End.Year())
	case calendar && (w.Start.Unix() < 0 || w.End.Sub(w.Start) < MinPeriod || w.End.Sub(w.Start) > MaxPeriod):
		return fmt.Errorf("%w: from %v to %v is not a period", ErrAsk, w.Start, w.End)
	case !calendar && (w.Period < MinPeriod || w.Period > MaxPeriod):
		return fmt.Errorf("%w: Period is %v, %v to %v are possible", ErrAsk, w.Period, MinPeriod, MaxPeriod)
	case w.Period%time.Microsecond != 0:
		return fmt.Errorf("%w: Period is %v, which is not a whole number of microseconds", ErrAsk, w.Period)
	}
	return nil
}
