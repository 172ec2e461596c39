package app

import (
	"errors"
	"strings"
	"testing"

	"weir"
	"weir/console"
)

func TestWhy(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	ask := console.Question{Method: "GET", Host: "example.com", Path: "/v1", Source: "192.0.2.1", Account: "acme"}
	for range 3 { // asking takes nothing
		e, err := console.WhyAskCall.Ask(t.Context(), b.client, ask)
		if err != nil {
			t.Fatal(err)
		}
		b.wants("verdict", e.Verdict, weir.Admit)
		b.wants("steps", len(e.Steps), 2)
		b.wants("first", e.Steps[0].Throttle, "bans")
		b.wants("rule", e.Steps[1].Rules[0].Rule, "per-hour")
	}
	b.get(0, "acme")
	b.get(0, "acme")
	e, err := console.WhyAskCall.Ask(t.Context(), b.client, ask)
	if err != nil {
		t.Fatal(err)
	}
	b.wants("verdict", e.Verdict, weir.Refuse)
	b.wants("by", e.By, "plans")
	b.wants("reason", e.Steps[1].Reason, weir.OverLimit)
	if !strings.Contains(e.Text, "plans/per-hour") {
		t.Errorf("text: %s", e.Text)
	}
	for _, test := range []struct {
		change func(*console.Question)
		code   int
	}{
		{func(q *console.Question) { q.Gate = ":1" }, 404},
		{func(q *console.Question) { q.Source = "nowhere" }, 400},
	} {
		q := ask
		test.change(&q)
		var e *console.Error
		if _, err := console.WhyAskCall.Ask(t.Context(), b.client, q); !errors.As(err, &e) || e.Code != test.code {
			t.Errorf("%+v: %v", q, err)
		}
	}
	ask.Gate = b.Addr("http", 0).String()
	if _, err := console.WhyAskCall.Ask(t.Context(), b.client, ask); err != nil {
		t.Errorf("by the bound address: %v", err)
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	var unknown *console.Error
	if _, err := console.AccountGetCall.Ask(t.Context(), b.client, console.Name{Name: "acme"}); !errors.As(err,
		&unknown) || unknown.Code != 404 {
		t.Errorf("before: %v", err)
	}
	b.get(0, "acme")
	b.get(0, "acme")
	a, err := console.AccountGetCall.Ask(t.Context(), b.client, console.Name{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	b.wants("account", a.Account, "acme")
	b.wants("left", a.Throttles[0].Rules[0].Remaining, 0)
	b.wants("window", a.Throttles[0].Rules[0].Seconds, 3600)
	b.wants("third", b.get(0, "acme"), 429)
	if a, err = console.AccountResetCall.Ask(t.Context(), b.client, console.Name{Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	b.wants("left after the reset", a.Throttles[0].Rules[0].Remaining, 2)
	b.wants("after the reset", b.get(0, "acme"), 200)
	if _, err := console.AccountResetCall.Ask(t.Context(), b.client, console.Name{Name: ""}); err == nil {
		t.Error("no account was reset")
	}
}

func TestShadow(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	b.get(0, "acme")
	b.get(0, "acme")
	b.wants("over the limit", b.get(0, "acme"), 429)
	states, err := console.ShadowCall.Ask(t.Context(), b.client, console.Shadow{Throttles: []string{"plans"}, On: true})
	b.wants("on", states.Throttles, []console.ShadowState{{Throttle: "plans", Shadow: true}, {Throttle: "bans"}})
	b.wants("error", err, nil)
	b.wants("in shadow", b.get(0, "acme"), 200)
	b.wants("counted", backend{b.App}.Status().Throttles[0].Shadowed["refuse"], 1)
	for _, wrong := range []console.Shadow{{}, {All: true, Throttles: []string{"plans"}},
		{Throttles: []string{"plans", "unknown"}}} {
		if _, err := console.ShadowCall.Ask(t.Context(), b.client, wrong); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
	}
	b.wants("still on", backend{b.App}.Throttles()[0].Link.Shadow.Load(), true)
	if _, err := console.ShadowCall.Ask(t.Context(), b.client, console.Shadow{All: true}); err != nil {
		t.Error(err)
	}
	b.wants("off", b.get(0, "acme"), 429)
}
