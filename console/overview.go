package console

import (
	"fmt"
	"net/http"
	"time"

	"weir"
	"weir/console/access"
)

// Bounds of an overview.
const (
	MaxTop      = 256  // names of one throttle
	MaxRefusals = 4096 // in one answer
	MaxChanges  = 256  // that are kept
)

// An OverviewQuery says what of the overview is wanted. The zero value asks for the last five minutes.
type OverviewQuery struct {
	Window string `json:"window,omitempty"` // 5m, in steps of a second, or 1h, in steps of ten seconds
	Since  int64  `json:"since,omitempty"`  // only samples after this time, in milliseconds since 1970
	Top    int    `json:"top,omitempty"`    // how many names for each throttle, at most MaxTop; 0: 10
	Last   int    `json:"last,omitempty"`   // how many refusals and changes, at most MaxChanges; 0: 20
}

// Windows of an overview.
const (
	FiveMinutes = "5m"
	OneHour     = "1h"
)

// Validate returns an error for a query that makes no sense.
func (q *OverviewQuery) Validate() error {
	switch {
	case q.Window != "" && q.Window != FiveMinutes && q.Window != OneHour:
		return Invalid("window: 5m or 1h")
	case q.Since < 0:
		return Invalid("since: milliseconds since 1970")
	}
	if err := atMost("top", q.Top, MaxTop); err != nil {
		return err
	}
	return atMost("last", q.Last, MaxChanges)
}

// atMost checks a number for which 0 means that it is left out.
func atMost(name string, n, most int) error {
	if n < 0 || n > most {
		return Invalid(fmt.Sprintf("%s: a number from 1 to %d", name, most))
	}
	return nil
}

// An Overview says how weir fares: what is admitted and refused now and lately, and who is held back. It has nothing
// per account but the few who are held back most.
type Overview struct {
	At        time.Time       `json:"at"`
	State     string          `json:"state"` // starting, serving or stopping
	Ready     bool            `json:"ready"`
	NotReady  string          `json:"not_ready,omitempty"`  // why not
	ShadowAll *ShadowAll      `json:"shadow_all,omitempty"` // the emergency switch is on
	Gates     []GateWatch     `json:"gates"`
	Routes    []RouteWatch    `json:"routes,omitempty"` // those with a capacity of their own
	Throttles []ThrottleWatch `json:"throttles"`
	Refusals  []Refusal       `json:"refusals"` // the latest first
	Changes   []Change        `json:"changes"`  // the latest first
}

// A GateWatch is a gate over time.
type GateWatch struct {
	Series
	Address   string   `json:"address"` // as bound
	Accept    []string `json:"accept,omitempty"`
	Throttles []string `json:"throttles"`
	Stamps    string   `json:"stamps,omitempty"` // the throttle that asks for stamps
	Hour      Totals   `json:"hour"`
}

// A RouteWatch is a route with a capacity of its own over time, with the measures of gates with a capacity.
type RouteWatch struct {
	Series
	Address string `json:"address"`          // of the gate, as bound, and the route
	Stamps  string `json:"stamps,omitempty"` // the throttle that asks for stamps
}

// A ThrottleWatch is a throttle over time, and who it holds back.
type ThrottleWatch struct {
	Series
	Shadow bool   `json:"shadow"`
	Hour   Totals `json:"hour"`
	// Who was held back most lately, and who would have been in shadow, the most first.
	Held  []HeldBack `json:"held"`
	Would []HeldBack `json:"would"`
	// Of a throttle that asks for stamps: who paid most often lately, the most first.
	Payers []Payer `json:"payers,omitempty"`
}

// Totals are what was counted in the last hour, or since Since if that is later.
type Totals struct {
	Since  time.Time           `json:"since"`
	Events map[Measure]float64 `json:"events"`
}

// WouldRefuse is how many of how many events a throttle in shadow would not have let pass at once, in the last hour.
func (t Totals) WouldRefuse() (n, of float64) {
	n = t.Events[WouldDelay] + t.Events[WouldChallenge] + t.Events[WouldRefuse]
	return n, n + t.Events[WouldAdmit]
}

// A HeldBack is an account, a network or a mail user that a throttle holds back.
type HeldBack struct {
	Kind string `json:"kind"` // account, network or user
	// Name is what logs show. Accounts may be secrets: it is a fingerprint, the same as in the access log.
	Name     string `json:"name"`
	Throttle string `json:"throttle"`
	// Recent is how often lately: counts of the past weigh half as much each minute, in shadow each quarter of an hour.
	// It is too high by at most Over.
	Recent uint64    `json:"recent"`
	Over   uint64    `json:"over"`
	Total  uint64    `json:"total"` // since First, while it has been on the list
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
}

// A Payer is a network from which a throttle was paid with stamps.
type Payer struct {
	Kind   string    `json:"kind"` // network
	Name   string    `json:"name"`
	Recent uint64    `json:"recent"` // requests lately: those of the past weigh half as much each minute
	Over   uint64    `json:"over"`   // Recent is too high by at most so many
	Total  uint64    `json:"total"`  // requests since First, while it has been on the list
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
}

// Sure is how many requests lately, of what certainly belongs to the name.
func (p Payer) Sure() uint64 { return p.Recent - p.Over }

// A RefusalQuery selects refusals. The zero value selects all that are kept.
type RefusalQuery struct {
	Throttle string `json:"throttle,omitempty"` // only those of a throttle
	ID       string `json:"id,omitempty"`       // only the one with this request id
	Who      string `json:"who,omitempty"`      // only those of an account (as logs show it), network or user
	Limit    int    `json:"limit,omitempty"`    // at most so many; 0: MaxRefusals
}

// Validate returns an error for a query that makes no sense.
func (q *RefusalQuery) Validate() error { return atMost("limit", q.Limit, MaxRefusals) }

// A RefusalPage has the last refusals, the latest first.
type RefusalPage struct {
	Refusals []Refusal `json:"refusals"`
	// Left is how many more there were since the start that were not kept, because they came too fast.
	Left uint64 `json:"left"`
}

// A Refusal is an event that was refused or asked to pay, or in shadow would have been.
type Refusal struct {
	At       time.Time    `json:"at"`
	Gate     string       `json:"gate,omitempty"` // as configured
	Throttle string       `json:"throttle"`
	Rule     string       `json:"rule,omitempty"`
	Verdict  weir.Verdict `json:"verdict"`
	Reason   weir.Reason  `json:"reason,omitempty"`
	Shadow   bool         `json:"shadow"`         // nothing was done
	Kind     string       `json:"kind,omitempty"` // account, network or user; empty where nobody is known
	Name     string       `json:"name,omitempty"` // as HeldBack has it
	Source   string       `json:"source,omitempty"`
	ID       string       `json:"id,omitempty"` // the request id that the answer shows
	Text     string       `json:"text"`         // the figures in a sentence
	Until    time.Time    `json:"until,omitzero"`
	Figure   *Rule        `json:"figure,omitempty"`
}

// A Change is something that somebody did to weir, or that weir did by itself.
type Change struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"`             // who; "weir" for what happened by itself
	What string    `json:"what"`           // started, stopping, reloaded, reload-failed, shadow-on, shadow-off, banned …
	On   string    `json:"on,omitempty"`   // the throttle, client, network or user concerned
	Text string    `json:"text,omitempty"` // more about it
}

var (
	OverviewGetCall = define(http.MethodGet, "/overview", access.View, "top",
		"Shows what passes every gate and throttle, now and lately, and who is held back.",
		func(q *Request, in *OverviewQuery) (Overview, error) {
			if err := in.Validate(); err != nil {
				return Overview{}, err
			}
			return q.backend.Overview(*in), nil
		})

	RefusalsListCall = define(http.MethodGet, "/refusals", access.View, "refusals",
		"Shows the last refusals, with the rule and its figures.",
		func(q *Request, in *RefusalQuery) (RefusalPage, error) {
			if err := in.Validate(); err != nil {
				return RefusalPage{}, err
			}
			return q.backend.Refusals(*in), nil
		})
)
