package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"weir/internal/plot"
)

// mostCurves is how many users the growth is drawn of, each with a sign of its own.
const mostCurves = 5

// figures draws how many different people users write to.
func (r *ReachStudy) figures() []*plot.Plot {
	return []*plot.Plot{r.perUser(), r.growth()}
}

func (r *ReachStudy) perUser() *plot.Plot {
	p := &plot.Plot{
		ID: "reach", Title: "Different recipients per user",
		X: plot.Axis{Title: "users, the one with the most first (rank)", Whole: true},
		Y: plot.Axis{Title: "different recipients", Whole: true},
		Data: plot.Table{Head: []string{"user", "mails", "different people", "new in an hour", "in a day", "flags",
			"held"}},
	}
	calm, flagged := plot.Series{Name: "never flagged", Bars: true}, plot.Series{Name: "flagged", Bars: true}
	users := slices.SortedStableFunc(slices.Values(r.Users),
		func(a, b ReachUser) int { return cmp.Compare(b.Recipients, a.Recipients) })
	for i, u := range users {
		q := plot.Point{X: float64(i + 1), Y: u.Recipients, Text: short(u.User) + ": " + whole(u.Recipients)}
		if u.Flags > 0 {
			flagged.Points = append(flagged.Points, q)
		} else {
			calm.Points = append(calm.Points, q)
		}
		p.Data.Rows = append(p.Data.Rows,
			[]string{u.User, count(u.Mails), whole(u.Recipients), whole(u.MostHour), whole(u.MostDay), count(u.Flags),
				count(u.Held)})
	}
	p.Series = []plot.Series{calm, flagged}
	if len(users) > 0 {
		p.X.Lo, p.X.Hi = 0.5, float64(len(users))+0.5
		p.X.Ticks = rankTicks(len(users))
		p.Says = fmt.Sprintf("Of the %s shown, %s wrote to the most different people, %s; half of them wrote to %s "+
			"or fewer.",
			plural(len(users), "user"), short(users[0].User), whole(users[0].Recipients),
			whole(users[len(users)/2].Recipients))
	}
	return p.Draw()
}

// rankTicks divides an axis of ranks, which begins with 1.
func rankTicks(n int) []plot.Tick {
	all := []plot.Tick{{Value: 1, Text: "1"}}
	by := plot.Axis{Hi: float64(n), Whole: true}.Step(6)
	for v := by; v <= float64(n); v += by {
		if v > 1 {
			all = append(all, plot.Tick{Value: v, Text: plot.TickText(v, by)})
		}
	}
	return all
}

func (r *ReachStudy) growth() *plot.Plot {
	p := &plot.Plot{
		ID: "growth", Title: "How reach grows",
		X: plot.Axis{Title: "days from the start of the log"}, Y: plot.Axis{Title: "different recipients", Whole: true},
	}
	curves := r.Growth[:min(len(r.Growth), mostCurves)]
	last, rises := 0.0, ""
	for i, c := range curves {
		line := plot.Series{Name: short(c.User)}
		for j := range min(len(c.Day), len(c.Sum)) {
			text := fmt.Sprintf("%s, day %s: %s", short(c.User), decimal(c.Day[j]), whole(c.Sum[j]))
			line.Points = append(line.Points, plot.Point{X: c.Day[j], Y: c.Sum[j], Text: text})
			if plot.Finite(c.Day[j]) {
				last = max(last, c.Day[j])
			}
		}
		p.Series = append(p.Series, line)
		if n := len(c.Sum); n > 0 && i < 2 {
			rises += fmt.Sprintf(" %s reaches %s.", short(c.User), whole(c.Sum[n-1]))
		}
	}
	p.Says = "The curve of a person flattens, that of a stolen account suddenly rises." + rises
	if p.Draw(); p.Empty() {
		return p
	}
	const parts = 4
	p.Data.Head = []string{"user"}
	for i := range parts + 1 {
		p.Data.Head = append(p.Data.Head, "day "+decimal(math.Round(last*float64(i)/parts*10)/10))
	}
	for _, c := range curves {
		row := []string{c.User}
		for i := range parts + 1 {
			row = append(row, whole(c.until(last*float64(i)/parts)))
		}
		p.Data.Rows = append(p.Data.Rows, row)
	}
	return p
}

// until returns how many recipients there were by a day.
func (c ReachCurve) until(day float64) (sum float64) {
	for i := range min(len(c.Day), len(c.Sum)) {
		if c.Day[i] <= day*(1+1e-9) && plot.Finite(c.Sum[i]) {
			sum = c.Sum[i]
		}
	}
	return sum
}
