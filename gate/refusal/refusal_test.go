package refusal

import (
	"net/http"
	"testing"
	"time"

	"weir"
	"weir/internal/words"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func TestRateLimit(t *testing.T) {
	h := http.Header{}
	RateLimit(&Singles{Of: h}, nil, noon)
	if len(h) != 0 {
		t.Error("headers without figures:", h)
	}
	RateLimit(&Singles{Of: h}, []weir.Figure{
		{By: "plans", Rule: "at-once", Unit: "at once", Limit: 3, Remaining: 3}, // told again below
		{By: "plans", Rule: "per-second", Unit: "requests", Limit: 5, Remaining: 4,
			Window: weir.Window(200 * time.Millisecond), Reset: noon.Add(100 * time.Millisecond)},
		{By: "plans", Rule: "traffic", Unit: "bytes", Limit: 100, Remaining: 0, Window: weir.Window(time.Minute),
			Reset: noon.Add(-time.Second)},
		{By: "edge", Rule: "per-second", Limit: 7, Remaining: 6, Window: weir.Window(time.Second)},
		{By: "edge", Rule: "quo\"te\\ é"},
		{By: "plans", Rule: "at-once", Unit: "at once", Limit: 3, Remaining: 2},
	}, noon)
	if got, want := map[string][]string(h)["RateLimit-Policy"][0],
		`"per-second";q=5;w=1, "traffic";q=100;w=60;qu="content-bytes", "edge/per-second";q=7;w=1, "quo\"te\\ ??";q=0, `+
			`"at-once";q=3;qu="concurrent-requests"`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got, want := map[string][]string(h)["RateLimit"][0],
		`"per-second";r=4;t=1, "traffic";r=0;t=0, "edge/per-second";r=6, "quo\"te\\ ??";r=0, "at-once";r=2`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestRetryAfter(t *testing.T) {
	later := noon.Add(1500 * time.Millisecond)
	for want, all := range map[int64][]weir.Answer{
		0: {{Reason: weir.NoAccount, Until: later}, {Reason: weir.TooCostly}, {Reason: weir.Forged},
			{Reason: weir.Replayed}, {Reason: weir.Banned},
			{Reason: weir.OverLimit, Figure: weir.Figure{Rule: "closed"}}},
		1: {{}, {Reason: weir.Overload}, {Reason: weir.OverLimit, Until: noon.Add(-time.Hour)}},
		2: {{Reason: weir.OverLimit, Until: later}, {Reason: weir.Banned, Until: later},
			{Reason: weir.OverLimit, Until: noon, Figure: weir.Figure{Limit: 1, Reset: later}}},
	} {
		for _, a := range all {
			if got := RetryAfter(&a, noon); got != want {
				t.Errorf("%+v: %d, want %d", a, got, want)
			}
		}
	}
}

func TestDetail(t *testing.T) {
	figure := weir.Figure{Unit: "requests", Limit: 5, Window: weir.Window(time.Hour)}
	seen := map[string]bool{}
	for why := weir.NoReason; why <= weir.TooMany; why++ {
		s := Detail(nil, &weir.Answer{Reason: why, Figure: figure})
		if s == "" || s[len(s)-1] != '.' {
			t.Errorf("%s: %q", why, s)
		}
		seen[s] = true
	}
	if len(seen) < 13 {
		t.Errorf("%d sentences", len(seen))
	}
	for want, a := range map[string]weir.Answer{
		"The limit is used up.": {},
		"The limit of 5 requests per hour is used up.": {
			Reason: weir.OverLimit, Figure: figure},
		"The limit of 1KiB per 2m is used up.": {Reason: weir.OverLimit,
			Figure: weir.Figure{Unit: "bytes", Limit: 1024, Window: weir.Window(2 * time.Minute)}},
		"The limit of 5 requests per hour is used up. Accounts that are new to the server share it. Try again soon.": {
			Reason: weir.SharedLimit, Figure: figure},
		"The limit of 3 per month is used up.": {
			Reason: weir.OverLimit, Figure: weir.Figure{Limit: 3, Window: weir.NewWindow(30*24*time.Hour, weir.Month)}},
		"The limit of 3 per 30d is used up.": {
			Reason: weir.OverLimit, Figure: weir.Figure{Limit: 3, Window: weir.Window(30 * 24 * time.Hour)}},
		"The limit of 2 per day is used up.": {
			Reason: weir.OverLimit, Figure: weir.Figure{Limit: 2, Window: weir.NewWindow(23*time.Hour, weir.Day)}},
		"The limit of 3 per day is used up.": {
			Reason: weir.OverLimit, Figure: weir.Figure{Limit: 3, Window: weir.Window(24 * time.Hour)}},
		"The server is busy. Requests with a stamp go first.": {
			Reason: weir.Unpaid, Figure: weir.Figure{Unit: "operations"}},
		"The limit of 5 at once is used up. With a stamp the request goes on.": {
			Reason: weir.Unpaid, Figure: weir.Figure{Unit: "at once", Limit: 5}},
		"The server is busy, and no more requests can wait, or this one has waited too long.": {
			Reason: weir.LineFull, Figure: weir.Figure{Unit: "waiting", Limit: 9}},
		"The limit of 5 requests per minute is used up, and the wait would be too long.": {
			Reason: weir.WaitTooLong, Figure: weir.Figure{Unit: "requests", Limit: 5,
				Window: weir.Window(time.Minute)}},
		"The limit of 5 requests per second is used up, and no more requests can wait.": {
			Reason: weir.LineFull, Figure: weir.Figure{Unit: "requests", Limit: 5, Window: weir.Window(time.Second)}},
	} {
		if got := Detail(nil, &a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestOfUnpayable: where nobody can pay, a challenge is the limit behind it. Type and reason stay.
func TestOfUnpayable(t *testing.T) {
	for name, c := range map[string]struct {
		a      weir.Answer
		status int
		detail string
	}{
		"the stamp taker": {weir.Answer{Verdict: weir.Challenge, Reason: weir.Unpaid,
			Figure: weir.Figure{Unit: "operations", Limit: 9}},
			503, "The server has no room for the request right now."},
		"a quota": {weir.Answer{Verdict: weir.Challenge, Reason: weir.Unpaid,
			Figure: weir.Figure{Unit: "requests", Limit: 5}},
			429, "The limit of 5 requests is used up."},
		"a stamp": {weir.Answer{Verdict: weir.Refuse, Reason: weir.Forged}, 403,
			"The stamp that came with the request is not genuine."},
	} {
		r := OfUnpayable(&c.a, noon)
		if r.Status != c.status || r.Detail != c.detail || r.Reason != c.a.Reason.String() ||
			r.Type != "urn:weir:"+r.Reason {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestAgain: the API tells fractions of a second, the others whole seconds.
func TestAgain(t *testing.T) {
	soon := noon.Add(1500 * time.Millisecond)
	for want, a := range map[time.Duration]weir.Answer{
		0:                       {Reason: weir.NoSource},
		time.Second:             {Reason: weir.Overload},
		time.Millisecond:        {Reason: weir.OverLimit, Until: noon.Add(-time.Hour)},
		1500 * time.Millisecond: {Reason: weir.OverLimit, Until: soon},
	} {
		if got := Again(&a, noon); got != want || RetryAfter(&a, noon) != WholeSeconds(want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestIn: people read their language. Titles are those of net/http, so that the English page says what it always said.
func TestIn(t *testing.T) {
	for status, title := range titles {
		if string(title) != http.StatusText(status) {
			t.Errorf("%d is %q", status, title)
		}
	}
	de := words.Find("de")
	for want, doc := range map[string]Refusal{
		"Fehler beim Dienst dahinter|Der Dienst dahinter ist nicht erreichbar.": Problem(http.StatusBadGateway,
			"The service behind the gate cannot be reached."),
		"I'm a teapot|Something else.": Problem(http.StatusTeapot, "Something else."),
		"Zu viele Anfragen|Das Limit von 1 Anfrage pro Minute ist ausgeschöpft.": Of(&weir.Answer{Reason: weir.OverLimit,
			Figure: weir.Figure{Unit: "requests", Limit: 1, Window: weir.Window(time.Minute)}}, noon, false),
		"Zu viele Anfragen|Das Limit von 2 gleichzeitigen Anfragen ist ausgeschöpft.": OfUnpayable(&weir.Answer{
			Verdict: weir.Challenge, Reason: weir.Unpaid, Figure: weir.Figure{Unit: "at once", Limit: 2}}, noon),
		"Dienst nicht verfügbar|Der Server hat gerade keinen Platz für die Anfrage.": OfUnpayable(&weir.Answer{
			Verdict: weir.Challenge, Reason: weir.Unpaid, Figure: weir.Figure{Unit: "operations", Limit: 2}}, noon),
	} {
		if title, text := doc.In(de); title+"|"+text != want {
			t.Errorf("%s|%s, want %s", title, text, want)
		}
		if title, text := doc.In(nil); title != doc.Title || text != doc.Detail {
			t.Errorf("%s|%s, and %s|%s", title, text, doc.Title, doc.Detail)
		}
	}
	for want, got := range map[string]string{"1 Anfrage": Amount(de, 1, "requests"), "2 Anfragen": Amount(de, 2, "requests"),
		"2KiB": Amount(de, 2048, "bytes"), "3 gleichzeitig": Amount(de, 3, "at once"), "4 wartende": Amount(de, 4, "waiting"),
		"5 apples": Amount(de, 5, "apples")} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
