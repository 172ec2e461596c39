package console

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir"
)

// MaxLimitPage is how many limits one answer holds.
const MaxLimitPage = 2000

// Limits are the limits of single accounts, for commands. It is safe for concurrent use.
type Limits interface {
	// Limits returns a part of the limits of single accounts: those of the file, and those that operators have set.
	Limits(LimitQuery) (LimitPage, error)
	// SetLimit gives one account a limit of its own at once. It returns when a restart would keep it, or with a warning
	// that it would not.
	SetLimit(ctx context.Context, o LimitOrder, by string) (LimitResult, error)
	// RemoveLimit takes back what an operator has set.
	RemoveLimit(ctx context.Context, o LimitOrder, by string) (LimitResult, error)
}

// Figures are what one account gets instead of the figures of a policy. What is left out stays as it is.
type Figures struct {
	Limit  string        `json:"limit,omitempty"` // a number of requests, or a size
	Burst  string        `json:"burst,omitempty"` // with window gcra
	Gap    weir.Duration `json:"gap,omitzero"`    // with kind idle
	Exempt bool          `json:"exempt,omitempty"`
}

func (f Figures) String() string {
	var parts []string
	for _, p := range []struct{ name, text string }{{"limit", f.Limit}, {"burst", f.Burst}} {
		if p.text != "" {
			parts = append(parts, p.name+" "+p.text)
		}
	}
	if f.Gap != 0 {
		parts = append(parts, "gap "+f.Gap.String())
	}
	if f.Exempt {
		parts = append(parts, "exempt")
	}
	return strings.Join(parts, ", ")
}

// An AccountLimit is a limit of a single account: in the file, or set by an operator while weir runs.
type AccountLimit struct {
	Account  string `json:"account"`
	Throttle string `json:"throttle"`
	Policy   string `json:"policy"`
	Figures
	Live    bool      `json:"live"` // an operator has set it; it goes before one of the file
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Until   time.Time `json:"until,omitzero"` // left out: until it is removed
	Note    string    `json:"note,omitempty"`
	Instead Figures   `json:"instead,omitzero"` // what the configuration says
	Unused  string    `json:"unused,omitempty"` // why it has no effect; empty when it has
}

// Compare orders by account, throttle and policy, and what an operator has set before what the file says.
func (l *AccountLimit) Compare(o *AccountLimit) int {
	live := 0
	if l.Live != o.Live {
		if live = 1; l.Live {
			live = -1
		}
	}
	return cmp.Or(strings.Compare(l.Account, o.Account), strings.Compare(l.Throttle, o.Throttle),
		strings.Compare(l.Policy, o.Policy), live)
}

// A LimitQuery asks for a part of the limits.
type LimitQuery struct {
	Account string // only of this account
	Filter  string // only of accounts with this text in them
	Skip    int    // the Next of the page before
	Limit   int    // at most MaxLimitPage, which is the default
}

// A LimitPage is a part of the limits, by account, throttle and policy.
type LimitPage struct {
	Limits []AccountLimit `json:"limits"`
	Total  int            `json:"total"`
	Next   int            `json:"next,omitempty"` // where the next page begins; left out on the last one
}

// A LimitOrder asks for a limit of one account.
type LimitOrder struct {
	Account  string `json:"account"`
	Throttle string `json:"throttle,omitempty"` // may be left out where there is one quota
	Policy   string `json:"policy,omitempty"`   // may be left out where there is one policy
	Figures
	For  weir.Duration `json:"for,omitzero"` // 0: until it is removed
	Note string        `json:"note,omitempty"`
}

// A LimitResult is the result of a LimitOrder.
type LimitResult struct {
	Limit    AccountLimit  `json:"limit"`            // what holds now
	Before   *AccountLimit `json:"before,omitempty"` // what an operator had set before
	Kept     bool          `json:"kept"`             // a restart does not lose it
	Warnings []string      `json:"warnings,omitempty"`
}

func (c *Control) limitHandlers(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/limits", answer(func(r *http.Request, _ *none) (any, error) {
		limit, err := limitOf(r, MaxLimitPage)
		if err != nil {
			return nil, err
		}
		q := r.URL.Query()
		skip, err := strconv.Atoi(cmp.Or(q.Get("skip"), "0"))
		if err != nil || skip < 0 {
			return nil, Invalid("skip: how many to leave out, from 0 on")
		}
		return c.backend.Limits(LimitQuery{Account: q.Get("account"), Filter: q.Get("filter"), Skip: skip, Limit: limit})
	}))
	mux.HandleFunc("POST /v1/limits", answer(func(r *http.Request, o *LimitOrder) (any, error) {
		return c.backend.SetLimit(r.Context(), *o, operator(r))
	}))
	mux.HandleFunc("DELETE /v1/limits", answer(func(r *http.Request, _ *none) (any, error) {
		q := r.URL.Query()
		return c.backend.RemoveLimit(r.Context(), LimitOrder{Account: q.Get("account"), Throttle: q.Get("throttle"),
			Policy: q.Get("policy")}, operator(r))
	}))
}

// Limits returns a part of the limits of single accounts.
func (c *Client) Limits(ctx context.Context, q LimitQuery) (LimitPage, error) {
	return fetch[LimitPage](ctx, c, http.MethodGet, withQuery("/v1/limits", "account", q.Account, "filter", q.Filter,
		"skip", ifSet(q.Skip), "limit", ifSet(q.Limit)), nil)
}

// SetLimit gives one account a limit of its own.
func (c *Client) SetLimit(ctx context.Context, o LimitOrder) (LimitResult, error) {
	return fetch[LimitResult](ctx, c, http.MethodPost, "/v1/limits", o)
}

// RemoveLimit takes back what an operator has set.
func (c *Client) RemoveLimit(ctx context.Context, o LimitOrder) (LimitResult, error) {
	return fetch[LimitResult](ctx, c, http.MethodDelete, withQuery("/v1/limits", "account", o.Account,
		"throttle", o.Throttle, "policy", o.Policy), nil)
}
