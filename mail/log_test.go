package mail

import (
	"cmp"
	"encoding/csv"
	"flag"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// An entry is a mail of a log.
type entry struct {
	at   time.Duration
	user string
	to   []string
}

// A summary is what the throttle would have done to a log.
type summary struct {
	users, mails, delayed, stops int
	recipients                   int           // that left the queue by the clock
	delay                        time.Duration // … of all of them together
	most                         int           // waiting at once, of all users
}

func (s summary) share() float64 { return 100 * float64(s.delayed) / float64(s.mails) }

func (s summary) mean() time.Duration {
	return (s.delay / time.Duration(max(1, s.recipients))).Round(time.Second)
}

// replay holds a log against the throttle. A stopped user releases all that is held, and goes on.
func replay(t *testing.T, p Params, log []entry) summary {
	type user struct {
		State
		since map[Item]time.Duration
	}
	var sum summary
	users := map[string]*user{}
	seed := maphash.MakeSeed()
	waiting := 0
	gone := func(u *user, items []Item, at time.Duration) {
		for _, it := range items {
			sum.recipients++
			sum.delay += at - u.since[it]
			delete(u.since, it)
			waiting--
		}
	}
	for i, e := range log {
		u := users[e.user]
		if u == nil {
			u = &user{since: map[Item]time.Duration{}}
			users[e.user] = u
		}
		now := epoch.Add(e.at)
		for due := u.Due(&p); !due.IsZero() && !due.After(now); due = u.Due(&p) {
			gone(u, u.Tick(&p, due, nil), due.Sub(epoch))
		}
		u.Tick(&p, now, nil)
		keys := make([]uint64, len(e.to))
		for j, to := range e.to {
			keys[j] = maphash.String(seed, to)
		}
		d := u.Submit(&p, now, uint64(i)+1, keys, nil, nil)
		if d.Refused || d.Passed+d.Delayed != len(keys) {
			t.Fatalf("mail %d: %+v", i, d)
		}
		sum.mails++
		if d.Delayed > 0 {
			sum.delayed++
			for _, it := range u.Waiting()[len(u.Waiting())-d.Delayed:] {
				u.since[it] = e.at
			}
			waiting += d.Delayed
			sum.most = max(sum.most, waiting)
		}
		if d.Stopped {
			sum.stops++
			waiting -= len(u.Take(func(Item) bool { return true }))
			clear(u.since)
			u.Resume(&p, now, false)
		}
	}
	sum.users = len(users)
	return sum
}

// TestRealLog holds the reference model's figures for a real mail log against ours. The log is no part of the project: WEIR_DATA names
// the folder that it lies in.
func TestRealLog(t *testing.T) {
	folder := os.Getenv("WEIR_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "shared", "data")
	}
	file, err := os.Open(filepath.Join(folder, "mail-eu.csv"))
	if err != nil {
		t.Skipf("needs the mail log, in the folder that WEIR_DATA names: %v", err)
	}
	defer file.Close()
	log := readLog(t, file)
	for _, c := range []struct {
		workingSet int
		delayed    float64 // percent of the mails
		stops      int
		mean       time.Duration
	}{{0, 4.80, 39, 220 * time.Second}, {1, 2.96, 38, 250 * time.Second}, {5, 1.69, 36, 277 * time.Second}} {
		p := standard()
		p.WorkingSet = c.workingSet
		got := replay(t, p, log)
		t.Logf("working set %d: %.2f %% of %d mails of %d users delayed, %d stops, mean delay %s, at most %d wait",
			c.workingSet, got.share(), got.mails, got.users, got.stops, got.mean(), got.most)
		if math.Abs(got.share()-c.delayed) > 0.1 || got.stops < c.stops-1 || got.stops > c.stops+1 {
			t.Errorf("working set %d: %.2f %% delayed and %d stops, want %.2f %% and %d", c.workingSet, got.share(), got.stops, c.delayed, c.stops)
		}
		if d := got.mean() - c.mean; d < -5*time.Second || d > 5*time.Second {
			t.Errorf("working set %d: mean delay %s, want %s", c.workingSet, got.mean(), c.mean)
		}
	}
}

func readLog(t *testing.T, file io.Reader) (log []entry) {
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		seconds, err := strconv.Atoi(row[0])
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, entry{time.Duration(seconds) * time.Second, row[1], strings.Split(row[2], ";")})
	}
	return log
}

// TestGeneratedLog does the same with a log that is made up, the same on every machine.
func TestGeneratedLog(t *testing.T) {
	log := generateLog()
	var b strings.Builder
	b.WriteString("# What the throttle does to the generated log. go test ./mail -run GeneratedLog -update writes it anew.\n")
	for _, fifo := range []bool{false, true} {
		for _, set := range []int{0, 1, 5} {
			p := standard()
			p.WorkingSet, p.FIFO = set, fifo
			got := replay(t, p, log)
			fmt.Fprintf(&b, "fifo %-5v working set %d: %d users, %d mails, %d delayed (%.2f %%), %d stops, mean delay %s, at most %d wait\n",
				fifo, set, got.users, got.mails, got.delayed, got.share(), got.stops, got.mean(), got.most)
		}
	}
	name := filepath.Join("testdata", "log.golden")
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || b.String() != string(want) {
		t.Errorf("%v\ngot\n%swant\n%s", err, b.String(), want)
	}
}

// generateLog makes up thirty days of 80 people, who write in bursts, mostly to people they know; one of them sends a newsletter every
// week, and the account of another is stolen on day 20. It takes whole numbers only, so that every machine gets the same.
func generateLog() []entry {
	const users, days = 80, 30
	var log []entry
	for u := range users {
		r := rand.New(rand.NewPCG(5, uint64(u)))
		name := func(n int) string { return fmt.Sprint("p", u, "-", n) }
		met, last := 3, 0
		for day := range days {
			at := time.Duration(day)*24*time.Hour + 8*time.Hour + time.Duration(r.IntN(3600))*time.Second
			for range r.IntN(12 + u%7) {
				// One in four follows at once, the others after a while.
				if r.IntN(4) == 0 {
					at += time.Duration(5+r.IntN(80)) * time.Second
				} else {
					at += time.Duration(2+r.IntN(70)) * time.Minute
				}
				some := 1
				if r.IntN(6) == 0 {
					some = 2 + r.IntN(4)*r.IntN(6)
				}
				var to []string
				for range some {
					n := min(r.IntN(met), r.IntN(met), r.IntN(met)) // the first few are written to the most
					switch r.IntN(8) {
					case 0:
						met++
						n = met
					case 1, 2, 3:
						n = last
					}
					last = n
					if !slices.Contains(to, name(n)) {
						to = append(to, name(n))
					}
				}
				log = append(log, entry{at, fmt.Sprint("u", u), to})
			}
			if u == 7 && day%7 == 3 {
				var to []string
				for n := range 60 {
					to = append(to, name(n))
				}
				log = append(log, entry{at + time.Hour, "u7", to})
			}
			if u == 9 && day == 20 {
				for n := range 200 {
					log = append(log, entry{at + time.Duration(n)*7*time.Second, "u9", []string{fmt.Sprint("victim", n)}})
				}
			}
		}
	}
	slices.SortStableFunc(log, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	return log
}
