package simulate

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"weir"
	"weir/throttle/outbreak"
)

// Bounds of a virus that is tried.
const (
	MaxVirusRate       = 60_000 // mails a minute
	MaxVirusRecipients = outbreak.MaxRecipients
	virusDay           = 24 * time.Hour // a virus that is not stopped by then never is
	virusMails         = 100_000        // … or after so many, for one that is fast
	virusRecipients    = 1_000_000      // … or recipients, for one that writes to many
	virusEffort        = 200_000        // recipients in all, over all phases of the clock
	virusPhases        = 1_200          // of a minute: one each 50 ms
)

// DefaultVirusRate is how many mails a minute a virus sends where nobody said otherwise.
const DefaultVirusRate = 60

// VirusOptions say how a virus sends.
type VirusOptions struct {
	Rate       float64 // mails a minute. Default 60.
	Recipients int     // of each mail. Default 1.
	// the share of recipients that the user wrote to lately: they are in the working set. Default 0: all are new.
	Known float64
}

// WithDefaults returns the options with everything filled in that was left out.
func (o VirusOptions) WithDefaults() VirusOptions {
	o.Rate = cmp.Or(o.Rate, DefaultVirusRate)
	o.Recipients = cmp.Or(o.Recipients, 1)
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o VirusOptions) Validate() error {
	var m weir.Mistakes
	if !(o.Rate == 0 || o.Rate >= 0.01 && o.Rate <= MaxVirusRate) {
		m.Add("rate", fmt.Sprintf("%v messages a minute are out of bounds", o.Rate),
			fmt.Sprintf("between 0.01 and %d", MaxVirusRate))
	}
	m.Count("recipients", o.Recipients, MaxVirusRecipients)
	if !(o.Known >= 0 && o.Known <= 1) {
		m.Add("known", fmt.Sprintf("%v is not a share", o.Known), "between 0% and 100%")
	}
	return m.Err()
}

// A VirusRange is what becomes of a virus between the worst and the best moment for it to begin.
type VirusRange struct {
	Worst VirusPoint `json:"worst"` // the most that pass in any phase, and the latest stop in any
	Best  VirusPoint `json:"best"`
}

// Virus lets a virus send mail as a user who has been quiet, beginning in every phase of their clock, both with full
// credit and with the credit just spent by a mail of their own. It stops after a day, 100,000 mails or a million
// recipients.
func Virus(p outbreak.Params, o VirusOptions) (VirusRange, error) {
	if err := o.Validate(); err != nil {
		return VirusRange{}, err
	}
	return tryVirus(p, o, virusPhases), nil
}

// tryVirus is Virus with at most so many phases.
func tryVirus(p outbreak.Params, o VirusOptions, phases int) (all VirusRange) {
	v := newOutbreaker(p, o.WithDefaults())
	phases = max(1, min(phases, int(v.p.Every/(50*time.Millisecond))))
	first := v.outbreak(0, false)
	// A virus that is stopped late, or never, takes long: fewer phases have to do.
	phases = max(1, min(phases, virusEffort/2/v.mails/v.o.Recipients))
	all = VirusRange{Worst: first, Best: first}
	every, step := v.p.Every, v.p.Every/time.Duration(phases)
	for i := range phases {
		all.add(v.outbreak(step*time.Duration(i), false))
		all.add(v.outbreak(step*time.Duration(i), true))
	}
	// With a slow clock, no phase may have been near enough to the tick for a recipient to leave by it.
	if last := time.Duration(first.StoppedAfter*float64(time.Second)) + v.gap; first.StoppedAfter >= 0 && last < every {
		for i := range min(phases, 100) {
			all.add(v.outbreak(every-last*time.Duration(i+1)/100, false))
		}
	}
	return all
}

// add adds an outbreak. Those that were never stopped (-1) come last.
func (r *VirusRange) add(one VirusPoint) {
	if after := one.StoppedAfter; stopsLater(after, r.Worst.StoppedAfter) {
		r.Worst.StoppedAfter = after
	} else if stopsLater(r.Best.StoppedAfter, after) {
		r.Best.StoppedAfter = after
	}
	if one.Passed > r.Worst.Passed {
		r.Worst.Passed, r.Worst.Held = one.Passed, one.Held
	}
	if one.Passed < r.Best.Passed {
		r.Best.Passed, r.Best.Held = one.Passed, one.Held
	}
	r.Worst.PassedNew, r.Best.PassedNew = max(r.Worst.PassedNew, one.PassedNew), min(r.Best.PassedNew, one.PassedNew)
}

func stopsLater(a, b float64) bool { return b >= 0 && (a < 0 || a > b) }

type outbreaker struct {
	p     outbreak.Params
	o     VirusOptions
	known []uint64  // that the user wrote to
	rest  []byte    // the state of the user, who has been quiet since
	begin time.Time // … until then: a tick of the user's clock
	gap   time.Duration
	keys  []uint64
	out   []outbreak.Item
	mails int // that the latest outbreak took
}

// Recipients that the user does not know, and, from higher up, those that the user spends credit on.
const (
	firstNew = 1 << 32
	firstOwn = 1 << 48
)

func newOutbreaker(p outbreak.Params, o VirusOptions) *outbreaker {
	p = filled(p)
	if p.Recipients > 0 {
		o.Recipients = min(o.Recipients, p.Recipients) // others are refused, and the gate sees to it
	}
	v := &outbreaker{p: p, o: o, gap: time.Duration(float64(time.Minute) / o.Rate)}
	// The user writes to all they know at once, with a credit that is forgotten as soon as their own parameters apply.
	generous := p
	generous.MaxSlack = outbreak.MaxCredit
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var s outbreak.State
	for n := range max(1, min(p.WorkingSet, outbreak.MaxWorkingSet)) {
		v.known = append(v.known, uint64(n)+1)
		s.Submit(&generous, start, 1, v.known[n:], nil, nil)
	}
	// Long enough for all credit to come back, and a whole number of periods, so that the phase is exact.
	const most = 50 * 365 * 24 * time.Hour
	credit := time.Duration(min(max(p.MaxSlack, p.MaxMSlack, 0), outbreak.MaxCredit) + 2)
	quiet := most
	if slower := max(p.Every, p.MultiEvery); slower < most/credit {
		quiet = max(time.Hour, slower*credit)
	}
	v.begin = start.Add((quiet + p.Every - 1) / p.Every * p.Every)
	s.Tick(&p, v.begin, nil)
	v.rest, _ = s.MarshalBinary()
	return v
}

// outbreak lets the virus break out so long after a tick of the clock, with the credit just spent or not.
func (v *outbreaker) outbreak(phase time.Duration, spent bool) VirusPoint {
	var s outbreak.State
	if err := s.UnmarshalBinary(v.rest); err != nil {
		panic(fmt.Sprint("simulate: a state that cannot be read: ", err)) // it was written just before
	}
	p, now := &v.p, v.begin.Add(phase)
	if spent {
		v.spend(&s, now)
	}
	one, begin, held := VirusPoint{Rate: v.o.Rate, StoppedAfter: -1}, now, 0
	nextNew, known := uint64(firstNew), 0
	for v.mails = 1; ; v.mails++ {
		v.out = s.Tick(p, now, v.out[:0])
		for _, it := range v.out {
			one.pass(it.Key)
		}
		v.keys = v.keys[:0]
		for range v.o.Recipients {
			// Spread evenly: of 100 recipients with a share of 30 %, 3 of each 10 are known.
			if float64(known) < v.o.Known*float64(known+int(nextNew-firstNew)+1)-1e-9 {
				v.keys = append(v.keys, v.known[known%len(v.known)])
				known++
				continue
			}
			v.keys = append(v.keys, nextNew)
			nextNew++
		}
		d := s.Submit(p, now, 1, v.keys, nil, nil)
		for _, key := range v.keys[:d.Passed] {
			one.pass(key)
		}
		if d.Held || d.Refused {
			held += len(v.keys)
		}
		if d.Stopped {
			one.StoppedAfter = math.Round(now.Sub(begin).Seconds()*1000) / 1000
		}
		now = now.Add(v.gap)
		if d.Stopped || now.Sub(begin) > virusDay || v.mails >= virusMails ||
			v.mails*v.o.Recipients >= virusRecipients {
			break
		}
	}
	for _, it := range s.Waiting() {
		if it.Key < firstOwn {
			held++
		}
	}
	one.Held = held
	return one
}

func (one *VirusPoint) pass(key uint64) {
	if key >= firstOwn {
		return
	}
	one.Passed++
	if key >= firstNew {
		one.PassedNew++
	}
}

// spend sends mail of the user's own, of the kind that the virus sends.
func (v *outbreaker) spend(s *outbreak.State, now time.Time) {
	n := 1
	if v.o.Recipients > 1 {
		if n = min(v.p.MaxMSlack, outbreak.MaxCredit); n < 2 {
			return
		}
	}
	v.keys = v.keys[:0]
	for i := range n {
		v.keys = append(v.keys, firstOwn+uint64(i))
	}
	s.Tick(&v.p, now, nil)
	s.Submit(&v.p, now, 1, v.keys, nil, nil)
}

// filled returns parameters with missing periods filled in.
func filled(p outbreak.Params) outbreak.Params {
	if p.Every <= 0 {
		p.Every = time.Minute
	}
	if p.MultiEvery <= 0 {
		p.MultiEvery = p.Every
	}
	return p
}

// DocumentParams are the parameters of the document that the mail throttle is from.
func DocumentParams() outbreak.Params {
	return outbreak.Params{
		Every: time.Minute, MultiEvery: time.Minute, WorkingSet: 4, MaxSlack: 1, MaxMSlack: 15, Stop: 20,
		Recipients: outbreak.DefaultRecipients, Slow: outbreak.DefaultSlow,
	}
}

// A VirusRow is a virus of the document's table: its result there, in the reference model, and with weir.
type VirusRow struct {
	Rate             float64    `json:"rate"` // mails a minute
	What             string     `json:"what"`
	DocumentPassed   int        `json:"document_passed"`
	DocumentStopped  float64    `json:"document_stopped_s"`
	ReferencePassed  [2]int     `json:"reference_passed"` // from, to
	ReferenceStopped [2]float64 `json:"reference_stopped_s"`
	Ours             VirusRange `json:"ours"`  // with the document's parameters
	Given            VirusRange `json:"given"` // with those of the operator
	// ours is stopped no later than the reference, and one mail, and no more of it passes
	Kept bool `json:"kept"`
}

// VirusTable is the document's table, with the document's parameters and with p.
func VirusTable(p outbreak.Params) []VirusRow {
	rows := []VirusRow{
		{Rate: 455, What: "Yaha.E", DocumentPassed: 0, DocumentStopped: 3, ReferencePassed: [2]int{1, 2},
			ReferenceStopped: [2]float64{2.8, 2.9}},
		{Rate: 109, What: "Lovgate.A", DocumentPassed: 3, DocumentStopped: 12, ReferencePassed: [2]int{1, 2},
			ReferenceStopped: [2]float64{11.6, 12.1}},
		{Rate: 60, What: "test", DocumentPassed: 2, DocumentStopped: 24, ReferencePassed: [2]int{1, 2},
			ReferenceStopped: [2]float64{21, 22}},
		{Rate: 10, What: "test", DocumentPassed: 6, DocumentStopped: 153, ReferencePassed: [2]int{3, 4},
			ReferenceStopped: [2]float64{138, 144}},
		{Rate: 5, What: "test", DocumentPassed: 6, DocumentStopped: 301, ReferencePassed: [2]int{6, 7},
			ReferenceStopped: [2]float64{312, 324}},
		{Rate: 2, What: "test", DocumentPassed: 21, DocumentStopped: 1204, ReferencePassed: [2]int{21, 22},
			ReferenceStopped: [2]float64{1230, 1260}},
	}
	for i := range rows {
		row := &rows[i]
		row.Ours, _ = Virus(DocumentParams(), VirusOptions{Rate: row.Rate}) // in bounds
		row.Given, _ = Virus(p, VirusOptions{Rate: row.Rate})
		worst := row.Ours.Worst
		row.Kept = worst.Passed <= row.ReferencePassed[1] && worst.StoppedAfter >= 0 &&
			worst.StoppedAfter <= row.ReferenceStopped[1]+60/row.Rate
	}
	return rows
}
