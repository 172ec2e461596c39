package weir

import (
	"encoding"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "200ms": 200 * time.Millisecond, " 5s ": 5 * time.Second, "1m30s": 90 * time.Second,
		"1.5h": 90 * time.Minute,
		"1d":   day, "2w": 14 * day, "1w2d": 9 * day, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour,
		"106751d":                  106751 * day,
		"2562047h47m16.854775807s": math.MaxInt64,
	} {
		got, err := ParseDuration(text)
		if err != nil || got.Std() != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	bad(t, func(s string) error { _, err := ParseDuration(s); return err }, map[string]string{
		"":                            "a duration is missing (write",
		"5":                           `"5" has no unit (did you mean 5s or 5ms?)`,
		"0.5":                         `"0.5" has no unit`,
		"-5":                          `"-5" has no unit`,
		"-5s":                         `"-5s" is below zero`,
		"-1d":                         `"-1d" is below zero`,
		"1d-1h":                       "is not a duration",
		"inf":                         "is not a duration",
		"infd":                        "is not a duration",
		"nand":                        "is not a duration",
		"1e3d":                        "is not a duration",
		"1d2w":                        "is not a duration",
		"1dd":                         "is not a duration",
		"d":                           "is not a duration",
		"5 sec":                       "is not a duration",
		"106752d":                     "is too long",
		"99999999999w":                "is too long",
		"15250w1d23h47m16.854775808s": "is too long",
	})
}

func TestParsePeriod(t *testing.T) {
	for text, want := range map[string]Period{
		"1s": {Length: time.Second}, "7d": {Length: 7 * 24 * time.Hour}, "day": {Calendar: Day},
		" week": {Calendar: Week},
		"month": {Calendar: Month}, "year": {Calendar: Year},
	} {
		got, err := ParsePeriod(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	bad(t, func(s string) error { _, err := ParsePeriod(s); return err }, map[string]string{
		"":       "a duration is missing",
		"0":      "never ends",
		"0s":     "never ends",
		"-1s":    "below zero",
		"5":      `has no unit (did you mean 5s or 5ms?)`,
		"months": "one of day, week, month, year",
		"Day":    "one of day, week, month, year",
	})
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"100/s": {100, time.Second}, "10MB/s": {10_000_000, time.Second}, "5/m": {5, time.Minute},
		"1000 / h": {1000, time.Hour}, "20/d": {20, 24 * time.Hour},
		"3/10s": {3, 10 * time.Second}, "0/s": {0, time.Second}, "1/ms": {1, time.Millisecond},
		"1e6/s": {1e6, time.Second}, "2.5k/m": {2500, time.Minute}, "0.0/m": {0, time.Minute},
	} {
		got, err := ParseRate(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	bad(t, func(s string) error { _, err := ParseRate(s); return err }, map[string]string{
		"":      "is not a rate",
		"5":     "does not say per what (did you mean 5/s or 5/m?)",
		"-1/s":  "is not a rate",
		"1.5/s": "is not a rate (write 3/2s)",
		"0.1/m": "is not a rate (write 1/10m)",
		"5/":    "is not a rate",
		"5/0s":  "is not a rate",
		"5/x":   "is not a rate",
		"/s":    "is not a rate",
	})
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "512B": 512, "64KiB": 64 << 10, "10MB": 10e6, "10 MB": 10e6, "1GiB": 1 << 30, "1kB": 1000, "1KB": 1000,
		"1.5KiB": 1536,
		"1.1KB":  1100, "9007199254740993B": 1<<53 + 1, "8388607TiB": 8388607 << 40,
	} {
		got, err := ParseSize(text)
		if err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	bad(t, func(s string) error { _, err := ParseSize(s); return err }, map[string]string{
		"":                     "is not a size",
		"10":                   `"10" has no unit (did you mean 10B, 10KB or 10MB?)`,
		"10mb":                 "is not a size",
		"-1B":                  "is not a size",
		"MB":                   "is not a size",
		"nanMB":                "is not a size",
		"infMB":                "is not a size",
		"1e3MB":                "is not a size",
		"0.5B":                 "is a part of a byte",
		"0.0001KB":             "is a part of a byte",
		"8388608TiB":           "is too large",
		"9223372036854775808B": "is too large",
	})
}

func TestParseShare(t *testing.T) {
	for text, want := range map[string]Share{"10%": 0.1, "0.5%": 0.005, "200 %": 2, "0%": 0, "0": 0, "7%": 0.07} {
		got, err := ParseShare(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	bad(t, func(s string) error { _, err := ParseShare(s); return err }, map[string]string{
		"":            "is not a share",
		"10":          `"10" has no unit (did you mean 10%?)`,
		"0.01":        `"0.01" has no unit (did you mean 1%, or 0.01%?)`,
		"0.1":         `"0.1" has no unit`,
		"%":           "is not a share",
		"-1%":         "is not a share",
		"inf%":        "is not a share",
		"nan%":        "is not a share",
		"2000000000%": "is too large",
	})
}

// bad checks that each text is refused by a FieldError that contains the wanted words.
func bad(t *testing.T, parse func(string) error, cases map[string]string) {
	t.Helper()
	for text, want := range cases {
		err := parse(text)
		if _, ok := errors.AsType[*FieldError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

func TestUnitsAreWrittenAsRead(t *testing.T) {
	for _, text := range []string{"0s", "200ms", "5s", "1m", "1m30s", "1h", "1h30m", "10h", "1d", "14d", "1h0m5s",
		"25h"} {
		if d, err := ParseDuration(text); err != nil || d.String() != text {
			t.Errorf("duration %q: %q, %v", text, d, err)
		}
	}
	for _, text := range []string{"1s", "7d", "day", "week", "month", "year"} {
		if p, err := ParsePeriod(text); err != nil || p.String() != text {
			t.Errorf("period %q: %q, %v", text, p, err)
		}
	}
	for _, text := range []string{"5/s", "5/m", "5/h", "5/d", "3/10s", "1/7d"} {
		if r, err := ParseRate(text); err != nil || r.String() != text {
			t.Errorf("rate %q: %q, %v", text, r, err)
		}
	}
	for _, text := range []string{"0B", "1B", "1000KiB", "64KiB", "10MB", "1GiB", "1TB", "1537B"} {
		if s, err := ParseSize(text); err != nil || s.String() != text {
			t.Errorf("size %q: %q, %v", text, s, err)
		}
	}
	for _, text := range []string{"0%", "7%", "0.5%", "33.3%", "200%", "100000000%"} {
		if s, err := ParseShare(text); err != nil || s.String() != text {
			t.Errorf("share %q: %q, %v", text, s, err)
		}
	}
	if !(Period{}).IsZero() || (Period{Calendar: Day}).IsZero() {
		t.Error("only the period that was not given is zero")
	}
}

// again writes a unit as text and reads it into back.
func again(t *rapid.T, v encoding.TextMarshaler, back encoding.TextUnmarshaler) {
	text, err := v.MarshalText()
	if err == nil {
		err = back.UnmarshalText(text)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func TestUnitsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Small, whole and huge values alike.
		scale := rapid.SampledFrom([]int64{1, 1000, 1024, int64(time.Second), int64(24 * time.Hour)}).Draw(t, "scale")
		n := rapid.Int64Range(0, math.MaxInt64/scale).Draw(t, "n") * scale

		var d Duration
		if again(t, Duration(n), &d); d != Duration(n) {
			t.Fatalf("duration %d came back as %d", n, d)
		}
		var s Size
		if again(t, Size(n), &s); s != Size(n) {
			t.Fatalf("size %d came back as %d", n, s)
		}
		if n > 0 {
			var p Period
			if again(t, Period{Length: time.Duration(n)}, &p); p.Length != time.Duration(n) {
				t.Fatalf("period %d came back as %v", n, p)
			}
			want, r := Rate{rapid.Int64Min(0).Draw(t, "count"), time.Duration(n)}, Rate{}
			if again(t, want, &r); r != want {
				t.Fatalf("rate %v came back as %v", want, r)
			}
		}
		percent := rapid.Int64Range(0, 1e9).Draw(t, "percent")
		var share, twice Share
		again(t, Share(float64(percent)/1e4), &share)
		if again(t, share, &twice); twice != share {
			t.Fatalf("share %v came back as %v", share, twice)
		}
	})
}

func TestBoundsOfALengthAreAlignedToTheEpoch(t *testing.T) {
	for _, c := range []struct {
		length     time.Duration
		at         string
		start, end string
	}{
		{time.Second, "2026-03-01T12:00:00.999999999Z", "2026-03-01T12:00:00Z", "2026-03-01T12:00:01Z"},
		{time.Second, "2026-03-01T12:00:01Z", "2026-03-01T12:00:01Z", "2026-03-01T12:00:02Z"},
		{24 * time.Hour, "2026-03-01T12:00:00Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
		{7 * 24 * time.Hour, "1970-01-09T00:00:00Z", "1970-01-08T00:00:00Z", "1970-01-15T00:00:00Z"},
		{10 * time.Second, "1969-12-31T23:59:59Z", "1969-12-31T23:59:50Z", "1970-01-01T00:00:00Z"},
		{7 * time.Second, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:07Z"},
	} {
		start, end := Period{Length: c.length}.Bounds(instant(t, c.at), nil)
		if !start.Equal(instant(t, c.start)) || !end.Equal(instant(t, c.end)) {
			t.Errorf("%s at %s: %s to %s", c.length, c.at, start.UTC(), end.UTC())
		}
	}
}

func TestBoundsByTheCalendar(t *testing.T) {
	for _, c := range []struct {
		unit       Calendar
		zone, at   string
		start, end string
	}{
		{Day, "", "2026-03-01T12:00:00Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
		// 23 hours
		{Day, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		// 25 hours
		{Day, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{Day, "Europe/Berlin", "2026-06-30T22:00:00Z", "2026-07-01T00:00:00+02:00", "2026-07-02T00:00:00+02:00"},
		{Week, "Europe/Berlin", "2026-03-29T23:30:00+02:00", "2026-03-23T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{Week, "Europe/Berlin", "2026-03-30T00:00:00+02:00", "2026-03-30T00:00:00+02:00", "2026-04-06T00:00:00+02:00"},
		{Week, "", "2026-01-01T00:00:00Z", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z"},
		{Month, "Europe/Berlin", "2026-03-31T21:59:59Z", "2026-03-01T00:00:00+01:00", "2026-04-01T00:00:00+02:00"},
		{Month, "Europe/Berlin", "2026-12-31T23:00:00Z", "2027-01-01T00:00:00+01:00", "2027-02-01T00:00:00+01:00"},
		{Month, "", "2028-02-29T23:59:59Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{Year, "Europe/Berlin", "2026-12-31T22:59:59Z", "2026-01-01T00:00:00+01:00", "2027-01-01T00:00:00+01:00"},
		// Clocks that skip midnight: the day begins at 1:00, and the day before ends at the same instant.
		{Day, "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{Day, "America/Sao_Paulo", "2018-11-04T02:30:00Z", "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"},
		// Clocks that are turned back at midnight: 23:00 to 24:00 comes twice, and both belong to the day before.
		{Day, "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},
		{Day, "America/Sao_Paulo", "2018-02-18T03:00:00Z", "2018-02-18T03:00:00Z", "2018-02-19T03:00:00Z"},
		// A day that never was: Samoa went from the 29th to the 31st of December 2011.
		{Day, "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{Day, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
	} {
		start, end := Period{Calendar: c.unit}.Bounds(instant(t, c.at), zone(t, c.zone))
		if !start.Equal(instant(t, c.start)) || !end.Equal(instant(t, c.end)) {
			t.Errorf("%s in %q at %s: %s to %s; want %s to %s", Period{Calendar: c.unit}, c.zone, c.at, start.UTC(),
				end.UTC(), c.start, c.end)
		}
	}
}

// Whatever the clocks do, every instant lies in its period, and the next period starts where this one ends.
func TestBoundsTileTime(t *testing.T) {
	zones := []string{"", "UTC", "Europe/Berlin", "America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Africa/Cairo",
		"Pacific/Apia",
		"Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns", "Atlantic/Azores"}
	rapid.Check(t, func(t *rapid.T) {
		loc, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), 0)
		if rapid.Bool().Draw(t, "near a change of the clocks") {
			if _, change := at.In(loc).ZoneBounds(); !change.IsZero() {
				at = change.Add(time.Duration(rapid.IntRange(-90, 90).Draw(t, "minutes")) * time.Minute)
			}
		}
		p := Period{Calendar: Calendar(rapid.IntRange(int(Day), int(Year)).Draw(t, "calendar"))}
		if rapid.Bool().Draw(t, "length") {
			p = Period{Length: time.Duration(rapid.Int64Range(1, 1e17).Draw(t, "ns"))}
		}
		start, end := p.Bounds(at, loc)
		if start.After(at) || !at.Before(end) {
			t.Fatalf("%s is not within %s to %s", at.In(loc), start, end)
		}
		if again, same := p.Bounds(start, loc); !again.Equal(start) || !same.Equal(end) {
			t.Fatalf("the start %s lies in %s to %s, not to %s", start, again, same, end)
		}
		if next, _ := p.Bounds(end, loc); !next.Equal(end) {
			t.Fatalf("the period after the one that ends at %s starts at %s", end, next)
		}
		if _, before := p.Bounds(start.Add(-1), loc); !before.Equal(start) {
			t.Fatalf("the period before the one that starts at %s ends at %s", start, before)
		}
	})
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	if name == "" {
		return nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// FuzzUnits: no text makes a parser panic, and what is read can be written and read again.
func FuzzUnits(f *testing.F) {
	for _, seed := range []string{"", "5", "1m30s", "1w2d", "100/s", "3/10s", "10MB", "0.5%", "month", "-1d", "1e9d",
		"9999999999999999999B"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDuration(text); err == nil {
			if back, err := ParseDuration(d.String()); err != nil || back != d || d < 0 {
				t.Errorf("duration %q: %d, again %d, %v", text, d, back, err)
			}
		}
		if p, err := ParsePeriod(text); err == nil {
			if back, err := ParsePeriod(p.String()); err != nil || back != p || p.Length < 0 {
				t.Errorf("period %q: %v, again %v, %v", text, p, back, err)
			}
		}
		if r, err := ParseRate(text); err == nil {
			if back, err := ParseRate(r.String()); err != nil || back != r || r.Count < 0 || r.Per <= 0 {
				t.Errorf("rate %q: %v, again %v, %v", text, r, back, err)
			}
		}
		if s, err := ParseSize(text); err == nil {
			if back, err := ParseSize(s.String()); err != nil || back != s || s < 0 {
				t.Errorf("size %q: %d, again %d, %v", text, s, back, err)
			}
		}
		if s, err := ParseShare(text); err == nil {
			if back, err := ParseShare(s.String()); err != nil || math.Abs(float64(back-s)) > 1e-9*float64(s) || s < 0 {
				t.Errorf("share %q: %v, again %v, %v", text, s, back, err)
			}
		}
	})
}

func TestParseCount(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "200": 200, " 5 ": 5, "1e6": 1e6, "1E6": 1e6, "1e+6": 1e6, "2.5e6": 2_500_000, "1_000_000": 1e6,
		"1M": 1e6, "15.6G": 15.6e9, "2k": 2000, "2K": 2000,
		"1T": 1e12, "1.0": 1, "9223372036854775807": math.MaxInt64, "9007.199254740993T": 1<<53 + 1, "9e18": 9e18,
	} {
		if got, err := ParseCount(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	bad(t, func(s string) error { _, err := ParseCount(s); return err }, map[string]string{
		"":                    "is not a number (write 20, 1e6 or 1M)",
		"many":                "is not a number",
		"e6":                  "is not a number",
		"M":                   "is not a number",
		"_":                   "is not a number",
		"1e":                  "is not a number",
		"1e6M":                "is not a number",
		"1e99":                "is not a number",
		"1e-3":                "is not a number",
		"0x10":                "is not a number",
		"1 000":               "is not a number",
		"-1":                  "is below zero (write 0 or more)",
		"1.5":                 "is not a whole number",
		"1.2345k":             "is not a whole number",
		"9223372036854775808": "is too large (9223372036854775807 is the largest)",
		"9.3e18":              "is too large",
	})
}

// A period of the calendar keeps its name and its length, and a figure is no larger for it.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		w      Window
		text   string
		length time.Duration
	}{
		{0, "0s", 0}, {NewWindow(time.Second, NoCalendar), "1s", time.Second},
		{NewWindow(30*24*time.Hour, NoCalendar), "30d", 30 * 24 * time.Hour},
		{NewWindow(30*24*time.Hour, Month), "month", 30 * 24 * time.Hour},
		{NewWindow(23*time.Hour, Day), "day", 23 * time.Hour},
		{NewWindow(7*24*time.Hour, Week), "week", 7 * 24 * time.Hour},
		{NewWindow(366*24*time.Hour, Year), "year", 366 * 24 * time.Hour},
	} {
		if text, _ := c.w.MarshalText(); c.w.String() != c.text || string(text) != c.text || c.w.Length() != c.length {
			t.Errorf("%d: %s, %s long; want %s, %s", c.w, c.w, c.w.Length(), c.text, c.length)
		}
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]Number{"0": 0, "200": 200, " 5 ": 5, "64KiB": 64 << 10, "1.5MB": 1_500_000,
		"1e6": 1e6} {
		if got, err := ParseNumber(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "1.5", "many", "10%", "99999999999999999999"} {
		if got, err := ParseNumber(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}
