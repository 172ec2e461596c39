package console

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/store"
)

// Reach is what a weir without a reach throttle has.
func (b *backend) Reach() Reach { return nil }

// reaching is a weir with a reach throttle, which notes what it is asked and answers what the test wants.
type reaching struct {
	*backend
	err   error
	asked string
	by    string
	limit int
	users []ReachView
}

func (w *reaching) Reach() Reach { return w }

func (w *reaching) Flagged(_ context.Context, limit int) ([]ReachView, error) {
	w.limit = limit
	return w.users[:min(limit, len(w.users))], w.err
}
func (w *reaching) ReachOf(_ context.Context, user, throttle string) ([]ReachView, error) {
	w.asked = "show " + user + " " + throttle
	return w.users, w.err
}
func (w *reaching) Flag(_ context.Context, by, user, throttle string) (ReachView, error) {
	w.asked, w.by = "flag "+user+" "+throttle, by
	return ReachView{User: user, Throttle: throttle, Flagged: true}, w.err
}
func (w *reaching) Clear(_ context.Context, by, user, throttle string) (ReachView, error) {
	w.asked, w.by = "clear "+user+" "+throttle, by
	return ReachView{User: user, Throttle: throttle}, w.err
}
func (w *reaching) Usual(_ context.Context, throttle string) (ReachUsual, error) {
	w.asked = "usual " + throttle
	return ReachUsual{Throttle: throttle, Threshold: "dynamic",
		Cohorts: []ReachCohort{{"hour", "up to 30 days", "under 32", 1000, 4.2, 50}}}, w.err
}

func TestReachOverTheSocket(t *testing.T) {
	w := &reaching{backend: newBackend()}
	path := socketPath(t)
	control(t, path, w)
	c, ctx := NewClient(path), t.Context()

	if p, err := ReachListCall.Ask(ctx, c,
		ReachList{Limit: 0}); err != nil || p.Users == nil || len(p.Users) != 0 || p.More ||
		w.limit != MaxReachPage+1 {
		t.Errorf("%+v, %v", p, err)
	}
	at := time.Unix(1e9, 0).UTC()
	w.users = []ReachView{
		{Throttle: "contacts", User: "ann", Flagged: true, Since: at, Why: "60 new", Holds: "nothing", Recipients: 61,
			First: at, Windows: []ReachWindow{{"hour", 60.5, 50}}, Bytes: 300},
		{Throttle: "contacts", User: "bob", Flagged: true, Shadow: true, Exempt: true, Windows: []ReachWindow{},
			Problem: "it is from a newer weir"},
	}
	if p, err := ReachListCall.Ask(ctx, c, ReachList{Limit: 2}); err != nil || !reflect.DeepEqual(p,
		ReachPage{Users: w.users}) {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := ReachListCall.Ask(ctx, c, ReachList{Limit: 1}); err != nil || !reflect.DeepEqual(p,
		ReachPage{w.users[:1], true}) {
		t.Errorf("%+v, %v", p, err)
	}
	for _, limit := range []int{-1, MaxReachPage + 1} {
		if _, err := ReachListCall.Ask(ctx, c, ReachList{Limit: limit}); code(err) != http.StatusBadRequest {
			t.Errorf("limit %d: %v", limit, err)
		}
	}

	const name, throttle = "../a b&c=d/é", "x/../y&z"
	if u, err := ReachShowCall.Ask(ctx, c, ReachName{Name: name,
		Throttle: throttle}); err != nil || w.asked != "show "+name+" "+throttle ||
		!reflect.DeepEqual(u, ReachUser{name, w.users}) {
		t.Errorf("%q: %+v, %v", w.asked, u, err)
	}
	if v, err := ReachFlagCall.Ask(ctx, c, ReachOrder{User: name,
		Throttle: throttle}); err != nil || w.asked != "flag "+name+" "+throttle || w.by != me() ||
		!v.Flagged {
		t.Errorf("%q by %q: %+v, %v", w.asked, w.by, v, err)
	}
	if v, err := ReachClearCall.Ask(ctx, c,
		ReachOrder{User: name}); err != nil || w.asked != "clear "+name+" " || w.by != me() || v.Flagged {
		t.Errorf("%q by %q: %+v, %v", w.asked, w.by, v, err)
	}
	if u, err := ReachUsualCall.Ask(ctx, c,
		ReachThrottle{Throttle: throttle}); err != nil || w.asked != "usual "+throttle || u.Throttle != throttle ||
		len(u.Cohorts) != 1 || u.Cohorts[0].Samples != 1000 {
		t.Errorf("%q: %+v, %v", w.asked, u, err)
	}

	// What cannot be is not asked for.
	w.asked = ""
	long := strings.Repeat("x", store.MaxAccount+1)
	for what, err := range map[string]error{
		"no name":       second(ReachShowCall.Ask(ctx, c, ReachName{Name: ""})),
		"nobody":        second(ReachFlagCall.Ask(ctx, c, ReachOrder{User: "", Throttle: "contacts"})),
		"long name":     second(ReachClearCall.Ask(ctx, c, ReachOrder{User: long})),
		"two lines":     second(ReachFlagCall.Ask(ctx, c, ReachOrder{User: "a\nb"})),
		"long throttle": second(ReachShowCall.Ask(ctx, c, ReachName{Name: "ann", Throttle: long[:store.MaxThrottle+1]})),
		"two throttles": second(ReachUsualCall.Ask(ctx, c, ReachThrottle{Throttle: "a\nb"})),
		"another field": c.call(ctx, http.MethodPost, "/api/v1/reach/flag", UserPassword{Name: "ann"}, nil),
	} {
		if code(err) != http.StatusBadRequest || w.asked != "" {
			t.Errorf("%s: %v, asked %q", what, err, w.asked)
		}
	}

	// What the throttles say is understood.
	for _, test := range []struct {
		err  error
		code int
		text string
	}{
		{NotFound("nothing is known of him"), 404, "nothing is known of him"},
		{Rejected("ann is not flagged"), 409, "ann is not flagged"},
		{fmt.Errorf("the name is too long: %w", store.ErrTooLarge), 400, "the name is too long"},
		{store.ErrFull, 500, store.ErrFull.Error()},
	} {
		w.err = test.err
		for what, err := range map[string]error{
			"list": second(ReachListCall.Ask(ctx, c, ReachList{Limit: 0})), "show": second(ReachShowCall.Ask(ctx, c,
				ReachName{Name: "ann"})),
			"flag": second(ReachFlagCall.Ask(ctx, c, ReachOrder{User: "ann"})),
			"clear": second(ReachClearCall.Ask(ctx, c,
				ReachOrder{User: "ann"})), "usual": second(ReachUsualCall.Ask(ctx, c, ReachThrottle{Throttle: ""})),
		} {
			if code(err) != test.code || err.Error() != test.text {
				t.Errorf("%s: %v: %d %v", what, test.err, code(err), err)
			}
		}
	}
}

// TestNoReachThrottle: every command about reach says the same where there is none.
func TestNoReachThrottle(t *testing.T) {
	_, c := controlledMail(t)
	ctx := t.Context()
	for what, err := range map[string]error{
		"list": second(ReachListCall.Ask(ctx, c, ReachList{Limit: 0})), "show": second(ReachShowCall.Ask(ctx, c,
			ReachName{Name: "ann"})),
		"flag":  second(ReachFlagCall.Ask(ctx, c, ReachOrder{User: "ann"})),
		"clear": second(ReachClearCall.Ask(ctx, c, ReachOrder{User: "ann"})), "usual": second(ReachUsualCall.Ask(ctx,
			c, ReachThrottle{Throttle: ""})),
	} {
		if code(err) != http.StatusNotFound ||
			err.Error() != "there is no reach throttle (throttles: {NAME: {reach: {}}} makes one)" {
			t.Errorf("%s: %v", what, err)
		}
	}
}
