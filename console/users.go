package console

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir"
	"weir/console/access"
	"weir/internal/plot"
	"weir/internal/words"
	"weir/mail/spool"
	"weir/store"
)

// Bounds of the fields of users.
const (
	MaxUserPage = 1000
	MaxPassword = 1024 // bytes
	maxAddress  = 320  // bytes of a mail address
	maxSenders  = 100
	maxLimit    = 256 // bytes of a limit's name or value
)

// A UserView is a user and their state.
type UserView struct {
	store.User
	LogIn     bool             `json:"log_in"`          // they have a password
	Never     string           `json:"never,omitempty"` // why no gate takes mail of theirs
	Throttles []spool.Standing `json:"throttles"`       // that know them
}

// Stopped reports whether a throttle has stopped them.
func (u *UserView) Stopped() bool {
	return slices.ContainsFunc(u.Throttles, func(s spool.Standing) bool { return s.Stopped })
}

// A UserHistory is the last hour of a user, as far as it is kept: of users who send, are held back, or were looked at.
type UserHistory struct {
	User  string    `json:"user"`
	At    time.Time `json:"at"`    // now
	Since time.Time `json:"since"` // nothing is known from before
	// Throttles has a series for each throttle that knows the user, of the kinds mail and reach. There is a row for
	// each time at which a figure changed, looked at every Series.Seconds: it holds until the next one.
	Throttles []Series `json:"throttles"`
}

// A UserQuery asks for a part of the users.
type UserQuery struct {
	After   string `json:"after,omitempty"`   // the Next of the page before
	Stopped bool   `json:"stopped,omitempty"` // only stopped ones, including clients that are not users of the store
	Limit   int    `json:"limit,omitempty"`   // at most MaxUserPage, which is the default
}

// A UserPage is a part of the users.
type UserPage struct {
	Users []UserView `json:"users"`
	Next  string     `json:"next,omitempty"` // where the next page begins; empty on the last one
}

// A NewUser is a user to add.
type NewUser struct {
	Name     string   `json:"name"`
	Password string   `json:"password,omitempty"` // none: they cannot log in
	Contact  string   `json:"contact,omitempty"`
	Senders  []string `json:"senders,omitempty"`
	Language string   `json:"language,omitempty"` // of notices and of their page: de; none: the usual one
	Old      bool     `json:"old,omitempty"`      // the account is older than this call: not a newcomer for reach
	Dry      bool     `json:"dry,omitempty"`      // only say what is wrong
	// the user's own limits, by their names in the configuration of the throttle
	Limits map[string]string `json:"limits,omitempty"`
}

// A UserChange changes a user. Fields that are left out stay as they are.
type UserChange struct {
	Name          string            `json:"name"`
	Contact       *string           `json:"contact,omitempty"`
	Language      *string           `json:"language,omitempty"` // empty: the usual one
	Senders       *[]string         `json:"senders,omitempty"`  // all of them
	AddSenders    []string          `json:"add_senders,omitempty"`
	RemoveSenders []string          `json:"remove_senders,omitempty"`
	Limits        map[string]string `json:"limits,omitempty"` // by name; an empty value removes the limit
	Disabled      *bool             `json:"disabled,omitempty"`
	Dry           bool              `json:"dry,omitempty"` // only say what is wrong
}

// A UserPassword gives a user another password.
type UserPassword struct {
	Name     string `json:"name"`
	Password string `json:"password"`
}

// A UserStop stops a user.
type UserStop struct {
	Name string `json:"name"`
	Why  string `json:"why,omitempty"`
}

// A UserResume lets a user send again.
type UserResume struct {
	Name string `json:"name"`
	Slow bool   `json:"slow,omitempty"` // in slow motion at first
}

// Removed names who or what was removed.
type Removed struct {
	Removed string `json:"removed"`
}

// Changed names who or what was changed.
type Changed struct {
	Changed string `json:"changed"`
}

// checkUser returns the first error in the fields of a user.
func checkUser(name string, contact, language *string, limits map[string]string, senders ...[]string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if contact != nil {
		if err := checkLine("contact", *contact, maxAddress, true); err != nil {
			return err
		}
	}
	if language != nil && *language != "" && words.Find(*language) == nil {
		return Invalid(fmt.Sprintf("language: weir does not speak %.40q (%s)", *language,
			weir.Suggest(*language, words.Tags()...)))
	}
	for _, list := range senders {
		if len(list) > maxSenders {
			return Invalid("senders: at most " + strconv.Itoa(maxSenders))
		}
		for _, s := range list {
			if err := checkLine("senders", s, maxAddress, false); err != nil {
				return err
			}
		}
	}
	for key, value := range limits {
		if err := checkLine("limits", key, maxLimit, false); err != nil {
			return err
		}
		if err := checkLine(key, value, maxLimit, true); err != nil {
			return err
		}
	}
	return nil
}

func checkName(name string) error { return checkLine("user", name, store.MaxAccount, false) }

func checkPassword(password string) error {
	switch {
	case password == "":
		return Invalid("the password is empty")
	case len(password) > MaxPassword:
		return Invalid("a password has at most " + strconv.Itoa(MaxPassword) + " bytes")
	}
	return nil
}

// noUser is missing for a user.
func noUser(err error, name string) error { return missing(err, "there is no user %q", name) }

// aboutUser is the function of a call about a user.
func aboutUser[In, Out any](name func(*In) string, f func(*Request, Mail, *In) (Out, error)) func(*Request,
	*In) (Out, error) {
	return withMail(func(q *Request, m Mail, in *In) (out Out, err error) {
		if err := checkName(name(in)); err != nil {
			return out, err
		}
		out, err = f(q, m, in)
		return out, noUser(err, name(in))
	})
}

var (
	UserListCall = define(http.MethodGet, "/users", access.View, "user list", "Shows a part of the mail users.",
		withMail(func(q *Request, m Mail, in *UserQuery) (p UserPage, err error) {
			if in.Limit, err = limitOf(in.Limit, MaxUserPage); err != nil {
				return p, err
			}
			p, err = m.Users(q, *in)
			if p.Users == nil {
				p.Users = []UserView{}
			}
			return p, err
		}))

	UserAddCall = define(http.MethodPost, "/users", access.Admin, "user add, user import", "Adds a mail user.",
		withMail(func(q *Request, m Mail, in *NewUser) (v UserView, err error) {
			if err := checkUser(in.Name, &in.Contact, &in.Language, in.Limits, in.Senders); err != nil {
				return v, err
			}
			if in.Password != "" {
				if err := checkPassword(in.Password); err != nil {
					return v, err
				}
			}
			v, err = m.AddUser(q, q.by(), *in)
			if errors.Is(err, store.ErrExists) {
				err = Rejected(fmt.Sprintf("there is a user %q already", in.Name))
			}
			return v, err
		})).logged().saying(func(in *NewUser, _ UserView) string { return "Added: " + in.Name + "." })

	// The name is a parameter and no part of the path: it may be any text.
	UserShowCall = define(http.MethodGet, "/user", access.View, "user show",
		"Shows a mail user and their state in the throttles.",
		aboutUser(func(in *Name) string { return in.Name },
			func(q *Request, m Mail, in *Name) (UserView, error) { return m.User(q, in.Name) }))

	UserHistoryCall = define(http.MethodGet, "/user/history", access.View, "user history",
		"Shows the last hour of a mail user in the throttles: working set, slack, queue and reach.",
		aboutUser(func(in *Name) string { return in.Name },
			func(q *Request, m Mail, in *Name) (UserHistory, error) { return m.UserHistory(q, in.Name) }))

	UserRemoveCall = define(http.MethodDelete, "/user", access.Admin, "user remove",
		"Removes a mail user. Their messages stay.",
		aboutUser(func(in *Name) string { return in.Name },
			func(q *Request, m Mail, in *Name) (Removed, error) {
				return Removed{in.Name}, m.RemoveUser(q, q.by(), in.Name)
			})).logged().saying(func(in *Name, _ Removed) string { return "Removed: " + in.Name + "." })

	UserSetCall = define(http.MethodPost, "/user/set", access.Admin, "user set",
		"Changes the given fields of a mail user, all of them or none.",
		aboutUser(func(in *UserChange) string { return in.Name },
			func(q *Request, m Mail, in *UserChange) (v UserView, err error) {
				lists := [][]string{in.AddSenders, in.RemoveSenders}
				if in.Senders != nil {
					lists = append(lists, *in.Senders)
				}
				if err := checkUser(in.Name, in.Contact, in.Language, in.Limits, lists...); err != nil {
					return v, err
				}
				return m.SetUser(q, q.by(), *in)
			})).logged().saying(func(in *UserChange, _ UserView) string { return "Changed: " + in.Name + "." })

	UserPasswdCall = define(http.MethodPost, "/user/passwd", access.Admin, "user passwd",
		"Changes the password of a mail user.",
		aboutUser(func(in *UserPassword) string { return in.Name },
			func(q *Request, m Mail, in *UserPassword) (Changed, error) {
				if err := checkPassword(in.Password); err != nil {
					return Changed{}, err
				}
				return Changed{in.Name}, m.Passwd(q, q.by(), in.Name, in.Password)
			})).logged().saying(func(in *UserPassword, _ Changed) string { return "Changed: " + in.Name + "." })

	UserStopCall = define(http.MethodPost, "/user/stop", access.Act, "user stop",
		"Stops a mail user: all their mail is held.",
		aboutUser(func(in *UserStop) string { return in.Name },
			func(q *Request, m Mail, in *UserStop) (v UserView, err error) {
				if err := checkLine("why", in.Why, store.MaxReason, true); err != nil {
					return v, err
				}
				return m.StopUser(q, q.by(), in.Name, in.Why)
			})).logged().saying(func(in *UserStop, _ UserView) string { return "Stopped: " + in.Name + "." })

	UserResumeCall = define(http.MethodPost, "/user/resume", access.Act, "user resume",
		"Lets a stopped mail user send again. What is held stays held.",
		aboutUser(func(in *UserResume) string { return in.Name },
			func(q *Request, m Mail, in *UserResume) (UserView, error) {
				return m.ResumeUser(q, q.by(), in.Name, in.Slow)
			})).logged().saying(func(in *UserResume, _ UserView) string {
		return "Sends again: " + in.Name + ". What is held stays held."
	})
)

// A userPast is the last hour of a mail user as their page draws it.
type userPast struct {
	At, Since time.Time
	Whole     bool // it is a whole hour
	New       bool // it begins now
	Throttles []userPlots
}

type userPlots struct {
	Name, Kind string
	Plots      []*gatePlot
}

const hourLong = HourEvery * HourLength

func userPastOf(h UserHistory) userPast {
	v := userPast{At: h.At, Since: h.Since, Whole: h.At.Sub(h.Since) >= hourLong, New: h.At.Sub(h.Since) < 2*HourEvery}
	for i := range h.Throttles {
		s := &h.Throttles[i]
		of := userPlots{Name: s.Name, Kind: s.Kind}
		switch s.Kind {
		case "mail":
			of.Plots = []*gatePlot{
				userPlot(s, h.User, "Queue", "recipients that wait", StopAbove,
					userLine{Waiting, "waiting", "delayed"}),
				userPlot(s, h.User, "Slack", "new recipients that would pass now", "",
					userLine{Slack, "of messages to one", "admitted"}, userLine{MSlack, "to several", "pool"}),
				userPlot(s, h.User, "Working set", "recipients that always pass", "",
					userLine{WorkingSet, "recipients", "load"}),
			}
		case "reach":
			for _, w := range []struct {
				new, limit  Measure
				title, says string
			}{
				{NewInHour, HourLimit, "Reach in an hour", "new recipients in the hour before"},
				{NewInDay, DayLimit, "Reach in a day", "new recipients in the 24 hours before"},
				{NewInWeek, WeekLimit, "Reach in a week", "new recipients in the 7 days before"},
			} {
				if len(s.Columns[w.new]) > 0 {
					of.Plots = append(of.Plots, userPlot(s, h.User, w.title, w.says, w.limit,
						userLine{w.new, "new recipients", "away"}))
				}
			}
		}
		v.Throttles = append(v.Throttles, of)
	}
	return v
}

// A userLine is a measure, what it is called beside its line, and the class that colours it.
type userLine struct {
	of          Measure
	name, class string
}

// userPlot draws figures that hold until they change. limit, if it is known, is a line that should not be passed.
func userPlot(s *Series, user, title, unit string, limit Measure, of ...userLine) *gatePlot {
	sp := spanOf(true)
	var lines []plot.Series
	var now, says []string
	most := 0.0
	for _, o := range of {
		l := sp.line(s, o.of, o.class, number)
		l.Name, l.Steps, l.Area, l.Gap = o.name, true, len(of) == 1, 0
		l.Points = fromEdge(l.Points, s, o.of, sp)
		lines = append(lines, l)
		most = max(most, highestOf(s.Columns[o.of]))
		now = append(now, number(known(s.Last(o.of))))
		says = append(says, now[len(now)-1]+" "+o.name)
	}
	bound := known(s.Last(limit))
	top := max(plot.RoundUp(most), bound*1.25, 1)
	ticks := []plot.Tick{{Text: "0"}}
	if bound > 0 {
		ticks = append(ticks, plot.Tick{Value: bound, Text: number(bound), Limit: true})
	}
	if top > bound*1.25 { // else it would overlap that of the limit
		ticks = append(ticks, plot.Tick{Value: top, Text: number(top)})
	}
	text := fmt.Sprintf("%s of %s at %s over the last hour, %s: now %s, at most %s", title, user, s.Name, unit,
		strings.Join(says, ", "), number(most))
	if bound > 0 {
		text += ", limit " + number(bound)
	}
	p := sp.draw(title, unit, text+".", s.ends(), top, ticks, lines...)
	if len(of) > 1 {
		p.Each = now
	} else {
		p.Now, p.Most = now[0], number(most)
	}
	if bound > 0 {
		p.Now += " of " + number(bound)
	}
	return p
}

// fromEdge begins a line at the edge of the plot if its first value is from before. line leaves that one out.
func fromEdge(points []plot.Point, s *Series, m Measure, sp span) []plot.Point {
	column, n := s.Columns[m], len(s.At)
	if n == 0 || len(column) != n {
		return points
	}
	edge, from := s.At[n-1]-int64(sp.seconds*1000), -1
	for i, at := range s.At {
		if at < edge {
			from = i
		}
	}
	if from < 0 {
		return points
	}
	y := float64(column[from])
	return append([]plot.Point{{X: -sp.seconds, Y: y, Value: number(y)}}, points...)
}
