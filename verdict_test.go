package weir

import (
	"testing"
	"time"
)

func TestVerdictsRiseInSeverity(t *testing.T) {
	for i, v := range Verdicts {
		if i > 0 && v <= Verdicts[i-1] {
			t.Errorf("%s is not above %s", v, Verdicts[i-1])
		}
		text, _ := v.MarshalText()
		var back Verdict
		if err := back.UnmarshalText(text); err != nil || back != v {
			t.Errorf("%s came back as %s, %v", v, back, err)
		}
	}
	var v Verdict
	if v.UnmarshalText([]byte("perhaps")) == nil {
		t.Error("an unknown verdict was read")
	}
	if Verdict(99).String() != "verdict(99)" {
		t.Error(Verdict(99).String())
	}
}

func TestReasons(t *testing.T) {
	for r := NoReason; int(r) < len(reasonNames); r++ {
		text, _ := r.MarshalText()
		var back Reason
		if err := back.UnmarshalText(text); err != nil || back != r {
			t.Errorf("%q came back as %q, %v", r, back, err)
		}
	}
	if BadKey.String() != "bad-key" || int(BadKey) != len(reasonNames)-1 {
		t.Error("the names of the reasons are out of step")
	}
	var r Reason
	if r.UnmarshalText([]byte("because")) == nil {
		t.Error("an unknown reason was read")
	}
	if Reason(99).String() != "reason(99)" {
		t.Error(Reason(99).String())
	}
}

func TestAnswerExplains(t *testing.T) {
	until := time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC)
	for want, a := range map[string]Answer{
		"admit": {},
		"refuse by plans/per-second (over-limit): 0 of 5 requests left per 1s, until 2026-03-01T12:00:01.000Z": {
			Verdict: Refuse, Reason: OverLimit, Until: until,
			Figure: Figure{By: "plans", Rule: "per-second", Unit: "requests", Limit: 5, Window: Window(time.Second)},
		},
		"refuse by plans/monthly (over-limit): 0 of 5 requests left per month": {
			Verdict: Refuse, Reason: OverLimit,
			Figure: Figure{By: "plans", Rule: "monthly", Unit: "requests", Limit: 5,
				Window: NewWindow(31*24*time.Hour, Month)},
		},
		"wait by plans/at-once: 0 of 2 at once left": {
			Verdict: Wait, Figure: Figure{By: "plans", Rule: "at-once", Unit: "at once", Limit: 2},
		},
		"refuse by plans (failure)": {Verdict: Refuse, Reason: Failure, Figure: Figure{By: "plans"}},
	} {
		if got := a.Explain(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestClearedAnswerAdmitsAndKeepsRoom(t *testing.T) {
	a := Answer{Verdict: Refuse, Reason: OverLimit, Until: time.Now(), Figures: make([]Figure, 3, 8)}
	a.Clear()
	if a.Verdict != Admit || a.Reason != NoReason || !a.Until.IsZero() || len(a.Figures) != 0 || cap(a.Figures) != 8 {
		t.Errorf("%+v", a)
	}
}

func TestTurn(t *testing.T) {
	granted, refused := NewTurn(), NewTurn()
	select {
	case <-granted.Called():
		t.Fatal("called before its time")
	default:
	}
	granted.Grant()
	refused.Refuse(Overload)
	<-granted.Called()
	<-refused.Called()
	if granted.Refused() != NoReason || refused.Refused() != Overload {
		t.Error(granted.Refused(), refused.Refused())
	}
}

func TestChargeIsAtLeastOne(t *testing.T) {
	for cost, want := range map[int64]int64{-3: 1, 0: 1, 1: 1, 7: 7} {
		if got := (&Event{Cost: cost}).Charge(); got != want {
			t.Errorf("cost %d charges %d", cost, got)
		}
	}
}
