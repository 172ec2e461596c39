package simulate

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

// The document's table: no later and no more than the reference model in its worst phase.
func TestVirusTable(t *testing.T) {
	needs.Unwatched(t)
	given := DocumentParams()
	given.Stop = 40
	rows := VirusTable(given)
	if len(rows) != 6 {
		t.Fatal(len(rows))
	}
	for _, row := range rows {
		t.Logf("%+v", row)
		worst, best := row.Ours.Worst, row.Ours.Best
		if !row.Kept || worst.Passed > row.ReferencePassed[1] ||
			worst.StoppedAfter > row.ReferenceStopped[1]+60/row.Rate {
			t.Errorf("%v a minute: %+v", row.Rate, row.Ours)
		}
		// The reference model does not look at credit that is spent already, which is what makes the best case.
		if worst.Passed < row.ReferencePassed[0] || best.Passed > row.ReferencePassed[0] ||
			worst.StoppedAfter < row.ReferenceStopped[0] ||
			best.StoppedAfter > row.ReferenceStopped[0] || worst.Held != 21 {
			t.Errorf("%v a minute is another model: %+v", row.Rate, row.Ours)
		}
		if row.Given.Worst.Held != 41 || row.Given.Worst.StoppedAfter <= worst.StoppedAfter {
			t.Errorf("%v a minute, stop 40: %+v", row.Rate, row.Given)
		}
	}
}

func TestVirus(t *testing.T) {
	needs.Unwatched(t)
	p := DocumentParams()
	for _, c := range []struct {
		name string
		edit func()
		o    VirusOptions
		want VirusPoint
	}{
		{"by default", nil, VirusOptions{}, VirusPoint{60, 2, 21, 2, 22}},
		// 15 of the first two mails pass at once; nobody leaves before the third stops it, or somebody does.
		{"to ten at a time", nil, VirusOptions{Recipients: 10}, VirusPoint{60, 16, 24, 16, 3}},
		{"as slow as people", nil, VirusOptions{Rate: 1}, VirusPoint{1, 1441, 0, 1441, -1}},
		{"only to those known", nil, VirusOptions{Rate: 6, Known: 1}, VirusPoint{6, 8_641, 0, 0, -1}},
		// The first new one takes the place of a known one in the working set, who waits in front of all other new ones
		// then.
		{"half to those known", nil, VirusOptions{Rate: 60, Known: 0.5}, VirusPoint{60, 23, 21, 1, 43}},
		{"of somebody exempt", func() { p.Exempt = true }, VirusOptions{Rate: 2}, VirusPoint{2, 2881, 0, 2881, -1}},
		{"with large mails held", func() { p.HoldLarge = true }, VirusOptions{Rate: 1, Recipients: 50},
			VirusPoint{1, 0, 72_050, 0, -1}},
		{"to more than a mail may have", func() { p.Recipients = 10 }, VirusOptions{Recipients: 1000},
			VirusPoint{60, 16, 24, 16, 3}},
		{"without a working set", func() { p.WorkingSet = 0 }, VirusOptions{Known: 1}, VirusPoint{60, 2, 21, 0, 22}},
		{"without credit", func() { p.MaxSlack, p.MaxMSlack = 0, 0 }, VirusOptions{}, VirusPoint{60, 1, 21, 1, 21}},
		{"without credit for several", func() { p.MaxSlack, p.MaxMSlack = 0, 0 }, VirusOptions{Recipients: 2},
			VirusPoint{60, 1, 21, 1, 10}},
		{"with a clock of years", func() { p.Every, p.MultiEvery, p.MaxMSlack = 365*24*time.Hour, 0, 10_000 },
			VirusOptions{}, VirusPoint{60, 2, 21, 2, 22}},
		{"with a fast clock", func() { p.Every, p.MultiEvery = time.Millisecond, 0 }, VirusOptions{Rate: 10_000},
			VirusPoint{10_000, 100_000, 0, 100_000, -1}},
		{"without periods", func() { p.Every, p.MultiEvery = 0, 0 }, VirusOptions{}, VirusPoint{60, 2, 21, 2, 22}},
	} {
		p = DocumentParams()
		if c.edit != nil {
			c.edit()
		}
		got := tryVirus(p, c.o, 120)
		if got.Worst != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if got.Best.Passed > got.Worst.Passed || stopsLater(got.Best.StoppedAfter, got.Worst.StoppedAfter) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestVirusOptions(t *testing.T) {
	for _, c := range []struct {
		o    VirusOptions
		want string
	}{
		{VirusOptions{Rate: MaxVirusRate, Recipients: MaxVirusRecipients, Known: 1}, ""},
		{VirusOptions{Rate: MaxVirusRate + 1}, "rate: 60001 messages a minute are out of bounds (between 0.01 and 60000)"},
		{VirusOptions{Rate: -1}, "rate: -1 messages a minute"},
		{VirusOptions{Rate: math.NaN()}, "rate: NaN messages a minute"},
		{VirusOptions{Rate: 0.001}, "rate: 0.001 messages a minute"},
		{VirusOptions{Recipients: MaxVirusRecipients + 1}, "recipients: 10001 is out of bounds (between 1 and 10000)"},
		{VirusOptions{Recipients: -1}, "recipients: -1 is out of bounds"},
		{VirusOptions{Known: 1.1}, "known: 1.1 is not a share (between 0% and 100%)"},
		{VirusOptions{Known: math.NaN()}, "known: NaN is not a share"},
	} {
		err := c.o.Validate()
		if (err == nil) != (c.want == "") || !strings.HasPrefix(fmt.Sprint(err), strings.TrimPrefix(c.want, "<nil>")) &&
			c.want != "" {
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		}
		if _, virus := Virus(DocumentParams(), c.o); err != nil && fmt.Sprint(virus) != fmt.Sprint(err) {
			t.Error(virus)
		}
	}
}
