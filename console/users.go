package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

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
	LogIn     bool       `json:"log_in"`    // they have a password
	Throttles []Standing `json:"throttles"` // that know them
}

// Stopped reports whether a throttle has stopped them.
func (u *UserView) Stopped() bool {
	return slices.ContainsFunc(u.Throttles, func(s Standing) bool { return s.Stopped })
}

// A Standing is the state of a user in one throttle.
type Standing struct {
	Throttle   string    `json:"throttle"`
	Shadow     bool      `json:"shadow,omitempty"` // it counts, and lets everything pass
	Stopped    bool      `json:"stopped"`
	Since      time.Time `json:"since,omitzero"`  // when they were stopped
	Resume     time.Time `json:"resume,omitzero"` // when they are tried again
	Slow       bool      `json:"slow,omitempty"`  // they are being tried, in slow motion
	Waiting    int       `json:"waiting"`         // recipients in their delay queue
	Slack      int       `json:"slack"`
	MSlack     int       `json:"mslack"`
	WorkingSet int       `json:"working_set"` // recipients in it now
	Limits     string    `json:"limits"`      // what holds for them, everything filled in
}

// A UserQuery asks for a part of the users.
type UserQuery struct {
	After   string // the Next of the page before
	Stopped bool   // only stopped ones, including clients that are not users of the store
	Limit   int    // at most MaxUserPage, which is the default
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
	// the user's own limits, by their names in the configuration of the throttle
	Limits map[string]string `json:"limits,omitempty"`
}

// A UserChange changes a user. Fields that are left out stay as they are.
type UserChange struct {
	Name          string            `json:"name"`
	Contact       *string           `json:"contact,omitempty"`
	Senders       *[]string         `json:"senders,omitempty"` // all of them
	AddSenders    []string          `json:"add_senders,omitempty"`
	RemoveSenders []string          `json:"remove_senders,omitempty"`
	Limits        map[string]string `json:"limits,omitempty"` // by name; an empty value removes the limit
	Disabled      *bool             `json:"disabled,omitempty"`
}

// A UserOrder changes the password of a user, stops or resumes them.
type UserOrder struct {
	Name     string `json:"name"`
	Password string `json:"password,omitempty"`
	Why      string `json:"why,omitempty"`
	Slow     bool   `json:"slow,omitempty"`
}

// checkUser returns the first error in the fields of a user.
func checkUser(name string, contact *string, limits map[string]string, senders ...[]string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if contact != nil {
		if err := checkLine("contact", *contact, maxAddress, true); err != nil {
			return err
		}
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

func (c *Control) userHandlers(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/users", mailAnswer(c, func(r *http.Request, m Mail, _ *none) (any, error) {
		limit, err := limitOf(r, MaxUserPage)
		if err != nil {
			return nil, err
		}
		q := r.URL.Query()
		p, err := m.Users(r.Context(), UserQuery{After: q.Get("after"), Stopped: q.Get("stopped") == "true",
			Limit: limit})
		if p.Users == nil {
			p.Users = []UserView{}
		}
		return p, err
	}))
	mux.HandleFunc("POST /v1/users", mailAnswer(c, func(r *http.Request, m Mail, u *NewUser) (any, error) {
		if err := checkUser(u.Name, &u.Contact, u.Limits, u.Senders); err != nil {
			return nil, err
		}
		if u.Password != "" {
			if err := checkPassword(u.Password); err != nil {
				return nil, err
			}
		}
		v, err := m.AddUser(r.Context(), operator(r), *u)
		if errors.Is(err, store.ErrExists) {
			err = Rejected(fmt.Sprintf("there is a user %q already", u.Name))
		}
		return v, err
	}))
	// The name is a parameter and no part of the path: it may be any text.
	mux.HandleFunc("GET /v1/user", mailAnswer(c, func(r *http.Request, m Mail, _ *none) (any, error) {
		name := r.URL.Query().Get("name")
		if err := checkName(name); err != nil {
			return nil, err
		}
		u, err := m.User(r.Context(), name)
		return u, noUser(err, name)
	}))
	mux.HandleFunc("DELETE /v1/user", mailAnswer(c, func(r *http.Request, m Mail, _ *none) (any, error) {
		name := r.URL.Query().Get("name")
		if err := checkName(name); err != nil {
			return nil, err
		}
		return map[string]string{"removed": name}, noUser(m.RemoveUser(r.Context(), operator(r), name), name)
	}))
	mux.HandleFunc("POST /v1/user/set", mailAnswer(c, func(r *http.Request, m Mail, u *UserChange) (any, error) {
		lists := [][]string{u.AddSenders, u.RemoveSenders}
		if u.Senders != nil {
			lists = append(lists, *u.Senders)
		}
		if err := checkUser(u.Name, u.Contact, u.Limits, lists...); err != nil {
			return nil, err
		}
		v, err := m.SetUser(r.Context(), operator(r), *u)
		return v, noUser(err, u.Name)
	}))
	mux.HandleFunc("POST /v1/user/passwd", userAnswer(c, func(r *http.Request, m Mail, o *UserOrder) (any, error) {
		if err := checkPassword(o.Password); err != nil {
			return nil, err
		}
		return map[string]string{"changed": o.Name}, m.Passwd(r.Context(), operator(r), o.Name, o.Password)
	}))
	mux.HandleFunc("POST /v1/user/stop", userAnswer(c, func(r *http.Request, m Mail, o *UserOrder) (any, error) {
		if err := checkLine("why", o.Why, store.MaxReason, true); err != nil {
			return nil, err
		}
		return m.StopUser(r.Context(), operator(r), o.Name, o.Why)
	}))
	mux.HandleFunc("POST /v1/user/resume", userAnswer(c, func(r *http.Request, m Mail, o *UserOrder) (any, error) {
		return m.ResumeUser(r.Context(), operator(r), o.Name, o.Slow)
	}))
}

// userAnswer is mailAnswer for an order about a user.
func userAnswer(c *Control, f func(*http.Request, Mail, *UserOrder) (any, error)) http.HandlerFunc {
	return mailAnswer(c, func(r *http.Request, m Mail, o *UserOrder) (any, error) {
		if err := checkName(o.Name); err != nil {
			return nil, err
		}
		v, err := f(r, m, o)
		return v, noUser(err, o.Name)
	})
}

// Users returns a part of the users.
func (c *Client) Users(ctx context.Context, q UserQuery) (UserPage, error) {
	stopped := ""
	if q.Stopped {
		stopped = "true"
	}
	return fetch[UserPage](ctx, c, http.MethodGet,
		withQuery("/v1/users", "after", q.After, "stopped", stopped, "limit", ifSet(q.Limit)), nil)
}

// User returns a user and their state.
func (c *Client) User(ctx context.Context, name string) (UserView, error) {
	return fetch[UserView](ctx, c, http.MethodGet, "/v1/user?name="+url.QueryEscape(name), nil)
}

func (c *Client) AddUser(ctx context.Context, n NewUser) (UserView, error) {
	return fetch[UserView](ctx, c, http.MethodPost, "/v1/users", n)
}

// SetUser changes the given fields of a user.
func (c *Client) SetUser(ctx context.Context, change UserChange) (UserView, error) {
	return fetch[UserView](ctx, c, http.MethodPost, "/v1/user/set", change)
}

// Passwd changes the password of a user.
func (c *Client) Passwd(ctx context.Context, name, password string) error {
	return c.call(ctx, http.MethodPost, "/v1/user/passwd", UserOrder{Name: name, Password: password}, nil)
}

// RemoveUser removes a user.
func (c *Client) RemoveUser(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/v1/user?name="+url.QueryEscape(name), nil, nil)
}

func (c *Client) StopUser(ctx context.Context, name, why string) (UserView, error) {
	return fetch[UserView](ctx, c, http.MethodPost, "/v1/user/stop", UserOrder{Name: name, Why: why})
}

// ResumeUser lets a stopped user send again.
func (c *Client) ResumeUser(ctx context.Context, name string, slow bool) (UserView, error) {
	return fetch[UserView](ctx, c, http.MethodPost, "/v1/user/resume", UserOrder{Name: name, Slow: slow})
}
