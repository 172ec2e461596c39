package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/throttle/reach"
)

// reached replays a log.
func reached(t testing.TB, o ReachOptions, log iter.Seq[Entry]) *ReachStudy {
	t.Helper()
	r, err := NewReachReplay(o)
	if err != nil {
		t.Fatal(err)
	}
	for e := range log {
		if err := r.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	s, err := r.Study()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Accounts of a real log that are stolen on day 100 are found within 60 new recipients by what is usual in it, whoever
// is stolen from; and hardly anybody else is flagged.
func TestReachRealLog(t *testing.T) {
	t.Parallel()
	log := realLog(t)
	o := ReachOptions{}
	victims := map[string]string{}
	for _, v := range []struct {
		kind string
		rank float64 // by the number of recipients, of those who are known for a while
	}{{"quiet", 0.02}, {"mid", 0.5}, {"busy", 0.9}, {"busiest", 1}} {
		user := ranked(log, 100*day, v.rank)
		victims[user] = v.kind
		for _, rate := range []float64{30, 300} {
			o.Steal = append(o.Steal, Theft{User: user, PerHour: rate, After: 100 * day})
		}
	}
	s := reached(t, o, slices.Values(log))
	for _, c := range s.Thresholds {
		text := fmt.Sprintf("%-8s %3d flags, %.2f per 100 users and month; found after", c.Threshold, c.Flags,
			c.FlagsMonthly)
		for i, n := range c.FoundAfter {
			text += fmt.Sprintf(" %s at %.0f/h: %d;", victims[s.Stolen[i].User], s.Stolen[i].PerHour, n)
		}
		t.Log(text)
	}
	if s.Thresholds[0].Threshold != "dynamic" || s.FlagsMonthly > 1 {
		t.Errorf("%s: %.2f false flags per 100 users and month", s.Thresholds[0].Threshold, s.FlagsMonthly)
	}
	for _, v := range s.Stolen {
		if v.FoundAfter < 1 || v.FoundAfter > 60 || v.After <= 0 || v.Problem != "" {
			t.Errorf("%s at %.0f an hour: found after %d new recipients, %.0f s %s", victims[v.User], v.PerHour,
				v.FoundAfter, v.After, v.Problem)
		}
	}
	if len(s.Users) != MaxWorst || len(s.Growth) != maxCurves || s.Flags != s.Thresholds[0].Flags {
		t.Errorf("%d users, %d curves, %d flags", len(s.Users), len(s.Growth), s.Flags)
	}
}

// ranked returns a user by how many different people they wrote to until then, of those who wrote for the first time
// two weeks before.
func ranked(log []Entry, until time.Duration, rank float64) string {
	people, first := map[string]map[string]bool{}, map[string]time.Time{}
	for _, e := range log {
		if e.At.Sub(log[0].At) >= until {
			break
		}
		if people[e.User] == nil {
			people[e.User], first[e.User] = map[string]bool{}, e.At
		}
		for _, to := range e.To {
			people[e.User][to] = true
		}
	}
	var users []string
	for user, at := range first {
		if log[0].At.Add(until).Sub(at) > 14*day {
			users = append(users, user)
		}
	}
	slices.SortFunc(users, func(a, b string) int {
		if n := len(people[a]) - len(people[b]); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	return users[min(int(rank*float64(len(users))), len(users)-1)]
}

// plainReach has a state for every user and threshold, and nothing clever. The recipients are those of the log.
func plainReach(t testing.TB, o reach.Options, log iter.Seq[Entry]) (c Threshold, held int,
	recipients map[string]map[uint64]bool) {
	rules, err := o.Rules()
	if err != nil {
		t.Fatal(err)
	}
	var usual reach.Population
	users := map[string]*reach.State{}
	recipients = map[string]map[uint64]bool{}
	for e := range log {
		s := users[e.User]
		if s == nil {
			s = new(reach.State)
			users[e.User], recipients[e.User] = s, map[uint64]bool{}
		}
		var keys []uint64
		for _, to := range e.To {
			if key := recipientKey(to); !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
			recipients[e.User][recipientKey(to)] = true
		}
		v, samples := s.Commit(rules, &usual, e.At, keys, nil)
		usual.Observe(e.At, samples)
		held += v.Held
		if v.Now {
			c.Flags++
		}
	}
	return c, held, recipients
}

// Thresholds that share the states of users say what they would say by themselves.
func TestReachSharesStates(t *testing.T) {
	t.Parallel()
	thresholds := append(Thresholds(), reach.Threshold{Count: 20}, reach.Threshold{Count: 1000})
	base := reach.Options{Floor: 10, Newcomers: 40}
	log := func() iter.Seq[Entry] { return generateLog(60, 21) }
	s := reached(t, ReachOptions{Reach: base, Thresholds: thresholds}, log())
	flags := map[int]bool{}
	for i, threshold := range thresholds {
		o := base
		o.Threshold = threshold
		want, held, recipients := plainReach(t, o, log())
		flags[want.Flags] = true
		if got := s.Thresholds[i]; got.Threshold != threshold.String() || got.Flags != want.Flags {
			t.Errorf("%s: %d flags, by itself %d", got.Threshold, got.Flags, want.Flags)
		}
		if i > 0 {
			continue
		}
		if s.Held != held {
			t.Errorf("%d held, by itself %d", s.Held, held)
		}
		for _, u := range s.Users {
			if n := len(recipients[u.User]); u.Recipients != float64(n) || u.MostHour > u.MostDay ||
				u.MostDay > u.Recipients {
				t.Errorf("%+v, of %d different recipients", u, n)
			}
		}
	}
	if len(flags) < 4 {
		t.Errorf("too few differ: %v", flags)
	}
}

// The same log gives the same study, and its stolen account is in it.
func TestReachGeneratedLog(t *testing.T) {
	t.Parallel()
	o := ReachOptions{Steal: []Theft{{PerHour: 30}, {PerHour: 300}, {User: "u3", PerHour: 60, After: 15 * day}}}
	s := reached(t, o, generateLog(40, 24))
	first, _ := json.Marshal(s)
	second, _ := json.Marshal(reached(t, o, generateLog(40, 24)))
	if string(first) != string(second) {
		t.Errorf("%s\n%s", first, second)
	}
	at := slices.IndexFunc(s.Users, func(u ReachUser) bool { return u.User == "u9" })
	if at < 0 || s.Users[at].Flags != 1 || s.Users[at].MostHour < 50 || s.Flags > 2 || s.Held < 100 {
		t.Errorf("%d flags, %d held, %+v", s.Flags, s.Held, s.Users[0])
	}
	for _, v := range s.Stolen {
		if v.FoundAfter < 10 || v.FoundAfter > 60 || v.After <= 0 || v.User == "" {
			t.Errorf("%+v", v)
		}
	}
	if s.Stolen[0].User == s.Stolen[1].User {
		t.Errorf("%s was stolen twice", s.Stolen[0].User)
	}
	for _, c := range s.Growth {
		if n := len(c.Day); n < 2 || n > maxPoints+1 || n != len(c.Sum) || !slices.IsSorted(c.Day) || c.Day[n-1] < 23 {
			t.Errorf("%s: %v, %v", c.User, c.Day, c.Sum)
		}
	}
	without := reached(t, ReachOptions{}, generateLog(40, 24))
	s.Stolen, without.Stolen = nil, nil
	for i := range s.Thresholds {
		s.Thresholds[i].FoundAfter, without.Thresholds[i].FoundAfter = nil, nil
	}
	a, _ := json.Marshal(s)
	if b, _ := json.Marshal(without); string(a) != string(b) {
		t.Errorf("what was stolen is in other figures:\n%s\n%s", a, b)
	}
}

// few is a log of one mail each day.
func few(days int, to func(day int) []string) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for n := range days {
			if !yield(Entry{At: generatedStart.AddDate(0, 0, n), User: "ann", To: to(n)}) {
				return
			}
		}
	}
}

func many(from, n int) (to []string) {
	for i := range n {
		to = append(to, fmt.Sprintf("P%d@example.org", from+i))
	}
	return to
}

// Who a user wrote to is as the log has it: all who are new within an hour are among those of the day, and these
// among all. What would have been held does not change it.
func TestReachCounts(t *testing.T) {
	// Recipients that were not let through are new whenever they are written to, and yet the same person.
	retried := func(yield func(Entry) bool) {
		for i := range 12 {
			if !yield(Entry{At: generatedStart.Add(time.Duration(i) * 2 * time.Hour), User: "ann", To: many(0, 64)}) {
				return
			}
		}
	}
	twice := func(n int) []string { return append(many(n, 3), "p1@EXAMPLE.org", "out@example.net") }
	for name, c := range map[string]struct {
		o          ReachOptions
		log        iter.Seq[Entry]
		recipients float64
		flags      int
		held       int
	}{
		"a newsletter": {ReachOptions{}, few(60, func(int) []string { return many(0, 500) }), 500, 0, 0},
		"a count": {ReachOptions{Reach: reach.Options{Threshold: reach.Threshold{Count: 50}}},
			few(1, func(int) []string { return many(0, 500) }), 500, 1, 450},
		"each once": {ReachOptions{}, few(10, twice), 13, 0, 0},
		"internal": {ReachOptions{Reach: reach.Options{Internal: []string{"example.net"}}}, few(10, twice), 12,
			0, 0},
		"exempt": {ReachOptions{Reach: reach.Options{Threshold: reach.Threshold{Count: 50},
			Exempt: []string{"ann"}}}, few(1, func(int) []string { return many(0, 500) }), 500, 0, 0},
		"again and again": {ReachOptions{Reach: reach.Options{Threshold: reach.Threshold{Count: 10}, Floor: 10,
			For: weir.Duration(time.Minute)}}, retried, 64, 1, 648},
		"nobody": {ReachOptions{}, few(3, func(int) []string { return nil }), 0, 0, 0},
		"a flag that ends": {ReachOptions{Reach: reach.Options{Threshold: reach.Threshold{Count: 50}}},
			few(5, func(n int) []string { return many(1000*n, 60*(1-n%2)) }), 180, 3, 30},
	} {
		s := reached(t, c.o, c.log)
		if u := s.Users[0]; u.User != "ann" || u.Recipients != c.recipients || u.Flags != c.flags ||
			s.Flags != c.flags || u.Held != c.held || s.Held != c.held {
			t.Errorf("%s: %+v", name, u)
		} else if u.MostHour > u.MostDay || u.MostDay > u.Recipients || c.recipients > 0 && u.MostDay == 0 {
			t.Errorf("%s does not add up: %+v", name, u)
		}
	}
	if s := reached(t, ReachOptions{}, few(0, nil)); s.Flags != 0 || s.FlagsMonthly != 0 || len(s.Users) != 0 {
		t.Errorf("an empty log: %+v", s)
	}
}

func TestReachTheftsFail(t *testing.T) {
	o := ReachOptions{Steal: []Theft{{User: "bob", PerHour: 30, After: day}, {PerHour: 30, After: day},
		{User: "ann", PerHour: 0.01, After: 400 * day}}}
	s := reached(t, o, few(30, func(n int) []string { return many(n, 2) }))
	for i, want := range []string{"had not written to anybody by then", "nobody had written for long enough by then",
		""} {
		if v := s.Stolen[i]; v.Problem != want || v.FoundAfter != -1 || v.After != -1 {
			t.Errorf("%+v", v)
		}
		for _, c := range s.Thresholds {
			if c.FoundAfter[i] != -1 {
				t.Errorf("%s: found", c.Threshold)
			}
		}
	}
}

// Who is flagged at the time is not chosen; who is named all the same is said to be, and where nobody else is left,
// that is said.
func TestReachTheftOfFlagged(t *testing.T) {
	log := func(users ...string) iter.Seq[Entry] {
		return func(yield func(Entry) bool) {
			for n := range 20 {
				for _, user := range users {
					to := []string{"friend@example.org"}
					if n == 19 && user != "ann" {
						to = many(1000, 60)
					}
					if !yield(Entry{At: generatedStart.AddDate(0, 0, n), User: user, To: to}) {
						return
					}
				}
			}
		}
	}
	o := ReachOptions{
		Reach:      reach.Options{Threshold: reach.Threshold{Count: 50}},
		Thresholds: []reach.Threshold{{Count: 55}, {Count: 100}},
		Steal:      []Theft{{PerHour: 30}, {PerHour: 60}, {PerHour: 120}, {User: "bob", PerHour: 300}},
	}
	s := reached(t, o, log("ann", "bob", "carl"))
	for _, v := range s.Stolen[:3] {
		if v.User != "ann" || v.FoundAfter != 51 || v.Problem != "" {
			t.Errorf("%+v", v)
		}
	}
	if v := s.Stolen[3]; v.User != "bob" || v.FoundAfter != 0 || v.After != 0 || v.Problem != flaggedBefore {
		t.Errorf("%+v", v)
	}
	// Under a threshold that has not flagged the user they are watched all the same: 60 of their own, and these.
	if got := []int{s.Thresholds[0].FoundAfter[3], s.Thresholds[1].FoundAfter[3],
		s.Thresholds[2].FoundAfter[3]}; !slices.Equal(got, []int{0, 0, 41}) {
		t.Error(got)
	}
	for _, v := range reached(t, o, log("bob", "carl")).Stolen[:3] {
		if v.User != "" || v.FoundAfter != -1 ||
			v.Problem != "all who had written for long enough were flagged already" {
			t.Errorf("%+v", v)
		}
	}
	// A flag under a threshold that is only tried counts, too: nobody is found with the 0th.
	o.Reach.Threshold, o.Thresholds = reach.Threshold{Count: 100}, []reach.Threshold{{Count: 50}}
	for _, v := range reached(t, o, log("ann", "bob")).Stolen[:3] {
		if v.User != "ann" || v.FoundAfter != 101 {
			t.Errorf("%+v", v)
		}
	}
}

func TestReachRefuses(t *testing.T) {
	r, err := NewReachReplay(ReachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.users.most = 2
	at := generatedStart
	for _, c := range []struct {
		e    Entry
		want error
	}{
		{Entry{At: at, User: "a", To: []string{"x"}}, nil},
		{Entry{At: at, User: "b", To: many(0, MaxMailRecipients)}, nil},
		{Entry{At: at, User: "b", To: many(0, MaxMailRecipients+1)}, ErrRecipients},
		{Entry{At: at, User: "c", To: []string{"x"}}, ErrUsers},
		{Entry{At: at.Add(-MaxBackwards), User: "a", To: []string{"x"}}, nil},
		{Entry{At: at.Add(-MaxBackwards - 1), User: "a", To: []string{"x"}}, ErrOrder},
		{Entry{At: earliest.Add(-1), User: "a"}, ErrTime},
		{Entry{At: latest.Add(1), User: "a"}, ErrTime},
	} {
		if err := r.Add(c.e); !errors.Is(err, c.want) {
			t.Errorf("%s to %d: %v", c.e.User, len(c.e.To), err)
		}
	}
	s, err := r.Study()
	if err != nil || len(s.Users) != 2 || s.Users[1].Mails != 2 {
		t.Errorf("%v, %+v", err, s)
	}
	if err := r.Add(Entry{At: at, User: "a"}); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	if again, _ := r.Study(); again != s {
		t.Error("another study")
	}
}

// A threshold in percent may be against the window before; those that are tried beside it are not all in percent.
func TestReachAgainstPrevious(t *testing.T) {
	o := ReachOptions{Reach: reach.Options{Threshold: reach.Threshold{Share: 2}, Against: reach.AgainstPrevious,
		Floor: 10, Newcomers: 40}}
	log := func() iter.Seq[Entry] { return generateLog(60, 21) }
	s := reached(t, o, log())
	if want, _, _ := plainReach(t, o.Reach, log()); s.Flags != want.Flags || s.Flags == 0 {
		t.Errorf("%d flags, by itself %d", s.Flags, want.Flags)
	}
	history := o
	history.Reach.Against = reach.AgainstHistory
	if other := reached(t, history, log()); other.Flags == s.Flags {
		t.Errorf("%d flags, whatever it is against", s.Flags)
	}
	for _, c := range s.Thresholds[1:] {
		plain := o.Reach
		if plain.Threshold, _ = reach.ParseThreshold(c.Threshold); plain.Threshold.Share == 0 {
			plain.Against = ""
		}
		if want, _, _ := plainReach(t, plain, log()); c.Flags != want.Flags {
			t.Errorf("%s: %d flags, by itself %d", c.Threshold, c.Flags, want.Flags)
		}
	}
}

func TestReachOptions(t *testing.T) {
	_, err := NewReachReplay(ReachOptions{
		Reach:      reach.Options{Floor: -1},
		Thresholds: make([]reach.Threshold, MaxThresholds+1),
		Steal:      append(make([]Theft, MaxThefts), Theft{PerHour: 1, After: -1}),
	})
	for _, want := range []string{"reach.floor", "17 are too many", "17 stolen accounts", "steal[0].per_hour",
		"steal[16].after"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

// A curve keeps its form, however long it gets.
func TestReachCurve(t *testing.T) {
	var c reachCurve
	for hour := range 24 * 1000 {
		c.add(time.Duration(hour)*time.Hour, float64(hour/10))
	}
	d := c.drawn("ann", 1000*day, 2400)
	if n := len(d.Day); n > maxPoints+1 || n < maxPoints/2 || !slices.IsSorted(d.Day) || !slices.IsSorted(d.Sum) {
		t.Fatalf("%d points: %v", n, d)
	}
	for i, x := range d.Day {
		if off := d.Sum[i] - 2.4*x; off < -50 || off > 100 {
			t.Errorf("%f on day %f", d.Sum[i], x)
		}
	}
}

func BenchmarkReachReplay(b *testing.B) {
	log := slices.Collect(generateLog(1000, 30))
	b.ReportAllocs()
	for b.Loop() {
		reached(b, ReachOptions{}, slices.Values(log))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(log)), "ns/mail")
}
