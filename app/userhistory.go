package app

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"weir/console"
	"weir/internal/clock"
	"weir/mail/spool"
	"weir/throttle/reach"
)

// Bounds of what is remembered of mail users. Each line takes at most 12 KiB.
const (
	maxPastUsers = 256
	maxPastLines = 4 // throttles of one kind that know a user; of further ones nothing is kept
	pastEvery    = console.HourEvery
	pastSpan     = console.HourEvery * console.HourLength
	pastPatience = 5 * time.Second // with the store
)

// boundPastUsers counts messages of users who are not kept because the table is full.
const boundPastUsers = "user_history"

// A userHistory keeps the last hour of mail users that send, are held back or are looked at. It reads what the
// throttles have stored, every ten seconds while there are such users. Their number is bounded: see admit.
type userHistory struct {
	clock clock.Clock
	read  func(ctx context.Context, now time.Time, users []string) ([]spool.UserStanding, error)
	full  func() // a user finds no place

	reading sync.Mutex // one look at a time; taken before mu
	mu      sync.Mutex
	over    bool
	timer   clock.Timer
	users   map[string]*userPast
}

// A userPast is what is kept of one user.
type userPast struct {
	since   time.Time // when it began
	rank    userRank
	changed time.Time // when a figure changed, or the user sent or was looked at
	looked  time.Time // by an operator
	mail    []*steps
	reach   []*steps
}

// A userRank says who keeps a place when there are more users than places.
type userRank int

const (
	atEase     userRank = iota // sends, and nothing is held back
	restrained                 // recipients wait, or the user is stopped, in slow motion or flagged
	lookedAt                   // by an operator, in the last hour
)

// sent notes that a user has sent something, and whether it was held back. It is called for every message.
func (h *userHistory) sent(user string, held bool) {
	rank := atEase
	if held {
		rank = restrained
	}
	now := h.clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.admit(user, rank, now)
}

// admit finds a user's place. If there is none, the user with the lowest rank gives up theirs, of several the one
// whose figures have not changed for the longest time. Only a higher rank takes a place, so that many users who come
// and go do not push each other out; but an operator always gets to see whoever they look at.
func (h *userHistory) admit(user string, rank userRank, now time.Time) *userPast {
	if h.over {
		return nil
	}
	p := h.users[user]
	if p == nil {
		if len(h.users) >= maxPastUsers && !h.giveUp(rank) {
			h.full()
			return nil
		}
		if h.users == nil {
			h.users = map[string]*userPast{}
		}
		p = &userPast{since: now}
		h.users[user] = p
	}
	p.rank, p.changed = max(p.rank, rank), now
	if rank == lookedAt {
		p.looked = now
	}
	if h.timer == nil {
		h.timer = h.clock.AfterFunc(pastEvery, h.tick)
	}
	return p
}

// giveUp makes room for a user of a rank, and reports whether it could.
func (h *userHistory) giveUp(rank userRank) bool {
	if rank == atEase { // nobody is below
		return false
	}
	var name string
	var last *userPast
	for n, p := range h.users {
		if last == nil || p.rank < last.rank || p.rank == last.rank && p.changed.Before(last.changed) {
			name, last = n, p
		}
	}
	if last.rank >= rank && rank < lookedAt {
		return false
	}
	delete(h.users, name)
	return true
}

func (h *userHistory) tick() {
	h.reading.Lock()
	defer h.reading.Unlock()
	h.mu.Lock()
	h.timer = nil
	var names []string
	if !h.over {
		for name := range h.users {
			names = append(names, name)
		}
	}
	h.mu.Unlock()
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	h.look(context.Background(), names)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over && len(h.users) > 0 && h.timer == nil {
		h.timer = h.clock.AfterFunc(pastEvery, h.tick)
	}
}

// readBatch is how many users are read in one transaction.
const readBatch = 64

// look reads users and notes what has changed. If the store fails, there is no point at this time, and the lines go on
// with the next one. h.reading is held.
func (h *userHistory) look(ctx context.Context, names []string) {
	now := h.clock.Now()
	for batch := range slices.Chunk(names, readBatch) {
		if h.stopped() {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, pastPatience)
		all, err := h.read(ctx, now, batch)
		cancel()
		h.mu.Lock()
		for i, name := range batch {
			p := h.users[name]
			switch {
			case p == nil: // gave up its place meanwhile
			case err == nil:
				p.note(&all[i], now)
				fallthrough
			default:
				if now.Sub(p.changed) >= pastSpan || now.Before(p.since) {
					delete(h.users, name)
				}
			}
		}
		h.mu.Unlock()
	}
}

func (h *userHistory) stopped() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

// note adds what was read of a user.
func (p *userPast) note(s *spool.UserStanding, now time.Time) {
	rank, changed := atEase, false
	at := now.UnixMilli()
	p.mail = keepLines(p.mail, len(s.Mail), func(i int) string { return s.Mail[i].Throttle })
	for i := range min(len(s.Mail), maxPastLines) {
		m := &s.Mail[i]
		if m.Stopped || m.Slow || m.Waiting > 0 {
			rank = restrained
		}
		changed = p.mail[i].add(at, mailRow(m)) || changed
	}
	p.reach = keepLines(p.reach, len(s.Reach), func(i int) string { return s.Reach[i].Throttle })
	for i := range min(len(s.Reach), maxPastLines) {
		if s.Reach[i].Flagged {
			rank = restrained
		}
		// Estimates of the past week change all the time, also of those who do not send any more.
		p.reach[i].add(at, reachRow(&s.Reach[i]))
	}
	if changed {
		p.changed = now
	}
	if !p.looked.IsZero() && now.Sub(p.looked) < pastSpan {
		rank = lookedAt
	}
	p.rank = rank
}

// keepLines returns a line for each of n throttles, in order: the one there is, or a new one.
func keepLines(old []*steps, n int, name func(int) string) []*steps {
	list := make([]*steps, min(n, maxPastLines))
	for i := range list {
		if k := slices.IndexFunc(old, func(s *steps) bool { return s.name == name(i) }); k >= 0 {
			list[i] = old[k]
		} else {
			list[i] = &steps{name: name(i)}
		}
	}
	return list
}

var mailColumns = []console.Measure{console.Waiting, console.StopAbove, console.Slack, console.MSlack,
	console.WorkingSet, console.UserStopped}

func mailRow(s *spool.Standing) []float32 {
	row := []float32{float32(s.Waiting), float32(s.Limit), float32(s.Slack), float32(s.MSlack),
		float32(s.WorkingSet), 0}
	if s.Stopped {
		row[5] = 1
	}
	return row
}

var reachColumns = []console.Measure{console.NewInHour, console.NewInDay, console.NewInWeek, console.HourLimit,
	console.DayLimit, console.WeekLimit, console.UserFlagged}

func reachRow(s *spool.ReachStanding) []float32 {
	none := float32(math.NaN()) // of windows that the throttle does not have
	row := []float32{none, none, none, none, none, none, 0}
	for _, f := range s.Figures {
		i := slices.Index([]reach.Window{reach.Hour, reach.Day, reach.Week}, f.Window)
		if i < 0 {
			continue
		}
		row[i] = float32(rounded(f.New))
		if f.Limit > 0 {
			row[3+i] = float32(rounded(f.Limit))
		}
	}
	if s.Flagged {
		row[6] = 1
	}
	return row
}

// steps are figures over time: a row for each time at which one changed.
type steps struct {
	name string
	at   []int64 // milliseconds since 1970
	rows []float32
}

// add adds a row, and reports whether it differs from the last one. What is older than the span is dropped, but for the
// row that holds at its beginning. A clock that was set back begins anew.
func (s *steps) add(at int64, row []float32) (differs bool) {
	n, w := len(s.at), len(row)
	if n > 0 && at < s.at[n-1] {
		s.at, s.rows, n = nil, nil, 0
	}
	if n > 0 && slices.EqualFunc(s.rows[(n-1)*w:], row,
		func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
		return false
	}
	if n > 0 && at == s.at[n-1] { // somebody looks in the same millisecond
		copy(s.rows[(n-1)*w:], row)
		return true
	}
	old := 0
	for old < n && (n-old >= console.HourLength || old+1 < n && s.at[old+1] <= at-pastSpan.Milliseconds()) {
		old++
	}
	s.at = append(slices.Delete(s.at, 0, old), at)
	s.rows = append(slices.Delete(s.rows, 0, old*w), row...)
	return true
}

// series writes the line into columns, up to now: the last value holds until then.
func (s *steps) series(kind string, names []console.Measure, now time.Time) console.Series {
	out := console.Series{Name: s.name, Kind: kind, Unit: "recipients", Seconds: pastEvery.Seconds(),
		At: slices.Clone(s.at), Columns: map[console.Measure]console.Values{}}
	n, w := len(s.at), len(names)
	last := n > 0 && s.at[n-1] < now.UnixMilli()
	if last {
		out.At = append(out.At, now.UnixMilli())
	}
	for i, name := range names {
		var column console.Values
		known := false
		for k := range n {
			v := s.rows[k*w+i]
			known = known || !math.IsNaN(float64(v))
			column = append(column, v)
		}
		if last {
			column = append(column, column[n-1])
		}
		if known {
			out.Columns[name] = column
		}
	}
	return out
}

// show returns the past of a user, as it is now. Whoever is looked at gets a place, so that the past is there the next
// time.
func (h *userHistory) show(ctx context.Context, user string) console.UserHistory {
	h.reading.Lock()
	defer h.reading.Unlock()
	now := h.clock.Now()
	h.mu.Lock()
	h.admit(user, lookedAt, now)
	h.mu.Unlock()
	h.look(ctx, []string{user})
	out := console.UserHistory{User: user, At: now, Since: now, Throttles: []console.Series{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.users[user]
	if p == nil {
		return out
	}
	if out.Since = p.since; now.Sub(p.since) > pastSpan {
		out.Since = now.Add(-pastSpan)
	}
	for _, s := range p.mail {
		out.Throttles = append(out.Throttles, s.series("mail", mailColumns, now))
	}
	for _, s := range p.reach {
		out.Throttles = append(out.Throttles, s.series("reach", reachColumns, now))
	}
	return out
}

// stop ends it: when it returns, nothing is read any more.
func (h *userHistory) stop() {
	h.mu.Lock()
	h.over = true
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	h.mu.Unlock()
	h.reading.Lock()
	defer h.reading.Unlock()
}

// standings reads how mail users stand.
func (a *App) standings(ctx context.Context, now time.Time, users []string) ([]spool.UserStanding, error) {
	if a.post.Spool == nil {
		return nil, ErrNotServing
	}
	return a.post.Standings(ctx, now, users)
}

// UserHistory returns the last hour of a user who is known.
func (d mailOps) UserHistory(ctx context.Context, name string) (console.UserHistory, error) {
	name = d.named(ctx, name)
	if _, err := d.User(ctx, name); err != nil {
		return console.UserHistory{}, err
	}
	return d.users.show(ctx, name), nil
}
