package app_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/console"
	"weir/internal/browser"
)

// TestUserHistoryOfMail: the past of a user who sends over SMTP: the queue grows and shrinks, slack is spent and comes
// back, the working set fills.
func TestUserHistoryOfMail(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann")
	m := p.mailer("ann")
	for _, to := range many(4) { // the first passes, three wait
		if err := m.send("hello", to); err != nil {
			t.Fatal(err)
		}
	}
	for range 6 * 6 {
		p.runs(10 * time.Second)
	}
	h, err := p.control.UserHistory(context.Background(), "Ann")
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Throttles) != 1 || h.User != "ann" || h.At.Sub(h.Since) != 6*time.Minute {
		t.Fatalf("%+v", h)
	}
	s := h.Throttles[0]
	if s.Name != "outgoing" || s.Kind != "mail" || s.Unit != "recipients" {
		t.Errorf("%+v", s)
	}
	column := func(m console.Measure) (all []float32) {
		for _, v := range s.Columns[m] {
			if len(all) == 0 || all[len(all)-1] != v {
				all = append(all, v)
			}
		}
		return all
	}
	for _, c := range []struct {
		of   console.Measure
		want []float32
	}{
		{console.Waiting, []float32{3, 2, 1, 0}}, {console.WorkingSet, []float32{1, 2, 3, 4}},
		{console.Slack, []float32{0, 1}}, {console.StopAbove, []float32{20}}, {console.UserStopped, []float32{0}},
	} {
		if got := column(c.of); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.of, got, c.want)
		}
	}
}

// TestUserHistoryInBrowser: an operator sees the last hour of a user as plots, each with a unit, a figure of now and a
// text for those who do not see it.
func TestUserHistoryInBrowser(t *testing.T) {
	t.Parallel()
	b := browser.Open(t)
	p := newPost(t, "rate: 1/m", "throttles: [outgoing, contacts]",
		"  contacts: {reach: {threshold: 30, over: flag, windows: [hour, day]}}")
	p.user("ann")
	p.user("calm")
	m := p.mailer("ann")
	for i := range 60 {
		if i%12 == 0 {
			for k := range 1 + i/12*2 {
				if err := m.send("hello", fmt.Sprintf("friend%d-%d@elsewhere.example", i, k)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 6 {
			p.runs(10 * time.Second)
		}
	}
	url := operates(b, t, p)
	b.Inspect("console-mail-user-past", url+"/mail-user?name=ann", func(at string, status int, _ http.Header) {
		text := b.Text("main")
		for _, word := range []string{"The last hour", "Queue", "recipients that wait", "Slack", "Working set",
			"Reach in an hour", "new recipients in the hour before", "Reach in a day", "an hour ago", "now", "of 20"} {
			if status != http.StatusOK || !strings.Contains(text, word) {
				t.Errorf("%s: %d, without %q: %s", at, status, word, text)
			}
		}
		lines := browser.Eval[int](b, "[...document.querySelectorAll('figure .line')].filter(l => l.getAttribute('d')).length")
		if lines != 6 {
			t.Errorf("%s: %d lines", at, lines)
		}
	})
	b.Visit(url + "/mail-user?name=calm")
	if text := b.Text("main"); !strings.Contains(text, "No message waits here.") ||
		strings.Contains(text, "The last hour") {
		t.Error(text)
	}
}
