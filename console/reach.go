package console

import (
	"context"
	"net/http"
	"net/url"
	"time"

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
	First      time.Time     `json:"first,omitzero"` // when the first message was counted
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

// reachAnswer is answer for handlers that need a reach throttle.
func reachAnswer[T any](c *Control, f func(*http.Request, Reach, *T) (any, error)) http.HandlerFunc {
	return answer(func(r *http.Request, body *T) (any, error) {
		reach := c.backend.Reach()
		if reach == nil {
			return nil, errNoReach
		}
		v, err := f(r, reach, body)
		return v, understood(err)
	})
}

func (o *ReachOrder) check() error {
	if err := checkName(o.User); err != nil {
		return err
	}
	return checkThrottle(o.Throttle)
}

func checkThrottle(name string) error { return checkLine("throttle", name, store.MaxThrottle, true) }

func (c *Control) reachHandlers(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/reach", reachAnswer(c, func(r *http.Request, reach Reach, _ *none) (any, error) {
		limit, err := limitOf(r, MaxReachPage)
		if err != nil {
			return nil, err
		}
		found, err := reach.Flagged(r.Context(), limit+1)
		n := min(len(found), limit)
		return ReachPage{Users: append([]ReachView{}, found[:n]...), More: len(found) > n}, err
	}))
	// The name is a parameter and no part of the path: it may be any text.
	mux.HandleFunc("GET /v1/reach/user", reachAnswer(c, func(r *http.Request, reach Reach, _ *none) (any, error) {
		o := ReachOrder{User: r.URL.Query().Get("name"), Throttle: r.URL.Query().Get("throttle")}
		if err := o.check(); err != nil {
			return nil, err
		}
		found, err := reach.ReachOf(r.Context(), o.User, o.Throttle)
		return ReachUser{o.User, found}, err
	}))
	for path, do := range map[string]func(Reach, context.Context, string, string, string) (ReachView,
		error){"flag": Reach.Flag, "clear": Reach.Clear} {
		mux.HandleFunc("POST /v1/reach/"+path,
			reachAnswer(c, func(r *http.Request, reach Reach, o *ReachOrder) (any, error) {
				if err := o.check(); err != nil {
					return nil, err
				}
				return do(reach, r.Context(), operator(r), o.User, o.Throttle)
			}))
	}
	mux.HandleFunc("GET /v1/reach/usual", reachAnswer(c, func(r *http.Request, reach Reach, _ *none) (any, error) {
		throttle := r.URL.Query().Get("throttle")
		if err := checkThrottle(throttle); err != nil {
			return nil, err
		}
		return reach.Usual(r.Context(), throttle)
	}))
}

// FlaggedUsers returns the flagged users; limit 0 means MaxReachPage.
func (c *Client) FlaggedUsers(ctx context.Context, limit int) (ReachPage, error) {
	return fetch[ReachPage](ctx, c, http.MethodGet, withQuery("/v1/reach", "limit", ifSet(limit)), nil)
}

// ReachUser returns the state of a user in a throttle, or in all that know them.
func (c *Client) ReachUser(ctx context.Context, user, throttle string) (ReachUser, error) {
	return fetch[ReachUser](ctx, c, http.MethodGet, withQuery("/v1/reach/user", "name", user, "throttle", throttle),
		nil)
}

func (c *Client) FlagUser(ctx context.Context, user, throttle string) (ReachView, error) {
	return fetch[ReachView](ctx, c, http.MethodPost, "/v1/reach/flag", ReachOrder{User: user, Throttle: throttle})
}

// ClearUser ends the flag of a user.
func (c *Client) ClearUser(ctx context.Context, user, throttle string) (ReachView, error) {
	return fetch[ReachView](ctx, c, http.MethodPost, "/v1/reach/clear", ReachOrder{User: user, Throttle: throttle})
}

// ReachUsual returns what a throttle has learnt of all its users together.
func (c *Client) ReachUsual(ctx context.Context, throttle string) (ReachUsual, error) {
	return fetch[ReachUsual](ctx, c, http.MethodGet, "/v1/reach/usual?throttle="+url.QueryEscape(throttle), nil)
}
