package console

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir"
	"weir/console/access"
)

//go:embed throttles.html
var throttlesHTML string

// throttlesPage shows what each throttle does, what it would do, and the limits of single accounts.
func throttlesPage() *page {
	return newPage(page{path: "throttles", name: "Throttles", role: access.View, show: throttles}, throttlesHTML,
		emergencyHTML)
}

// A throttleRow is a throttle on the page. Figures are of the last hour.
type throttleRow struct {
	Name, Kind     string
	Unit           string // of what it counts
	Shadow         bool
	Admitted, Held string
	Would, Of      string
	Names          []string // who would have been held back most
}

// namesShown is how many names a row has room for.
const namesShown = 5

func throttles(v *visit) (any, error) {
	shown := struct {
		Rows   []throttleRow
		Quotas []string // throttles whose limits can be set for single accounts
		Filter string
		LimitPage
	}{Filter: v.query.Get("filter")}
	for _, t := range v.backend.Throttles() {
		if t.Kind == "quota" && t.Table != nil {
			shown.Quotas = append(shown.Quotas, t.Link.Name)
		}
	}
	for _, t := range v.backend.Overview(OverviewQuery{Window: OneHour, Top: namesShown, Last: 1}).Throttles {
		would, of := t.Hour.WouldRefuse()
		e := t.Hour.Events
		row := throttleRow{Name: t.Name, Kind: t.Kind, Unit: t.Unit, Shadow: t.Shadow, Admitted: whole(e[Admitted]),
			Held: whole(e[Delayed] + e[Challenged] + e[Refused]), Would: whole(would), Of: whole(of)}
		for _, h := range t.Would {
			row.Names = append(row.Names, h.Name)
		}
		shown.Rows = append(shown.Rows, row)
	}
	if len(shown.Quotas) == 0 {
		return shown, nil
	}
	in := LimitQuery{Filter: shown.Filter, Limit: pageLines}
	if skip := v.query.Get("skip"); skip != "" {
		n, err := strconv.Atoi(skip)
		if err != nil || n < 0 {
			return nil, Invalid("skip: how many to leave out, from 0 on")
		}
		in.Skip = n
	}
	var err error
	shown.LimitPage, err = v.backend.Limits(in)
	return shown, err
}

// whole writes a count.
func whole(n float64) string { return fmt.Sprintf("%.0f", n) }

// countOf writes a count with what it is of, which is given for many: one of them is an event, not an events.
func countOf(n, of string) string {
	if n == "1" {
		of = strings.TrimSuffix(of, "s")
	}
	return n + " " + of
}

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
	RemoveLimit(ctx context.Context, o LimitOf, by string) (LimitResult, error)
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
	Account string `json:"account,omitempty"` // only of this account
	Filter  string `json:"filter,omitempty"`  // only of accounts with this text in them
	Skip    int    `json:"skip,omitempty"`    // the Next of the page before
	Limit   int    `json:"limit,omitempty"`   // at most MaxLimitPage, which is the default
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
	// What the account gets instead of the figures of the policy. What is left out stays as it is.
	Limit  string        `json:"limit,omitempty"` // a number of requests, or a size
	Burst  string        `json:"burst,omitempty"` // with window gcra
	Gap    weir.Duration `json:"gap,omitzero"`    // with kind idle
	Exempt bool          `json:"exempt,omitempty"`
	For    weir.Duration `json:"for,omitzero"` // 0: until it is removed
	Note   string        `json:"note,omitempty"`
}

// Figures are the figures of the order.
func (o *LimitOrder) Figures() Figures {
	return Figures{Limit: o.Limit, Burst: o.Burst, Gap: o.Gap, Exempt: o.Exempt}
}

// A LimitOf names the limit of one account.
type LimitOf struct {
	Account  string `json:"account"`
	Throttle string `json:"throttle,omitempty"` // may be left out where there is one quota
	Policy   string `json:"policy,omitempty"`   // may be left out where there is one policy
}

// A LimitResult is the result of a LimitOrder.
type LimitResult struct {
	Limit    AccountLimit  `json:"limit"`            // what holds now
	Before   *AccountLimit `json:"before,omitempty"` // what an operator had set before
	Kept     bool          `json:"kept"`             // a restart does not lose it
	Warnings []string      `json:"warnings,omitempty"`
}

var (
	LimitListCall = define(http.MethodGet, "/limits", access.View, "account limits",
		"Shows limits of single accounts: those of the file, and those that operators have set.",
		func(q *Request, in *LimitQuery) (p LimitPage, err error) {
			if in.Limit, err = limitOf(in.Limit, MaxLimitPage); err != nil {
				return p, err
			}
			if in.Skip < 0 {
				return p, Invalid("skip: how many to leave out, from 0 on")
			}
			return q.backend.Limits(*in)
		})

	LimitSetCall = define(http.MethodPost, "/limits", access.Act, "account limit",
		"Gives one account a limit of its own, at once, without a reload.",
		func(q *Request, in *LimitOrder) (r LimitResult, err error) {
			q.subject = in.Account
			if r, err = q.backend.SetLimit(q, *in, q.by()); err == nil {
				q.before = limitBefore(&r)
			}
			return r, err
		}).saying(func(_ *LimitOrder, out LimitResult) string {
		return out.Limit.Account + " has in " + out.Limit.Throttle + "/" + out.Limit.Policy + ": " + out.Limit.String() + "."
	})

	LimitRemoveCall = define(http.MethodDelete, "/limits", access.Act, "account limit --remove",
		"Removes a limit that an operator has set for one account. What the configuration says holds then.",
		func(q *Request, in *LimitOf) (r LimitResult, err error) {
			q.subject = in.Account
			if r, err = q.backend.RemoveLimit(q, *in, q.by()); err == nil {
				q.before = limitBefore(&r)
			}
			return r, err
		}).saying(func(_ *LimitOf, out LimitResult) string {
		return out.Limit.Account + " has in " + out.Limit.Throttle + "/" + out.Limit.Policy +
			" what the configuration says."
	})
)

// limitBefore is what an account had before, for the audit log: set by an operator, or by the configuration.
func limitBefore(r *LimitResult) any {
	if r.Before != nil {
		return r.Before
	}
	return r.Limit.Instead
}
