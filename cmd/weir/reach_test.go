package main

import (
	"context"
	"fmt"
	"slices"

	"weir/console"
)

// newReach is what reach throttles know: of ann, who is flagged by one and would be by another, and of bob, who is not.
func newReach() []console.ReachView {
	ann := console.ReachView{
		Throttle: "contacts", User: "ann", Flagged: true, Since: noon,
		Why: "60 new recipients within an hour, the limit is 50", Holds: "recipients who are new to the user are refused",
		Recipients: 1234, First: noon.AddDate(0, -1, 0), Bytes: 2736,
		Windows: []console.ReachWindow{{Window: "hour", New: 60, Limit: 50}, {Window: "day", New: 60.4, Limit: 75},
			{Window: "week", New: 61}},
	}
	shadow := ann
	shadow.Throttle, shadow.Shadow = "texts", true
	bob := console.ReachView{Throttle: "contacts", User: "bob\u202e", Recipients: 3, First: noon,
		Windows: []console.ReachWindow{{Window: "hour", New: 3, Limit: 50}}}
	return []console.ReachView{ann, shadow, bob, {Throttle: "contacts", User: "carol", Exempt: true},
		{Throttle: "contacts", User: "dan", Problem: "it is from a newer weir"}}
}

func (p *postOffice) Flagged(_ context.Context, limit int) (found []console.ReachView, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.reach {
		if len(found) < limit && (v.Flagged && !v.Shadow || v.Problem != "") {
			found = append(found, v)
		}
	}
	return found, nil
}

func (p *postOffice) ReachOf(_ context.Context, user, throttle string) (found []console.ReachView, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.reach {
		if v.User == user && (throttle == "" || throttle == v.Throttle) {
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		return nil, console.NotFound(fmt.Sprintf("nothing is known of %q: they have written to nobody", user))
	}
	return found, nil
}

func (p *postOffice) flag(by, user, throttle, what string, flagged bool) (v console.ReachView, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if throttle == "" {
		return v, console.Invalid("which throttle? One of contacts, texts")
	}
	i := slices.IndexFunc(p.reach, func(v console.ReachView) bool { return v.User == user && v.Throttle == throttle })
	if i < 0 {
		return v, console.NotFound(fmt.Sprintf("nothing is known of %q", user))
	}
	p.reach[i].Flagged, p.reach[i].Holds = flagged, "recipients who are new to the user are refused"
	p.note(by, what, user, "")
	return p.reach[i], nil
}

func (p *postOffice) Flag(_ context.Context, by, user, throttle string) (console.ReachView, error) {
	return p.flag(by, user, throttle, "flagged", true)
}

func (p *postOffice) Clear(_ context.Context, by, user, throttle string) (console.ReachView, error) {
	return p.flag(by, user, throttle, "unflagged", false)
}

func (p *postOffice) Usual(_ context.Context, throttle string) (console.ReachUsual, error) {
	u := console.ReachUsual{Throttle: throttle, Threshold: "200%", Cohorts: []console.ReachCohort{}}
	switch throttle {
	case "":
		return u, console.Invalid("which throttle? One of contacts, texts")
	case "contacts":
		u.Threshold, u.Cohorts = "dynamic",
			[]console.ReachCohort{{Window: "hour", Age: "up to 30 days", Size: "under 32", Samples: 1200, Usual: 4.4,
				Limit: 50},
				{Window: "day", Age: "over a year", Size: "under 256", Samples: 12, Usual: 7}}
	}
	return u, nil
}
