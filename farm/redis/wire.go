package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"weir/farm"
)

// What goes between a pot and its script: pot.lua says how it is laid out. All numbers are floating-point ones, as the
// script has no others.

// write is a call as the script reads it.
func write(ask *farm.Ask) (string, error) {
	b := make([]byte, 0, 16+(12+17*8)*len(ask.Wants))
	b = number(number(b, int64(ask.Seq)), int64(len(ask.Wants)))
	for i := range ask.Wants {
		w := &ask.Wants[i]
		start, end, also, life := int64(0), int64(0), int64(0), w.Life
		if w.Way == farm.Fixed && w.Period == 0 {
			start, end = w.Start.UnixMicro(), w.End.UnixMicro()
		}
		if w.Carry {
			also = 1
		}
		if w.Forget {
			also += 2
		}
		if w.Way == farm.Level && life == 0 {
			life = farm.MaxLife
		}
		b = appendID(b, w)
		for _, n := range [...]int64{int64(w.Way), w.Limit, w.Burst, w.Period.Microseconds(), start, end,
			life.Microseconds(), also, w.Used, w.Need, w.Ahead} {
			b = number(b, n)
		}
		var err error
		if b, err = appendMark(b, w.Mark); err != nil {
			return "", err
		}
	}
	return string(b), nil
}

func number(b []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
}

// leastMark is how many numbers each mark has: a version, a slice, and what the run has of it.
const leastMark = 3

// appendMark appends how many numbers a mark has, and those. For people a mark is these numbers with spaces between.
func appendMark(b []byte, mark string) ([]byte, error) {
	if mark == "" {
		return number(b, 0), nil
	}
	b = number(b, int64(1+strings.Count(mark, " ")))
	n := 0
	for field := range strings.SplitSeq(mark, " ") {
		v, err := strconv.ParseUint(field, 10, 53)
		if err != nil {
			return nil, fmt.Errorf("%w: a mark is none of this pot's", farm.ErrAsk)
		}
		b = number(b, int64(v))
		n++
	}
	if n < leastMark {
		return nil, fmt.Errorf("%w: a mark is none of this pot's", farm.ErrAsk)
	}
	return b, nil
}

// writeLive lists runs.
func writeLive(live []string) string {
	n := 0
	for _, run := range live {
		n += 1 + len(run)
	}
	b := make([]byte, 0, n)
	for _, run := range live {
		b = append(append(b, byte(len(run))), run...)
	}
	return string(b)
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

func (r *reader) mark() string {
	n := r.byte()
	b := make([]byte, 0, 20*n)
	for i := range n {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, r.number(), 10)
	}
	return string(b)
}

// read makes a reply of what the script has answered.
func read(said string, ask *farm.Ask) (farm.Reply, error) {
	r := reader{rest: said}
	what := r.take(1)
	switch what {
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

// micros makes a duration of microseconds. The longest one is what does not fit.
func micros(n int64) time.Duration {
	if n > int64(farm.Never/time.Microsecond) {
		return farm.Never
	}
	return time.Duration(n) * time.Microsecond
}
