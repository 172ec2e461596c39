package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"weir/throttle/outbreak"
)

const day = 24 * time.Hour

// sample is a study such as a log of 150 days gives, in round numbers.
func sample() *Study {
	from := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	figures := func(share float64, mean float64, stops int) Figures {
		return Figures{
			Mails: 53_633, Delayed: int(share * 53_633), DelayedShare: share, Stops: stops, MeanDelay: mean, Users: 672,
			Recipients: 128_431,
			Waited:     int(share * 90_000), MedianDelay: mean / 2, MaxDelay: 1200, MostWaiting: 31,
			StoppedUsers: stops * 3 / 4, DelayedUsers: 153,
			StopsMonthly: float64(stops) / 672 / 5, StopsRange: poisson(stops).times(1. / 672 / 5),
			Left: int(share*90_000) - 13*stops,
		}
	}
	used := outbreak.Params{Every: time.Minute, MultiEvery: time.Minute, WorkingSet: 5, MaxSlack: 1, MaxMSlack: 15,
		Stop: 20}
	params := paramsInfo(used)
	s := &Study{
		Figures: figures(0.0169, 277, 36),
		Log: LogInfo{From: from, To: from.Add(150 * day), Lines: 53_700, Skipped: 66, Mails: 53_633, Users: 672,
			Reasons: []Reason{{"no recipient", 60, 812}, {"the time cannot be read", 6, 40_123}}},
		Params: params,
	}
	for i := range 100 {
		s.Delays = append(s.Delays, DelayPoint{math.Round(4 * math.Pow(300, float64(i+1)/100)), float64(i+1) / 100})
	}
	sweep := func(parameter string, n int, at func(i int) (string, float64), of func(x float64) Figures) {
		w := Sweep{Parameter: parameter}
		for i := range n {
			text, x := at(i)
			w.Points = append(w.Points, SweepPoint{text, x, of(x)})
		}
		s.Sweeps = append(s.Sweeps, w)
	}
	number := func(every int) func(i int) (string, float64) {
		return func(i int) (string, float64) { return fmt.Sprint(i * every), float64(i * every) }
	}
	sweep("working_set", 11, number(1), func(x float64) Figures { return figures(0.011+0.037*math.Exp(-x/3), 277, 36) })
	sweep("max_mslack", 11, number(5), func(x float64) Figures { return figures(0.009+0.06*math.Exp(-x/9), 240, 36) })
	rates := []string{"12/h", "30/h", "1/m", "2/m", "5/m", "10/m"}
	values := []float64{0.2, 0.5, 1, 2, 5, 10}
	sweep("rate", len(rates), func(i int) (string, float64) { return rates[i], values[i] },
		func(x float64) Figures { return figures(0.017/x, 277/x, int(36/x)) })
	sweep("stop", 10, func(i int) (string, float64) { return fmt.Sprint(5 + 5*i), float64(5 + 5*i) },
		func(x float64) Figures { return figures(0.0169, 277, int(720/x)) })
	for m := 0; m < 24*60; m += 5 {
		busy := math.Exp(-math.Pow(float64(m-11*60)/180, 2)) + 0.7*math.Exp(-math.Pow(float64(m-15*60)/120, 2))
		s.Queue = append(s.Queue, QueuePoint{m, 6 * busy, int(30*busy) + m/5%3})
	}
	for i := range 14 {
		s.Worst = append(s.Worst, UserStudy{
			User: fmt.Sprintf("u%d@example.org", 10+i), Mails: 1500 - 40*i, Delayed: 90 - 5*i, Stops: 4 - i/4,
			MeanDelay: 400 - float64(20*i), MaxDelay: 1200 - float64(50*i), Most: 40 - i,
		})
	}
	r := &ReachStudy{Flags: 21, FlaggedUsers: 17, FlagsMonthly: 0.62, FlagsRange: Interval{0.384, 0.948}, Held: 214,
		Stolen: []Stolen{{User: "u7@example.org", PerHour: 30, FoundAfter: 32, After: 3900},
			{User: "u8@example.org", PerHour: 300, FoundAfter: 31, After: 380}},
		Thresholds: []Threshold{
			{Threshold: "dynamic (default)", Flags: 21, FlagsMonthly: 0.62, FlagsRange: Interval{0.384, 0.948},
				FoundAfter: []int{32, 31}},
			{Threshold: "200%, at least 50", Flags: 64, FlagsMonthly: 1.9, FlagsRange: Interval{1.46, 2.43},
				FoundAfter: []int{51, 51}},
			{Threshold: "1000 a day", FlagsRange: Interval{0, 0.11}, FoundAfter: []int{-1, 1001}},
		}}
	for i := range 40 {
		u := ReachUser{User: fmt.Sprintf("u%d@example.org", 10+i), Mails: 900 - 20*i,
			Recipients: 420 * math.Exp(-float64(i)/12), MostHour: 20, MostDay: 40}
		if i == 2 || i == 9 || i == 30 {
			u.Flags = 1
		}
		r.Users = append(r.Users, u)
	}
	for i := range 5 {
		c := ReachCurve{User: fmt.Sprintf("u%d@example.org", 10+i)}
		for d := range 151 {
			c.Day = append(c.Day, float64(d))
			c.Sum = append(c.Sum, math.Round(420*math.Exp(-float64(i)/12)*math.Pow(float64(d)/150, 0.4+0.2*float64(i))))
		}
		r.Growth = append(r.Growth, c)
	}
	s.Reach = r
	used.WorkingSet, used.Stop = 8, 30
	better := paramsInfo(used)
	s.Advice = &Advice{
		Share: 0.015, Params: better, Figures: figures(0.0136, 262, 24), Met: true,
		Virus: []VirusPoint{
			{Rate: 455, Passed: 2, Held: 31, StoppedAfter: 4.1}, {Rate: 60, Passed: 2, Held: 31, StoppedAfter: 31},
			{Rate: 10, Passed: 4, Held: 31, StoppedAfter: 204},
			{Rate: 2, Passed: 31, Held: 31, StoppedAfter: 1860}, {Rate: 0.5, Passed: 720, StoppedAfter: -1},
		},
		Text: []string{"A working set of 8 and a stop at 30 keep delayed mails at 1.36 %, under the 1.5 % that you " +
			"asked for.",
			"A virus that sends 60 messages a minute would reach 2 people before it is stopped after 31 seconds."},
		Config: "throttles:\n  outgoing:\n    shadow: true\n    mail:\n      rate: 1/m\n      working_set: 8\n      " +
			"max_mslack: 15\n      stop: 30\n",
	}
	return s
}

// written returns the report of a study.
func written(t *testing.T, s *Study) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.Sheet(10).Page(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// plotIDs are the pictures that every report has.
var plotIDs = []string{"delayed-working_set", "delayed-max_mslack", "delayed-rate", "delay-rate", "stops-stop",
	"delays", "queue-most", "queue-mean", "reach", "growth"}

func TestReport(t *testing.T) {
	t.Parallel()
	page := written(t, sample())
	for _, want := range []string{
		"<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">", "default-src &#39;none&#39;", "150 days",
		"2026-01-05 to 2026-06-04", "53,633 messages of 672 users", "Rate 1/m, working set 5",
		"1.69% of the messages would have been delayed, most of those for less than 5 minutes.",
		"27 of 672 users would have been stopped: on average one false alarm per user in 8 years (95%: 6 years to 11 " +
			"years).",
		"1.07 per 100 users and month (95%: 0.75 to 1.48)", "22.8% of 672 (95%: 19.8% to 26.1%)",
		"exact Poisson", "468 more were released when their user was stopped", "With another max_mslack",
		"Recipients are those of the log",
		"used: 5", "advised: 8", "used and advised: 15", "used and advised: 1/m", "under the 1.5 %", "working_set: 8",
		"u10@example.org", "60 lines no recipient", "first in line 40,123",
		"17 of 672 users would have been flagged for writing to too many new people, 21 times in all.",
	} {
		if !strings.Contains(page, want) && !strings.Contains(page, strings.ReplaceAll(want, "&#39;", "'")) {
			t.Errorf("no %q", want)
		}
	}
	for _, id := range plotIDs {
		if !strings.Contains(page, `<figure id="`+id+`"`) {
			t.Errorf("no plot %s", id)
		}
	}
	if n := strings.Count(page, InSample); n != 2 { // beside the advice and the sweeps
		t.Errorf("says %d times that it is in-sample", n)
	}
	// Nothing comes from elsewhere.
	for _, way := range []string{"<script", "http:", "https:", "@import", "url(h", "src=", "//"} {
		if strings.Contains(page, way) {
			t.Errorf("may reach outside: %s", way)
		}
	}
}

// A queue that was looked at now and then only is said to be.
func TestReportReservations(t *testing.T) {
	t.Parallel()
	s := sample()
	if strings.Contains(written(t, s), "was looked at") {
		t.Error("it was looked at every second")
	}
	s.QueueEvery = 128
	if !strings.Contains(written(t, s), "looked at every 2m8s only") {
		t.Error("it is not said")
	}
}

// TestReportVerdict: the sentences hold for logs of every kind.
func TestReportVerdict(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	long := LogInfo{From: at, To: at.Add(30 * day)}
	for want, s := range map[string]*Study{
		"The log has no mail that could be replayed.":                                                      {},
		"None of the 1 message would have been delayed. Nobody would have been stopped in 30 days.":        {Figures: Figures{Mails: 1, Users: 1}, Log: long},
		"None of the 1,234 messages would have been delayed. Nobody would have been stopped in 3 minutes.": {Figures: Figures{Mails: 1234, Users: 1}, Log: LogInfo{From: at, To: at.Add(130 * time.Second)}},
		"10% of the messages would have been delayed, for 2 minutes in the mean. Nobody would have been stopped in 6 " +
			"hours.": {
			Figures: Figures{Mails: 10, Delayed: 1, DelayedShare: 0.1, MeanDelay: 120},
			Log:     LogInfo{From: at, To: at.Add(6 * time.Hour)}},
		"100% of the messages would have been delayed, most of those for less than 2 hours. 1 of 1 user would have been " +
			"stopped: on average one false alarm per user in 30 days.": {
			Figures: Figures{Mails: 10, Delayed: 10, DelayedShare: 1, Stops: 1, StoppedUsers: 1, Users: 1,
				StopsMonthly: 1}, Log: long, Delays: []DelayPoint{{60, 0.1}, {5400, 0.9}, {9000, 1}}},
		"0.001% of the messages would have been delayed, for 0s in the mean. 2 of 9 users would have been stopped: on " +
			"average one false alarm per user in 4.5 months.": {
			Figures: Figures{Mails: 100_000, Delayed: 1, DelayedShare: 0.00001, Stops: 2, StoppedUsers: 2, Users: 9,
				StopsMonthly: 2. / 9}, Log: long, Delays: []DelayPoint{{60, 0.1}, {900_000, 1}}},
		"10% of the messages would have been delayed, for – in the mean. 1 of 9 users would have been stopped.": {
			Figures: Figures{Mails: 10, Delayed: 1, DelayedShare: 0.1, MeanDelay: math.NaN(), Stops: 1, StoppedUsers: 1,
				Users: 9, StopsMonthly: math.NaN()}, Log: long},
	} {
		if got := strings.Join(s.verdict(), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// hostile is a name that wants to be more: names come from a log that anybody can write into.
const hostile = `<script>console.error('ran')</script>"' onload=x <img src=x onerror="console.error('ran')"></svg><style>`

// odd are studies that a report must bear.
func odd() map[string]*Study {
	one := sample()
	one.Sweeps = nil
	for _, parameter := range []string{"working_set", "max_mslack", "rate", "stop", "max_slack", "a_new_one"} {
		one.Sweeps = append(one.Sweeps, Sweep{parameter,
			[]SweepPoint{{"1", 1, Figures{DelayedShare: 0.3, MeanDelay: 12, StopsMonthly: 0.2}}}})
	}
	one.Worst, one.Queue, one.Delays = one.Worst[:1], one.Queue[:1], []DelayPoint{{0, 1}}
	one.Reach.Users, one.Reach.Growth = one.Reach.Users[:1], []ReachCurve{{"u1", []float64{0}, []float64{1}}}
	one.Advice = nil

	zero := sample()
	zero.Figures = Figures{}
	for i := range zero.Sweeps {
		for j := range zero.Sweeps[i].Points {
			zero.Sweeps[i].Points[j].Figures = Figures{}
		}
	}
	for i := range zero.Queue {
		zero.Queue[i] = QueuePoint{Minute: zero.Queue[i].Minute}
	}
	zero.Delays = nil
	for i := range zero.Reach.Users {
		zero.Reach.Users[i].Recipients = 0
	}
	zero.Reach.Stolen, zero.Reach.Thresholds = nil, nil
	zero.Advice.Met, zero.Advice.Text, zero.Advice.Virus = false, nil, nil

	huge := sample()
	huge.Figures = Figures{Mails: math.MaxInt, Delayed: math.MaxInt, Users: math.MaxInt, DelayedShare: 1e300,
		StopsMonthly: 1e17, Stops: math.MaxInt, MeanDelay: 1e18, Waited: math.MaxInt, Recipients: math.MaxInt}
	for i := range huge.Sweeps {
		for j := range huge.Sweeps[i].Points {
			p := &huge.Sweeps[i].Points[j]
			p.DelayedShare, p.MeanDelay, p.StopsMonthly = float64(j), 1e12*float64(j), 1e13*float64(j)
			p.X *= 1e9
		}
	}
	for i := range huge.Queue {
		huge.Queue[i].Most, huge.Queue[i].Mean = math.MaxInt>>4, 1e17
	}
	for i := range huge.Delays {
		huge.Delays[i].Seconds *= 1e15
	}
	huge.StopsRange, huge.Reach.FlagsRange = poisson(math.MaxInt), poisson(math.MaxInt)
	huge.Reach.Users[0].Recipients, huge.Reach.Users[0].User = 1e12, strings.Repeat("long", 80)+"@example.org"
	huge.Worst[0].User = huge.Reach.Users[0].User
	huge.Reach.Growth[0].User = huge.Reach.Users[0].User
	huge.Reach.Growth[0].Sum[150] = 1e12

	wrong := sample()
	wrong.Worst[0].User = hostile
	wrong.Reach.Users[0].User, wrong.Reach.Growth[0].User = hostile, hostile
	nan := math.NaN()
	wrong.Figures = Figures{Mails: 1, Delayed: 1, DelayedShare: nan, MeanDelay: math.Inf(1), MedianDelay: nan,
		MaxDelay: nan, StopsMonthly: nan, Stops: 1}
	for i := range wrong.Sweeps {
		for j := range wrong.Sweeps[i].Points {
			p := &wrong.Sweeps[i].Points[j]
			p.Figures = Figures{DelayedShare: nan, MeanDelay: math.Inf(1), StopsMonthly: math.Inf(-1)}
			if j == 3 {
				p.X, p.DelayedShare = nan, 0.5
			}
			if j == 2 {
				p.Figures = Figures{DelayedShare: 0.5, MeanDelay: 5, StopsMonthly: 1}
			}
		}
	}
	wrong.StopsRange, wrong.Reach.FlagsRange = Interval{nan, math.Inf(1)}, Interval{math.Inf(-1), nan}
	wrong.Delays[0], wrong.Delays[1] = DelayPoint{nan, nan}, DelayPoint{math.Inf(1), 5}
	wrong.Queue[0] = QueuePoint{-5, nan, -3}
	wrong.Queue[1] = QueuePoint{99_999, 1, 1}
	wrong.Reach.Users[0].Recipients, wrong.Reach.Users[1].MostDay, wrong.Reach.FlagsMonthly = nan, math.Inf(1), nan
	wrong.Reach.Growth[0].Day = []float64{nan, 1, 2}
	wrong.Reach.Growth[1].Sum = nil
	wrong.Log.To = wrong.Log.From.Add(-time.Hour)
	wrong.Advice.Figures.DelayedShare, wrong.Advice.Virus[0].Rate, wrong.Advice.Virus[0].StoppedAfter = nan,
		math.Inf(1), nan
	wrong.Params.Mail.Every = 0

	bare := sample()
	bare.Reach, bare.Advice, bare.Log.Relative = nil, nil, true
	return map[string]*Study{"empty": {}, "one": one, "zero": zero, "huge": huge, "wrong": wrong, "bare": bare}
}

// TestReportOfOddLogs: whatever a log gives, the page stands, and no figure on it is no number.
func TestReportOfOddLogs(t *testing.T) {
	t.Parallel()
	for name, s := range odd() {
		page := written(t, s)
		for _, bad := range []string{"NaN", "+Inf", "-Inf", "e+1", "e+2", "e+3", "%!", "-9,223", "-9223"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: %s in the page", name, bad)
			}
		}
		if !strings.Contains(page, "</footer>") {
			t.Errorf("%s: cut off", name)
		}
		for _, id := range plotIDs {
			figure := figureOf(page, id)
			if figure != "" && !strings.Contains(figure, `role="img"`) && !strings.Contains(figure, "Nothing to show") {
				t.Errorf("%s: plot %s shows nothing and does not say so", name, id)
			}
		}
	}
	if page := written(t, &Study{}); strings.Count(page, "Nothing to show") != 3 {
		t.Errorf("an empty study says so %d times", strings.Count(page, "Nothing to show"))
	}
}

func figureOf(page, id string) string {
	_, figure, found := strings.Cut(page, `<figure id="`+id+`"`)
	if !found {
		return ""
	}
	figure, _, _ = strings.Cut(figure, "</figure>")
	return figure
}

// TestReportEscapes: a name is never more than a name.
func TestReportEscapes(t *testing.T) {
	t.Parallel()
	s := sample()
	s.Worst[0].User, s.Reach.Users[0].User, s.Reach.Growth[0].User, s.Reach.Stolen[0].User = hostile, hostile, hostile,
		hostile
	s.Reach.Thresholds[0].Threshold, s.Log.Reasons[0].Why, s.Advice.Text[0], s.Advice.Config = hostile, hostile,
		hostile, hostile
	s.Sweeps[0].Points[0].Value = hostile
	s.Sweeps = append(s.Sweeps, Sweep{hostile, s.Sweeps[0].Points})
	page := written(t, s)
	if strings.Contains(page, "<script") || strings.Contains(page, "<img") || strings.Contains(page, `"' onload`) ||
		strings.Count(page, "<style>") != 1 {
		t.Error("a name is taken for more than a name")
	}
	if got := strings.Count(page, "&lt;script&gt;console"); got < 8 {
		t.Errorf("stands %d times in the page", got)
	}
}

func TestReportWriter(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	r, w := io.Pipe()
	r.CloseWithError(broken)
	if err := sample().Sheet(10).Page(w); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"0": count(0), "999": count(999), "1,000": count(1000), "-1,234,567": count(-1_234_567), "-123": count(-123),
		"-123,456": count(-123_456),
		"1 user":   plural(1, "user"), "0 users": plural(0, "user"),
		"0.0107": decimal(0.01071), "1.5": decimal(1.5), "100": decimal(99.99), "12.3": decimal(12.345),
		"1,235": decimal(1234.5), "–": decimal(math.NaN()), "0.00001": decimal(0.00001),
		"1.69%": share(0.01692), "0.001%": share(0.00001), "100%": share(1), "0%": share(0),
		"4m37s": span(277), "30s": span(30), "1m40s": span(100), "200ms": span(0.2), "2h30m": span(9001),
		"3.5d":   span(3.5 * 86400),
		"1 hour": spell(3600), "5 minutes": spell(300), "90 minutes": spell(5400), "4m37s ": spell(277.3) + " ",
		"8 years": inMonths(93), "3.2 months": inMonths(3.24), "30 days": inMonths(1),
		"u1": short("u1"), "abcdefghijklmno…": short("abcdefghijklmnopqrstuvwxyz"),
	} {
		if want != got && !(want == "0.00001" && got == "0") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
