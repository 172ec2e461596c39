package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"weir/farm"
)

// What goes between a pot and its script: pot.lua says how it is laid out. All numbers are floating-point ones, as the
// script has no others.

// What a call is preceded by: what stands in it.
const (
	hasRun   = 1 << iota // a run, and the identity of an engine
	hasLive              // the live runs
	isUsual              // it is the usual call
	headSize = 4 + 1
)

// write appends a call as the script reads it, after what calls have in common. It reports whether that is the usual
// call: of one limit in fixed periods, of which nothing is forgotten.
func (p *Pot) write(b []byte, ask *farm.Ask) (_ []byte, usual bool, err error) {
	if len(ask.Wants) == 1 {
		w := &ask.Wants[0]
		if w.Way == farm.Fixed && !w.Forget && !w.Unknown && (w.Mark == "" || len(w.Mark) == len(noMark)) {
			b, err = p.writeUsual(b, ask.Seq, w)
			return b, true, err
		}
	}
	b = slices.Grow(b, 16+(12+19*8)*len(ask.Wants))
	b = number(number(b, int64(ask.Seq)), int64(len(ask.Wants)))
	for i := range ask.Wants {
		w := &ask.Wants[i]
		start, end := bounds(w)
		also, life := int64(0), w.Life
		if w.Forget {
			also = 1
		}
		if w.Unknown {
			also += 2
		}
		if w.Way == farm.Level && life == 0 {
			life = farm.MaxLife
		}
		b = append(b, p.id(w)...)
		for _, n := range [...]int64{int64(w.Way), w.Limit, w.Burst, w.Period.Microseconds(), start, end,
			life.Microseconds(), also, w.Used, w.Need, w.Ahead} {
			b = number(b, n)
		}
		if err := checkMark(w.Mark); err != nil {
			return b, false, err
		}
		b = append(number(b, int64(len(w.Mark)/8)), w.Mark...)
	}
	return b, false, nil
}

func (p *Pot) writeUsual(b []byte, seq uint64, w *farm.Want) ([]byte, error) {
	if err := checkMark(w.Mark); err != nil {
		return b, err
	}
	mark := w.Mark
	if mark == "" {
		mark = noMark
	}
	start, end := bounds(w)
	b = append(number(slices.Grow(b, 8+12+14*8), int64(seq)), p.id(w)...)
	b = number(number(number(number(b, w.Limit), w.Used), w.Need), w.Ahead)
	b = append(b, mark[:leastMark*8]...)
	b = number(number(number(b, w.Period.Microseconds()), start), end)
	return append(b, mark[leastMark*8:]...), nil
}

// noMark stands for that of a limit of which a node has heard nothing yet.
var noMark = string(append(number(number(nil, 0), -1), make([]byte, 5*8)...))

// bounds are those of a period that a calendar makes.
func bounds(w *farm.Want) (start, end int64) {
	if w.Way == farm.Fixed && w.Period == 0 {
		return w.Start.UnixMicro(), w.End.UnixMicro()
	}
	return 0, 0
}

func number(b []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
}

// leastMark is how many numbers each mark has: a version, a slice, and what the run has of it.
const leastMark = 3

// checkMark tells whether a mark may be one of this pot's: it is numbers, as the script has written them.
func checkMark(mark string) error {
	if mark == "" {
		return nil
	}
	r := reader{rest: mark}
	for range len(mark) / 8 {
		if n := r.number(); n < 0 || n > farm.MaxNumber {
			r.err = errShort
		}
	}
	if r.err != nil || r.rest != "" || len(mark) < 8*leastMark {
		return fmt.Errorf("%w: a mark is none of this pot's", farm.ErrAsk)
	}
	return nil
}

// appendText appends a text after its length.
func appendText(b []byte, text string) []byte { return append(append(b, byte(len(text))), text...) }

// appendLive appends a list of runs after its length.
func appendLive(b []byte, live []string) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	for _, run := range live {
		b = appendText(b, run)
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

var errShort = errors.New("it is too short")

// A reader reads an answer of the script. It remembers that something was wrong.
type reader struct {
	rest string
	err  error
}

// take returns the next n bytes.
func (r *reader) take(n int) (b string) {
	if n > len(r.rest) {
		r.rest, r.err = "", errShort
		return ""
	}
	b, r.rest = r.rest[:n], r.rest[n:]
	return b
}

func (r *reader) byte() int {
	b := r.take(1)
	if b == "" {
		return 0
	}
	return int(b[0])
}

// text reads something after its length.
func (r *reader) text() string { return strings.Clone(r.take(r.byte())) }

func (r *reader) number() int64 {
	b := r.take(8)
	if b == "" {
		return 0
	}
	v := math.Float64frombits(uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 |
		uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56)
	if !(math.Abs(v) < math.MaxInt64) && r.err == nil {
		r.err = fmt.Errorf("it has the number %v", v)
		return 0
	}
	return int64(v)
}

func (r *reader) mark() string { return strings.Clone(r.take(8 * r.byte())) }

// read makes a reply of what the script has answered.
func read(said string, ask *farm.Ask) (farm.Reply, error) {
	r := reader{rest: said}
	what := r.take(1)
	switch what {
	case "g":
		return r.usual(ask)
	case "o", "u", "e":
	case "l":
		return farm.Reply{}, fmt.Errorf("%w: more than %d rules", farm.ErrCrowded, farm.MaxRules)
	case "r":
		return farm.Reply{}, fmt.Errorf("%w: more than %d runs", farm.ErrCrowded, farm.MaxRuns)
	default:
		return farm.Reply{}, fmt.Errorf("%w: it answered %q", ErrScript, said[:min(len(said), 100)])
	}
	reply := farm.Reply{Now: time.UnixMicro(r.number()), Engine: ask.Engine, Failed: -1}
	if what == "e" {
		reply.Engine = r.text()
	}
	switch {
	case r.err != nil:
	case what == "u":
		return reply, farm.ErrOutside
	case what == "e":
		return reply, farm.ErrEngine
	}
	reply.Granted, reply.Stale, reply.Failed = r.byte() == 1, r.byte() == 1, int(r.number())
	if wait := r.number(); wait < 0 {
		reply.Wait = farm.Never
	} else {
		reply.Wait = micros(wait)
	}
	for n := r.byte(); n > 0 && r.err == nil; n-- {
		reply.Waiting = append(reply.Waiting, r.text())
	}
	reply.Grants = make([]farm.Grant, len(ask.Wants))
	for i := range reply.Grants {
		reply.Grants[i] = farm.Grant{Slice: r.number(), Total: r.number(), Others: r.number(), Left: r.number(),
			For: micros(r.number()), Mark: r.mark()}
	}
	if r.err == nil && r.rest != "" {
		r.err = errors.New("it is too long")
	}
	if r.err != nil {
		return farm.Reply{}, fmt.Errorf("%w: its answer cannot be read: %w", ErrScript, r.err)
	}
	return reply, nil
}

// usual makes a reply of what the script has answered to the usual call.
func (r *reader) usual(ask *farm.Ask) (farm.Reply, error) {
	now, mark := r.number(), strings.Clone(r.rest)
	_, slice, total := r.number(), r.number(), r.number()
	_, _, stop, sum := r.number(), r.number(), r.number(), r.number()
	if r.err == nil && (r.rest != "" || len(ask.Wants) != 1) {
		r.err = errors.New("it is too long")
	}
	if r.err != nil {
		return farm.Reply{}, fmt.Errorf("%w: its answer cannot be read: %w", ErrScript, r.err)
	}
	return farm.Reply{Now: time.UnixMicro(now), Engine: ask.Engine, Granted: true, Failed: -1,
		Grants: []farm.Grant{{Slice: slice, Total: total, Others: sum - total, Left: max(0, ask.Wants[0].Limit-sum),
			For: micros(stop - now), Mark: mark}}}, nil
}

// micros makes a duration of microseconds. The longest one is what does not fit.
func micros(n int64) time.Duration {
	if n > int64(farm.Never/time.Microsecond) {
		return farm.Never
	}
	return time.Duration(n) * time.Microsecond
}
