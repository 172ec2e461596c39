package reach

import (
	"encoding/csv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// An entry is a mail of a log.
type entry struct {
	at   time.Duration
	user string
	to   []uint64
}

// realLog reads a mail log that is no part of the project: WEIR_DATA names the folder that it lies in.
func realLog(t testing.TB) (log []entry) {
	folder := os.Getenv("WEIR_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "shared", "data")
	}
	file, err := os.Open(filepath.Join(folder, "mail-eu.csv"))
	if err != nil {
		t.Skipf("needs the mail log, in the folder that WEIR_DATA names: %v", err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	draw := rand.New(rand.NewPCG(1, 2))
	keys := map[string]uint64{}
	for _, row := range rows[1:] {
		seconds, err := strconv.Atoi(row[0])
		if err != nil {
			t.Fatal(err)
		}
		e := entry{at: time.Duration(seconds) * time.Second, user: row[1]}
		seen := map[string]bool{}
		for to := range strings.SplitSeq(row[2], ";") {
			if keys[to] == 0 {
				keys[to] = draw.Uint64()
			}
			if !seen[to] {
				seen[to] = true
				e.to = append(e.to, keys[to])
			}
		}
		log = append(log, e)
	}
	return log
}

// replay sends a log, and calls each with every verdict.
func replay(log []entry, r *Rules, p *Population, users map[string]*State, each func(e entry, v Verdict)) {
	for _, e := range log {
		s := users[e.user]
		if s == nil {
			s = new(State)
			users[e.user] = s
		}
		now := epoch.Add(e.at)
		v, samples := s.Commit(r, p, now, e.to, nil)
		p.Observe(now, samples)
		each(e, v)
	}
}

// On a real mail log almost nobody is flagged by what is learnt from it, and stolen accounts are found within 60
// strangers.
func TestRealLog(t *testing.T) {
	t.Parallel()
	log := realLog(t)
	const months = 150 / 30.0
	for _, c := range []struct {
		name  string
		o     Options
		false float64 // flags per 100 users and month, at most
		found bool    // stolen accounts within 60 strangers
	}{
		{"dynamic", Options{}, 1, true},
		{"dynamic, sketch only", Options{Over: Flag}, 1, true},
		{"bloom", Options{Structure: Bloom}, 1, true},
		{"count 30", Options{Threshold: Threshold{Count: 30}}, 10, true},
		{"200%", Options{Threshold: Threshold{Share: 2}}, 1, false},
	} {
		r, p, users := rules(t, c.o), new(Population), map[string]*State{}
		before, flags := log[:len(log)*2/3], 0
		replay(before, r, p, users, func(_ entry, v Verdict) {
			if v.Now {
				flags++
			}
		})
		worst, sum, stolen := 0, 0, 0
		for _, each := range []time.Duration{2 * time.Minute, 12 * time.Second} { // 30 and 300 an hour
			for i, user := range slices.Sorted(maps.Keys(users)) {
				s, now := users[user], epoch.Add(before[len(before)-1].at)
				if i%20 == 0 && now.Sub(s.Since()) > 9*day {
					n := untilFlagged(s, r, p, now, each)
					worst, sum, stolen = max(worst, n), sum+n, stolen+1
				}
			}
		}
		replay(log[len(before):], r, p, users, func(_ entry, v Verdict) {
			if v.Now {
				flags++
			}
		})
		share := 100 * float64(flags) / float64(len(users)) / months
		t.Logf("%-20s %3d flags of %d users, %.2f per 100 and month; stolen accounts are found with stranger %d at "+
			"the latest, %.0f on average",
			c.name+":", flags, len(users), share, worst, float64(sum)/float64(stolen))
		if share > c.false || c.found && worst > 60 {
			t.Errorf("%s: %.2f false flags, found with stranger %d", c.name, share, worst)
		}
	}
}

// untilFlagged is how many strangers a stolen account writes to until it is flagged. The state stays as it is.
func untilFlagged(s *State, r *Rules, p *Population, now time.Time, each time.Duration) int {
	b, _ := s.AppendBinary(nil)
	k, _ := s.AppendKnown(nil)
	var stolen State
	if stolen.UnmarshalBinary(b) != nil || stolen.SetKnown(k) != nil {
		return -1
	}
	draw := rand.New(rand.NewPCG(3, 4))
	for n := 1; ; n++ {
		if v, _ := stolen.Commit(r, p, now, []uint64{draw.Uint64()}, nil); v.Flagged || n == 1000 {
			return n
		}
		now = now.Add(each)
	}
}
