package simulate

import (
	"bytes"
	"math"
	"strconv"
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
	whole, fraction, _ := bytes.Cut(text, []byte("."))
	for _, c := range whole {
		if c < '0' || c > '9' || secs > math.MaxInt64/10-10 {
			return exponent(text)
		}
		secs = 10*secs + int64(c-'0')
	}
	unit := int64(100_000_000)
	for _, c := range fraction {
		if c < '0' || c > '9' {
			return exponent(text)
		}
		nanos += int64(c-'0') * unit
		unit /= 10
	}
	return secs, nanos, len(whole) > 0
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
	day  [6]byte   // of the last traditional time
	base time.Time // its midnight
	last time.Time
}

// halfYear is how far times jump back at least when a year ends.
const halfYear = 182 * 24 * time.Hour

// read returns the time that a line begins with, and the rest of the line.
func (c *clock) read(line []byte) (at time.Time, rest []byte, ok bool) {
	if len(line) > 0 && line[0] >= '0' && line[0] <= '9' {
		text, rest, found := bytes.Cut(line, []byte(" "))
		if !found || len(text) > 40 || at.UnmarshalText(text) != nil || !within(at) {
			return at, nil, false
		}
		return at.UTC(), rest, true
	}
	const size = len("Jan  2 15:04:05")
	if len(line) <= size || line[size] != ' ' {
		return at, nil, false
	}
	seconds, ok := timeOfDay(line[7:size])
	if !ok || line[6] != ' ' {
		return at, nil, false
	}
	if [6]byte(line) != c.day {
		month, day, ok := monthDay(line[:6])
		if !ok {
			return at, nil, false
		}
		base := time.Date(c.year, month, day, 0, 0, 0, 0, time.UTC)
		switch {
		case c.last.IsZero():
		case base.Before(c.last.Add(-halfYear)): // a new year has begun
			c.year++
			base = time.Date(c.year, month, day, 0, 0, 0, 0, time.UTC)
		case base.After(c.last.Add(halfYear)): // a line of the old year came late
			at = time.Date(c.year-1, month, day, 0, 0, 0, 0, time.UTC).Add(seconds)
			return at, line[size+1:], true
		}
		c.day, c.base = [6]byte(line), base
	}
	at = c.base.Add(seconds)
	c.last = at
	return at, line[size+1:], true
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// monthDay reads "Jan  2".
func monthDay(text []byte) (month time.Month, day int, ok bool) {
	at := bytes.Index([]byte(months), text[:3])
	if at < 0 || at%3 != 0 || text[3] != ' ' {
		return 0, 0, false
	}
	month = time.Month(at/3 + 1)
	if text[4] != ' ' {
		day = 10 * int(text[4]-'0')
	}
	day += int(text[5] - '0')
	if text[4] != ' ' && !isDigit(text[4]) || !isDigit(text[5]) || day < 1 ||
		day > time.Date(2024, month+1, 0, 0, 0, 0, 0, time.UTC).Day() {
		return 0, 0, false
	}
	return month, day, true
}

// timeOfDay reads "15:04:05".
func timeOfDay(text []byte) (time.Duration, bool) {
	var n [3]int
	for i := range n {
		if two := text[3*i:]; isDigit(two[0]) && isDigit(two[1]) && (i == 2 || two[2] == ':') {
			n[i] = 10*int(two[0]-'0') + int(two[1]-'0')
			continue
		}
		return 0, false
	}
	if n[0] > 23 || n[1] > 59 || n[2] > 60 {
		return 0, false
	}
	return time.Duration(n[0])*time.Hour + time.Duration(n[1])*time.Minute + time.Duration(n[2])*time.Second, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
