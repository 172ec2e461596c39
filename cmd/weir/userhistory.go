package main

import (
	"fmt"
	"math"
	"strconv"

	"weir/console"
)

type userHistoryCommand struct {
	userFlags
	Last int `placeholder:"N" default:"20" help:"Show at most this many changes of each throttle, the latest last; 0 for all that are kept. Default: 20."`
}

func (c *userHistoryCommand) Validate() error {
	if err := checkLimit(c.Last); err != nil {
		return err
	}
	return c.userFlags.Validate()
}

func (c *userHistoryCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.UserHistoryCall.With(console.Name{Name: c.Name}),
		func(h *console.UserHistory) { t.userHistory(h, c.Last) })
}

// userColumns are what is shown of a user's past, by kind of throttle.
var userColumns = map[string][]struct {
	head string
	of   console.Measure
}{
	"mail": {{"waiting", console.Waiting}, {"stop above", console.StopAbove}, {"slack", console.Slack},
		{"mslack", console.MSlack}, {"working set", console.WorkingSet}},
	"reach": {{"new in an hour", console.NewInHour}, {"limit", console.HourLimit}, {"new in a day", console.NewInDay},
		{"limit", console.DayLimit}, {"new in a week", console.NewInWeek}, {"limit", console.WeekLimit}},
}

func (t *terminal) userHistory(h *console.UserHistory, last int) {
	fmt.Fprintf(t.out, "%s since %s, until %s, in recipients\n", printable(h.User), moment(h.Since), moment(h.At))
	if len(h.Throttles) == 0 {
		fmt.Fprintln(t.out, "no throttle knows this user yet")
	}
	for i := range h.Throttles {
		s := &h.Throttles[i]
		fmt.Fprintf(t.out, "\n%s (%s)\n", printable(s.Name), s.Kind)
		rows := table{heads: []string{"when", "state"}}
		for _, c := range userColumns[s.Kind] {
			if s.Columns[c.of] != nil {
				rows.heads = append(rows.heads, c.head)
			}
		}
		from := 0
		if last > 0 {
			from = max(0, len(s.At)-last)
		}
		for k := from; k < len(s.At); k++ {
			state := "sends"
			switch {
			case at(s, console.UserStopped, k) == 1:
				state = "stopped"
			case at(s, console.UserFlagged, k) == 1:
				state = "flagged"
			}
			row := []cell{text(moment(s.Time(k))), text(state)}
			for _, c := range userColumns[s.Kind] {
				if s.Columns[c.of] == nil {
					continue
				}
				v, shown := at(s, c.of, k), ""
				if !math.IsNaN(v) {
					shown = strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
				}
				row = append(row, cell{text: shown, right: true})
			}
			rows.row(row...)
		}
		t.write(&rows)
	}
}

// at is a value of a series, or NaN.
func at(s *console.Series, m console.Measure, k int) float64 {
	if v := s.Columns[m]; k < len(v) {
		return float64(v[k])
	}
	return math.NaN()
}
