package simulate

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// generatedStart is when a generated log begins.
var generatedStart = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// generateLog makes up a log of people who write in bursts, mostly to people they know; one of them sends a newsletter
// every week, and the account of another is stolen after two thirds of the days. It takes whole numbers only, so that
// every machine gets the same. It makes a day at a time, in order.
func generateLog(users, days int) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		people := make([]*person, users)
		for u := range people {
			people[u] = &person{number: u, r: rand.New(rand.NewPCG(5, uint64(u))), met: 3}
		}
		var log []Entry
		for day := range days {
			log = log[:0]
			for _, p := range people {
				log = p.day(log, day, days)
			}
			slices.SortStableFunc(log, func(a, b Entry) int { return a.At.Compare(b.At) })
			for _, e := range log {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// A person writes mails of a generated log.
type person struct {
	number    int
	r         *rand.Rand
	met, last int // how many people they know, and the last one they wrote to
}

func (p *person) name(n int) string { return fmt.Sprint("p", p.number, "-", n) }

// day appends the mails of one day. They end at midnight: a day is sorted for itself.
func (p *person) day(log []Entry, day, days int) []Entry {
	r, midnight := p.r, generatedStart.AddDate(0, 0, day+1)
	at := midnight.AddDate(0, 0, -1).Add(8*time.Hour + time.Duration(r.IntN(3600))*time.Second)
	user := fmt.Sprint("u", p.number)
	for range r.IntN(12 + p.number%7) {
		// One in four follows at once, the others after a while.
		if r.IntN(4) == 0 {
			at = at.Add(time.Duration(5+r.IntN(80)) * time.Second)
		} else {
			at = at.Add(time.Duration(2+r.IntN(70)) * time.Minute)
		}
		to := p.to()
		if at.Before(midnight) {
			log = append(log, Entry{At: at, User: user, To: to})
		}
	}
	noon := midnight.Add(-12 * time.Hour)
	if p.number == 7 && day%7 == 3 {
		var to []string
		for n := range 60 {
			to = append(to, p.name(n))
		}
		log = append(log, Entry{At: noon, User: user, To: to})
	}
	if p.number == 9 && day == days*2/3 {
		for n := range 200 {
			log = append(log, Entry{At: noon.Add(time.Duration(n) * 7 * time.Second), User: user,
				To: []string{fmt.Sprint("victim", n)}})
		}
	}
	return log
}

func (p *person) to() (to []string) {
	r, some := p.r, 1
	if r.IntN(6) == 0 {
		some = 2 + r.IntN(4)*r.IntN(6)
	}
	for range some {
		n := min(r.IntN(p.met), r.IntN(p.met), r.IntN(p.met)) // the first few are written to the most
		switch r.IntN(8) {
		case 0:
			p.met++
			n = p.met
		case 1, 2, 3:
			n = p.last
		}
		p.last = n
		if name := p.name(n); !slices.Contains(to, name) {
			to = append(to, name)
		}
	}
	return to
}

// writeCSV writes a log in the form that is read best: the time in seconds from the first mail, the user, and the
// recipients.
func writeCSV(w io.Writer, log iter.Seq[Entry]) error {
	if _, err := io.WriteString(w, "time,user,recipients\n"); err != nil {
		return err
	}
	var start time.Time
	for e := range log {
		start = cmp.Or(start, e.At)
		if _, err := fmt.Fprintf(w, "%d,%s,%s\n", int64(e.At.Sub(start)/time.Second), e.User,
			strings.Join(e.To, ";")); err != nil {
			return err
		}
	}
	return nil
}
