package simulate

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
)

// Numbers as times: small ones are seconds from a start, larger ones Unix seconds, and the largest Unix milliseconds.
const (
	leastUnix  = 500_000_000       // 1985; as seconds from a start it would be 15 years
	leastMilli = 100_000_000_000   // 1973; as Unix seconds it would be the year 5138
	mostMilli  = 7_258_118_400_000 // 2200, as for times with a year
)

// A stamps reads times as CSV and JSON have them: RFC 3339, or a number. Either all times of a log are from a start, or
// none is.
type stamps struct {
	known    bool
	relative bool
}

// read returns a time in UTC, or why it is skipped.
func (s *stamps) read(text []byte) (at time.Time, r reason) {
	text = bytes.TrimSpace(text)
	at, relative, ok := timeOf(text)
	switch {
	case !ok:
		return at, noTime
	case !s.known:
		s.known, s.relative = true, relative
	case s.relative != relative:
		return at, otherTime
	}
	return at, used
}

func timeOf(text []byte) (at time.Time, relative, ok bool) {
	if len(text) == 0 || len(text) > 40 {
		return at, false, false
	}
	if len(text) > 4 && text[4] == '-' {
		err := at.UnmarshalText(text)
		return at.UTC(), false, err == nil && within(at)
	}
	secs, nanos, ok := number(text)
	switch {
	case !ok || secs >= mostMilli:
		return at, false, false
	case secs >= leastMilli:
		return time.UnixMilli(secs).Add(time.Duration(nanos / 1000)).UTC(), false, true
	}
	return time.Unix(secs, nanos).UTC(), secs < leastUnix, true
}

// within reports whether a time can be one of a log.
func within(at time.Time) bool { return at.Unix() >= 0 && at.UnixMilli() < mostMilli }

// number reads seconds, with a fraction if there is one.
func number(text []byte) (secs, nanos int64, ok bool) {
	whole, fraction, _ := strings.Cut(string(text), ".")
	if strings.Trim(whole+fraction, "0123456789") != "" || len(whole) > 15 {
		return exponent(text)
	}
	secs, err := strconv.ParseInt(whole, 10, 64)
	nanos, _ = strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	return secs, nanos, err == nil
}

// exponent reads what JSON may write for a large number, as in 1.7e9.
func exponent(text []byte) (secs, nanos int64, ok bool) {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(f >= 0 && f < mostMilli) {
		return 0, 0, false
	}
	whole, fraction := math.Modf(f)
	return int64(whole), int64(fraction * 1e9), true
}

// A clock reads the times that syslog writes. The traditional ones have no year and no zone, and are taken as they
// stand.
type clock struct {
	year int
	last time.Time // the last traditional time
}

// halfYear is how far times jump back at least when a year ends.
const halfYear = 182 * 24 * time.Hour

// read returns the time that a line begins with, and the rest of the line.
func (c *clock) read(line []byte) (at time.Time, rest []byte, ok bool) {
	if len(line) > 0 && isDigit(line[0]) {
		text, rest, found := bytes.Cut(line, []byte(" "))
		if !found || len(text) > 40 || at.UnmarshalText(text) != nil || !within(at) {
			return at, nil, false
		}
		return at.UTC(), rest, true
	}
	const size = len(time.Stamp)
	if len(line) <= size || line[size] != ' ' {
		return at, nil, false
	}
	text := string(line[:size])
	leap := strings.HasSuffix(text, ":60") // a leap second
	if leap {
		text = text[:size-2] + "59"
	}
	day, err := time.Parse(time.Stamp, text)
	if err != nil {
		return at, nil, false
	}
	if leap {
		day = day.Add(time.Second)
	}
	rest = line[size+1:]
	at = day.AddDate(c.year, 0, 0) // day is of the year 0
	switch {
	case c.last.IsZero():
	case at.Before(c.last.Add(-halfYear)): // a new year has begun
		c.year++
		at = day.AddDate(c.year, 0, 0)
	case at.After(c.last.Add(halfYear)): // a line of the old year came late
		return day.AddDate(c.year-1, 0, 0), rest, true
	}
	c.last = at
	return at, rest, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
