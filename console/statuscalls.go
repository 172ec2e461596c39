package console

import (
	"context"
	"net/http"

	"weir/console/access"
)

// A Name is what calls about one account or user take.
type Name struct {
	Name string `json:"name"`
}

var (
	StatusCall = define(Call{Method: http.MethodGet, Path: "/status", Role: access.View, Commands: []string{"status"},
		Summary: "Shows what a running weir does."},
		func(q *Request, _ *None) (Status, error) { return q.backend.Status(), nil })

	WhyAskCall = define(Call{Method: http.MethodPost, Path: "/why", Role: access.View, Commands: []string{"why"},
		Summary: "Explains what would happen to a request, or to a message, now. Nothing is charged."},
		func(q *Request, in *Question) (Explanation, error) { return q.backend.Why(*in) })

	// The account is a parameter and no part of the path: it may be any text, "../.." too.
	AccountGetCall = define(Call{Method: http.MethodGet, Path: "/account", Role: access.View,
		Commands: []string{"account get"}, Summary: "Shows what an account has used."},
		func(q *Request, in *Name) (Account, error) { return q.backend.Account(in.Name) })

	AccountResetCall = define(Call{Method: http.MethodDelete, Path: "/account", Role: access.Act,
		Commands: []string{"account reset"},
		Summary:  "Resets what an account has used. Its waiting requests may go; requests under way still count."},
		func(q *Request, in *Name) (Account, error) {
			q.subject = in.Name
			if before, err := q.backend.Account(in.Name); err == nil {
				q.before = before
			}
			return q.backend.ResetAccount(in.Name)
		}).saying(func(in *Name, _ Account) string { return "Reset: " + in.Name + " has used nothing." })

	ShadowCall = define(Call{Method: http.MethodPost, Path: "/shadow", Role: access.Act,
		Commands: []string{"shadow on", "shadow off"},
		Summary:  "Switches throttles to shadow, where they count and let everything pass, or back."},
		func(q *Request, in *Shadow) (ShadowResult, error) {
			q.before = shadowStates(q.backend.Throttles())
			return q.backend.SetShadow(q, *in, q.by())
		}).saying(func(in *Shadow, _ ShadowResult) string {
		if in.On {
			return "In shadow: nothing is refused, and everything is counted."
		}
		return "Out of shadow: verdicts are acted upon."
	})

	ReloadCall = define(Call{Method: http.MethodPost, Path: "/reload", Role: access.Admin, Commands: []string{"reload"},
		Summary: "Reads the configuration again. A reload applies completely or not at all."},
		func(q *Request, _ *None) (Reloaded, error) {
			q.before = q.backend.Status().Config
			// A client that leaves must not interrupt a reload.
			if err := q.backend.Reload(context.WithoutCancel(q)); err != nil {
				return Reloaded{}, err
			}
			return Reloaded{true}, nil
		}).saying(func(*None, Reloaded) string { return "The configuration is in effect." })
)

// Reloaded is the answer to a reload.
type Reloaded struct {
	Reloaded bool `json:"reloaded"`
}

// ShadowResult is the answer to Shadow.
type ShadowResult struct {
	Throttles []ShadowState `json:"throttles"`
	All       *ShadowAll    `json:"all,omitempty"`      // the emergency switch is on
	Warnings  []string      `json:"warnings,omitempty"` // what the operator should know
}

func shadowStates(throttles []Throttle) ShadowResult {
	all := ShadowResult{Throttles: []ShadowState{}}
	for _, t := range throttles {
		all.Throttles = append(all.Throttles, ShadowState{t.Link.Name, t.Link.Shadow.Load()})
	}
	return all
}
