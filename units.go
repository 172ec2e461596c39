package weir

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadText sets a value to what a parser makes of a text. UnmarshalText methods are made of it.
func ReadText[T any](into *T, text []byte, parse func(string) (T, error)) error {
	v, err := parse(string(text))
	if err == nil {
		*into = v
	}
	return err
}

// A Duration is a length of time as people write it: 200ms, 1m30s, 12h, 7d, 2w.
type Duration time.Duration

// Std returns it as the standard library's duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string {
	s := time.Duration(d)
	const day = 24 * time.Hour
	if s != 0 && s%day == 0 {
		return strconv.FormatInt(int64(s/day), 10) + "d"
	}
	text := s.String()
	// "1h0m0s" says no more than "1h".
	if strings.HasSuffix(text, "m0s") {
		text = text[:len(text)-2]
	}
	if strings.HasSuffix(text, "h0m") {
		text = text[:len(text)-2]
	}
	return text
}

func (d Duration) MarshalText() ([]byte, error)     { return []byte(d.String()), nil }
func (d *Duration) UnmarshalText(text []byte) error { return ReadText(d, text, ParseDuration) }

// ParseDuration reads what time.ParseDuration reads, and d (24 hours) and w (7 days). It is never below zero.
func ParseDuration(text string) (Duration, error) {
	s := strings.TrimSpace(text)
	if s == "" {
		return 0, &FieldError{Msg: "a duration is missing", Hint: "write 200ms, 5s, 1m or 1d"}
	}
	if isNumber(s) && s != "0" {
		return 0, mistake(s, "has no unit", fmt.Sprintf("did you mean %ss or %sms?", s, s))
	}
	wrong := mistake(s, "is not a duration", "write 200ms, 5s, 1m or 1d")
	long := mistake(s, "is too long", "292 years is the longest")
	if strings.HasPrefix(s, "-") {
		return 0, mistake(s, "is below zero", wrong.Hint)
	}
	var total time.Duration
	rest := s
	for _, unit := range []struct {
		sign   string
		length time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, tail, found := strings.Cut(rest, unit.sign)
		if !found {
			continue
		}
		n, ok := decimal(number)
		if !ok {
			return 0, wrong
		}
		if n *= float64(unit.length); n >= math.MaxInt64-float64(total) {
			return 0, long
		}
		total += time.Duration(n)
		rest = tail
	}
	if rest != "" {
		std, err := time.ParseDuration(rest)
		if err != nil || std < 0 {
			return 0, wrong
		}
		if std > math.MaxInt64-total {
			return 0, long
		}
		total += std
	}
	return Duration(total), nil
}

// A Calendar unit is a period whose length the calendar decides.
type Calendar uint8

const (
	NoCalendar Calendar = iota
	Day
	Week // from Monday
	Month
	Year
)

var calendarNames = [...]string{"", "day", "week", "month", "year"}

// A Period is a stretch of time that repeats: a length, aligned to the epoch so that a farm agrees on its borders, or a
// calendar day, week, month or year in some time zone.
type Period struct {
	Length   time.Duration
	Calendar Calendar
}

// IsZero reports whether no period was given.
func (p Period) IsZero() bool { return p == Period{} }

func (p Period) String() string {
	if p.Calendar != NoCalendar {
		return calendarNames[p.Calendar]
	}
	return Duration(p.Length).String()
}

func (p Period) MarshalText() ([]byte, error)     { return []byte(p.String()), nil }
func (p *Period) UnmarshalText(text []byte) error { return ReadText(p, text, ParsePeriod) }

// ParsePeriod reads a duration above zero, or day, week, month, year.
func ParsePeriod(text string) (Period, error) {
	s := strings.TrimSpace(text)
	if i := slices.Index(calendarNames[:], s); i > 0 {
		return Period{Calendar: Calendar(i)}, nil
	}
	d, err := ParseDuration(s)
	if err != nil {
		fe := *FieldErrors(err)[0]
		if !strings.HasSuffix(fe.Msg, "has no unit") {
			fe.Hint = "write 1s, 5m, 1h, or one of day, week, month, year"
		}
		return Period{}, &fe
	}
	if d <= 0 {
		return Period{}, &FieldError{Msg: fmt.Sprintf("a period of %s never ends", s),
			Hint: "write 1s, 5m, 1h, day or month"}
	}
	return Period{Length: d.Std()}, nil
}

// A Window is per how long a Figure counts: a length, and which period of the calendar it is of, so that a month is
// told as one and not as 30d. The zero value is none. It is a single word because a decision makes one for every rule:
// the lowest bits of the nanoseconds are the calendar's.
type Window int64

// calendarBits are the bits of a Window that hold the calendar.
const calendarBits = 7

// NewWindow returns a window of a length, which is a period of the calendar or NoCalendar.
func NewWindow(length time.Duration, c Calendar) Window {
	return Window(length)&^calendarBits | Window(c)
}

// Length returns how long it is.
func (w Window) Length() time.Duration { return time.Duration(w &^ calendarBits) }

// Calendar returns of what period it is.
func (w Window) Calendar() Calendar { return Calendar(w & calendarBits) }

// String returns month, 1h, 30d.
func (w Window) String() string { return Period{Length: w.Length(), Calendar: w.Calendar()}.String() }

func (w Window) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// Bounds returns the start and the end of the period that t lies in. loc matters for calendar periods only.
func (p Period) Bounds(t time.Time, loc *time.Location) (start, end time.Time) {
	if p.Calendar == NoCalendar {
		n := t.UnixNano()
		rest := n % int64(p.Length)
		if rest < 0 {
			rest += int64(p.Length)
		}
		start = time.Unix(0, n-rest)
		return start, start.Add(p.Length)
	}
	if loc == nil {
		loc = time.UTC
	}
	t = t.In(loc)
	year, month, day := t.Date()
	switch p.Calendar {
	case Day:
		return midnight(year, month, day, loc), midnight(year, month, day+1, loc)
	case Week:
		monday := day - (int(t.Weekday())+6)%7
		return midnight(year, month, monday, loc), midnight(year, month, monday+7, loc)
	case Month:
		return midnight(year, month, 1, loc), midnight(year, month+1, 1, loc)
	default:
		return midnight(year, 1, 1, loc), midnight(year+1, 1, 1, loc)
	}
}

// midnight returns when a day begins: the instant from which clocks show that day or a later one. Where clocks change
// at midnight, 0:00 does not exist or exists twice, and time.Date may return an instant of the day before.
func midnight(year int, month time.Month, day int, loc *time.Location) time.Time {
	t := time.Date(year, month, day, 0, 0, 0, 0, loc)
	// The date as a number that can be compared, with days such as the 32nd carried over.
	want := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()
	shown := func(t time.Time) int64 {
		_, offset := t.Zone()
		return t.Unix() + int64(offset)
	}
	since, until := t.ZoneBounds()
	switch {
	case shown(t) < want: // in the hour before the clocks skip midnight
		return until
	case shown(t) > want: // after they have skipped it
		return since
	case !until.IsZero() && shown(until) < want: // they will be turned back across midnight, and it comes again
		return until.Add(time.Duration(want-shown(until)) * time.Second)
	}
	return t
}

// A Rate is a number of events, or of bytes, per time as people write it: 100/s, 5/m, 1000/h, 20/d, 3/10s, 10MB/s.
type Rate struct {
	Count int64
	Per   time.Duration
}

func (r Rate) String() string {
	per := Duration(r.Per).String()
	if len(per) == 2 { // 1s is written s
		per = strings.TrimPrefix(per, "1")
	}
	return fmt.Sprintf("%d/%s", r.Count, per)
}

func (r Rate) MarshalText() ([]byte, error)     { return []byte(r.String()), nil }
func (r *Rate) UnmarshalText(text []byte) error { return ReadText(r, text, ParseRate) }

// ParseRate reads a rate.
func ParseRate(text string) (Rate, error) {
	s := strings.TrimSpace(text)
	wrong := mistake(s, "is not a rate", "write 100/s, 5/m or 3/10s")
	count, per, found := strings.Cut(s, "/")
	if !found {
		if isNumber(s) {
			return Rate{}, mistake(s, "does not say per what", fmt.Sprintf("did you mean %s/s or %s/m?", s, s))
		}
		return Rate{}, wrong
	}
	per = strings.TrimSpace(per)
	if per != "" && (per[0] < '0' || per[0] > '9') {
		per = "1" + per
	}
	d, err := ParseDuration(per)
	if err != nil || d <= 0 {
		return Rate{}, wrong
	}
	n, err := ParseNumber(count)
	if err != nil {
		// A part of an event is a whole one in a longer time.
		for times := time.Duration(2); times <= 1000; times++ {
			part, _ := decimal(strings.TrimSpace(count))
			if all := part * float64(times); all >= 1 && all == math.Trunc(all) && all < 1e9 &&
				d.Std() < math.MaxInt64/times {
				wrong.Hint = fmt.Sprintf("write %s", Rate{int64(all), times * d.Std()})
				break
			}
		}
		return Rate{}, wrong
	}
	return Rate{int64(n), d.Std()}, nil
}

// A Size is a number of bytes: 512B, 64KiB, 10MB, 1GiB. KB, MB, GB are powers of 1000; KiB, MiB, GiB of 1024.
type Size int64

// sizeUnits are in falling order, so that a size is written with the largest that divides it.
var sizeUnits = []struct {
	sign  string
	bytes int64
}{{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10},
	{"KB", 1e3}, {"kB", 1e3}, {"B", 1}}

func (s Size) String() string {
	if s == 0 {
		return "0B"
	}
	for _, unit := range sizeUnits {
		if int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.sign
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

func (s Size) MarshalText() ([]byte, error)     { return []byte(s.String()), nil }
func (s *Size) UnmarshalText(text []byte) error { return ReadText(s, text, ParseSize) }

// ParseSize reads a size.
func ParseSize(text string) (Size, error) {
	s := strings.TrimSpace(text)
	if isNumber(s) {
		if s == "0" {
			return 0, nil
		}
		return 0, mistake(s, "has no unit", fmt.Sprintf("did you mean %sB, %sKB or %sMB?", s, s, s))
	}
	for _, unit := range sizeUnits {
		number, found := strings.CutSuffix(s, unit.sign)
		if !found {
			continue
		}
		number = strings.TrimSpace(number)
		n, ok := decimal(number)
		if !ok {
			break
		}
		large := mistake(s, "is too large", "8388607TiB is the largest")
		if whole, err := strconv.ParseInt(number, 10, 64); err == nil {
			// Floating point would lose the last digits of a large number.
			if whole > math.MaxInt64/unit.bytes {
				return 0, large
			}
			return Size(whole * unit.bytes), nil
		}
		if n *= float64(unit.bytes); n >= math.MaxInt64 {
			return 0, large
		}
		if n > 0 && n < 1 || unit.bytes == 1 {
			return 0, mistake(s, "is a part of a byte", "write 512B, 64KiB, 10MB or 1GiB")
		}
		return Size(math.Round(n)), nil
	}
	return 0, mistake(s, "is not a size", "write 512B, 64KiB, 10MB or 1GiB")
}

// A Number of events, or of bytes, as people write it: 200, 1e6, 64KiB.
type Number int64

func (n Number) String() string { return strconv.FormatInt(int64(n), 10) }

func (n Number) MarshalText() ([]byte, error)     { return []byte(n.String()), nil }
func (n *Number) UnmarshalText(text []byte) error { return ReadText(n, text, ParseNumber) }

// ParseNumber reads a count or a size.
func ParseNumber(text string) (Number, error) {
	if n, err := ParseCount(text); err == nil {
		return Number(n), nil
	}
	size, err := ParseSize(text)
	if err != nil {
		return 0, mistake(strings.TrimSpace(text), "is neither a number nor a size",
			"write 200, 1e6, or 64KiB where bytes are counted")
	}
	return Number(size), nil
}

// countUnits are what large counts are written with.
var countUnits = map[byte]int{'k': 3, 'K': 3, 'M': 6, 'G': 9, 'T': 12}

// ParseCount reads a whole number from zero up, as people write large ones: 1000000, 1_000_000, 1e6, 2.5e6, 1M.
func ParseCount(text string) (int64, error) {
	s := strings.TrimSpace(text)
	wrong := mistake(s, "is not a number", "write 20, 1e6 or 1M")
	if strings.HasPrefix(s, "-") && isNumber(s) {
		return 0, mistake(s, "is below zero", "write 0 or more")
	}
	digits, exponent := s, 0
	if n := len(s); n > 0 && countUnits[s[n-1]] > 0 {
		digits, exponent = s[:n-1], countUnits[s[n-1]]
	} else if mantissa, power, found := strings.Cut(strings.ToLower(s), "e"); found {
		var err error
		if exponent, err = strconv.Atoi(strings.TrimPrefix(power, "+")); err != nil || exponent < 0 || exponent > 18 {
			return 0, wrong
		}
		digits = mantissa
	}
	digits = strings.ReplaceAll(digits, "_", "")
	if _, ok := decimal(digits); !ok {
		return 0, wrong
	}
	// Digits are moved, since floating point would lose the last ones of a large number.
	whole, part, _ := strings.Cut(digits, ".")
	part = strings.TrimRight(part, "0")
	if len(part) > exponent {
		return 0, mistake(s, "is not a whole number", wrong.Hint)
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", exponent-len(part)), 10, 64)
	if err != nil {
		return 0, mistake(s, "is too large", fmt.Sprintf("%d is the largest", int64(math.MaxInt64)))
	}
	return n, nil
}

// A Share is a part of a whole as people write it: 10%, 0.5%, 200%. 1 is the whole.
type Share float64

func (s Share) String() string {
	// Twelve digits hide that 0.07 times 100 is not quite 7.
	short, _ := strconv.ParseFloat(strconv.FormatFloat(float64(s)*100, 'g', 12, 64), 64)
	return strconv.FormatFloat(short, 'f', -1, 64) + "%"
}

// Rounded returns the share with three digits, for figures that are measured.
func (s Share) Rounded() Share {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(float64(s), 'g', 3, 64), 64)
	return Share(short)
}

func (s Share) MarshalText() ([]byte, error)     { return []byte(s.String()), nil }
func (s *Share) UnmarshalText(text []byte) error { return ReadText(s, text, ParseShare) }

// ParseShare reads a share.
func ParseShare(text string) (Share, error) {
	s := strings.TrimSpace(text)
	if s == "0" { // nothing of anything
		return 0, nil
	}
	number, found := strings.CutSuffix(s, "%")
	if !found && isNumber(s) {
		hint := fmt.Sprintf("did you mean %s%%?", s)
		if n, ok := decimal(s); ok && n < 1 { // a part of 1, as mathematicians write it
			hint = fmt.Sprintf("did you mean %s, or %s%%?", Share(n), s)
		}
		return 0, mistake(s, "has no unit", hint)
	}
	n, ok := decimal(strings.TrimSpace(number))
	if !found || !ok {
		return 0, mistake(s, "is not a share", "write 10% or 0.5%")
	}
	if n > maxShare {
		return 0, mistake(s, "is too large", fmt.Sprintf("%d%% is the largest", int64(maxShare)))
	}
	return Share(n / 100), nil
}

// maxShare is the largest share that can be written, in percent.
const maxShare = 1e9

// mistake is what is wrong with a text.
func mistake(text, what, hint string) *FieldError {
	return &FieldError{Msg: fmt.Sprintf("%q %s", text, what), Hint: hint}
}

// isNumber reports whether s is a number as people write one, with a sign perhaps.
func isNumber(s string) bool {
	_, ok := decimal(strings.TrimPrefix(s, "-"))
	return ok
}

// decimal reads digits with at most one point. The other forms that strconv reads (inf, 1e9, 0x1p4) are mostly slips.
func decimal(s string) (float64, bool) {
	if strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}
