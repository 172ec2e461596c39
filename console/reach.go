package console

import (
	"context"
	"net/http"
	"time"

	"weir/console/access"
	"weir/store"
)

// MaxReachPage is how many flagged users one answer holds.
const MaxReachPage = 1000

// Reach is what reach throttles know of their users, for commands. It is safe for concurrent use. by is the operator
// who asks. The throttle may be empty if there is only one.
type Reach interface {
	// Flagged returns up to limit users who are flagged, by throttle and name.
	Flagged(ctx context.Context, limit int) ([]ReachView, error)
	// ReachOf returns the state of a user in a throttle, or in all throttles that know them.
	ReachOf(ctx context.Context, user, throttle string) ([]ReachView, error)
	// Flag flags a user until an operator clears the flag.
	Flag(ctx context.Context, by, user, throttle string) (ReachView, error)
	// Clear ends a flag and resets the counts.
	Clear(ctx context.Context, by, user, throttle string) (ReachView, error)
	// Usual returns what a throttle has learnt of all its users together.
	Usual(ctx context.Context, throttle string) (ReachUsual, error)
}

// A ReachView is the state of a user in a reach throttle.
type ReachView struct {
	Throttle   string        `json:"throttle"`
	User       string        `json:"user"`
	Flagged    bool          `json:"flagged"`
	Shadow     bool          `json:"shadow,omitempty"` // they only would be
	Since      time.Time     `json:"since,omitzero"`   // flagged
	Why        string        `json:"why,omitempty"`
	Holds      string        `json:"holds,omitempty"` // what holds for them
	Exempt     bool          `json:"exempt,omitempty"`
	Recipients int64         `json:"recipients"`     // different ones, as far as one can tell
	First      time.Time     `json:"first,omitzero"` // when the account was first known; none: long ago, or never
	Windows    []ReachWindow `json:"windows"`
	Bytes      int           `json:"bytes"`             // that are kept of them
	Problem    string        `json:"problem,omitempty"` // why nothing is known
}

// A ReachWindow is the state of a user in a window.
type ReachWindow struct {
	Window string  `json:"window"` // hour, day or week
	New    float64 `json:"new"`    // recipients new to them, as far as one can tell
	Limit  float64 `json:"limit"`  // with more than that they are flagged; 0: nobody can tell yet
}

// A ReachPage lists flagged users.
type ReachPage struct {
	Users []ReachView `json:"users"`
	More  bool        `json:"more,omitempty"` // there are more than the limit
}

// A ReachUser is the state of a user in the reach throttles that know them.
type ReachUser struct {
	User      string      `json:"user"`
	Throttles []ReachView `json:"throttles"`
}

// A ReachOrder names the user to flag or clear.
type ReachOrder struct {
	User     string `json:"user"`
	Throttle string `json:"throttle,omitempty"`
}

// A ReachUsual is what a reach throttle has learnt of all its users together.
type ReachUsual struct {
	Throttle  string        `json:"throttle"`
	Threshold string        `json:"threshold"` // as configured; only a dynamic one asks what is usual
	Cohorts   []ReachCohort `json:"cohorts"`
}

// A ReachCohort is what is usual for users of about the same age and size.
type ReachCohort struct {
	Window  string  `json:"window"`
	Age     string  `json:"age"`     // of the account
	Size    string  `json:"size"`    // how many recipients it had
	Samples int     `json:"samples"` // windows that were counted
	Usual   float64 `json:"usual"`   // new recipients in a window
	Limit   float64 `json:"limit"`   // for them; 0 while nobody can tell
}

var errNoReach = NotFound("there is no reach throttle (throttles: {NAME: {reach: {}}} makes one)")

// withReach is the function of a call that needs a reach throttle.
func withReach[In, Out any](f func(*Request, Reach, *In) (Out, error)) func(*Request, *In) (Out, error) {
	return func(q *Request, in *In) (out Out, err error) {
		reach := q.backend.Reach()
		if reach == nil {
			return out, errNoReach
		}
		return f(q, reach, in)
	}
}

func (o *ReachOrder) check() error {
	if err := checkName(o.User); err != nil {
		return err
	}
	return checkThrottle(o.Throttle)
}

func checkThrottle(name string) error { return checkLine("throttle", name, store.MaxThrottle, true) }

// A ReachList asks for the flagged users.
type ReachList struct {
	Limit int `json:"limit,omitempty"` // at most MaxReachPage, which is the default
}

// A ReachName names a user, and the throttle if there are several.
type ReachName struct {
	Name     string `json:"name"`
	Throttle string `json:"throttle,omitempty"`
}

// A ReachThrottle names a throttle; it may be left out if there is only one.
type ReachThrottle struct {
	Throttle string `json:"throttle,omitempty"`
}

// reachOrder is the function of a call that flags or clears a user.
func reachOrder(do func(Reach, context.Context, string, string, string) (ReachView, error)) func(*Request,
	*ReachOrder) (ReachView, error) {
	return withReach(func(q *Request, reach Reach, in *ReachOrder) (ReachView, error) {
		if err := in.check(); err != nil {
			return ReachView{}, err
		}
		return do(reach, q, q.by(), in.User, in.Throttle)
	})
}

var (
	ReachListCall = define(http.MethodGet, "/reach", access.View, "reach list",
		"Shows who is flagged for writing to too many new people.",
		withReach(func(q *Request, reach Reach, in *ReachList) (ReachPage, error) {
			limit, err := limitOf(in.Limit, MaxReachPage)
			if err != nil {
				return ReachPage{}, err
			}
			found, err := reach.Flagged(q, limit+1)
			n := min(len(found), limit)
			return ReachPage{Users: append([]ReachView{}, found[:n]...), More: len(found) > n}, err
		}))

	// The name is a parameter and no part of the path: it may be any text.
	ReachShowCall = define(http.MethodGet, "/reach/user", access.View, "reach show",
		"Shows what reach throttles know of a user.",
		withReach(func(q *Request, reach Reach, in *ReachName) (ReachUser, error) {
			o := ReachOrder{User: in.Name, Throttle: in.Throttle}
			if err := o.check(); err != nil {
				return ReachUser{}, err
			}
			found, err := reach.ReachOf(q, o.User, o.Throttle)
			return ReachUser{o.User, found}, err
		}))

	ReachFlagCall = define(http.MethodPost, "/reach/flag", access.Act, "reach flag",
		"Flags a user until an operator clears the flag.",
		reachOrder(Reach.Flag)).logged().
		saying(func(in *ReachOrder, _ ReachView) string { return "Flagged: " + in.User + "." })

	ReachClearCall = define(http.MethodPost, "/reach/clear", access.Act, "reach clear",
		"Ends the flag of a user and resets the counts.",
		reachOrder(Reach.Clear)).logged().
		saying(func(in *ReachOrder, _ ReachView) string { return "No longer flagged: " + in.User + "." })

	ReachUsualCall = define(http.MethodGet, "/reach/usual", access.View, "reach usual",
		"Shows what a reach throttle has learnt of all its users together.",
		withReach(func(q *Request, reach Reach, in *ReachThrottle) (ReachUsual, error) {
			if err := checkThrottle(in.Throttle); err != nil {
				return ReachUsual{}, err
			}
			return reach.Usual(q, in.Throttle)
		}))
)
