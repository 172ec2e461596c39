package console

import (
	"context"
	"net/http"
	"reflect"
	"testing"
	"time"

	"weir"
)

// What the test's weir says about limits of single accounts.
func (b *backend) Limits(q LimitQuery) (LimitPage, error) {
	b.limits.query = q
	return b.limits.page, b.limits.err
}

func (b *backend) SetLimit(_ context.Context, o LimitOrder, by string) (LimitResult, error) {
	b.limits.order, b.limits.by = o, by
	return LimitResult{Limit: AccountLimit{Account: o.Account, Figures: o.Figures(), By: by, Live: true}, Kept: true},
		b.limits.err
}

func (b *backend) RemoveLimit(_ context.Context, o LimitOf, by string) (LimitResult, error) {
	b.limits.of, b.limits.by = o, by
	return LimitResult{Limit: AccountLimit{Account: o.Account}}, b.limits.err
}

// limitState is what the test's weir is asked about limits, and what it answers.
type limitState struct {
	page  LimitPage
	query LimitQuery
	order LimitOrder
	of    LimitOf
	by    string
	err   error
}

func TestLimitsOverTheSocket(t *testing.T) {
	b := newBackend()
	path := socketPath(t)
	control(t, path, b)
	client := NewClient(path)
	b.limits.page = LimitPage{Limits: []AccountLimit{{Account: "acme", Throttle: "plans", Policy: "per-minute",
		Figures: Figures{Limit: "50"}, Live: true, By: "root", At: time.Unix(1e9, 0).UTC()}}, Total: 7, Next: 1}
	q := LimitQuery{Account: "a b&c=../d", Filter: "x", Skip: 4, Limit: 9}
	page, err := LimitListCall.Ask(t.Context(), client, q)
	if err != nil || b.limits.query != q || !reflect.DeepEqual(page, b.limits.page) {
		t.Errorf("%+v of %+v, %v", page, b.limits.query, err)
	}
	for _, bad := range []LimitQuery{{Limit: MaxLimitPage + 1}, {Limit: -1}, {Skip: -1}} {
		if _, err := LimitListCall.Ask(t.Context(), client, bad); code(err) != http.StatusBadRequest {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	order := LimitOrder{Account: "a/../b", Throttle: "plans", Policy: "per-minute", Limit: "50",
		For: weir.Duration(time.Hour), Note: "they paid"}
	r, err := LimitSetCall.Ask(t.Context(), client, order)
	if err != nil || b.limits.order != order || b.limits.by == "" || !r.Kept || r.Limit.By != b.limits.by {
		t.Errorf("%+v of %+v by %q, %v", r, b.limits.order, b.limits.by, err)
	}
	if err := client.call(t.Context(), http.MethodPost, "/api/v1/limits", map[string]any{"account": "x", "by": "me"},
		nil); code(err) != http.StatusBadRequest {
		t.Errorf("who it was is not to be claimed: %v", err)
	}
	gone := LimitOf{Account: "a/../b", Throttle: "plans", Policy: "per-minute"}
	if _, err := LimitRemoveCall.Ask(t.Context(), client, gone); err != nil || b.limits.of != gone {
		t.Errorf("%+v, %v", b.limits.of, err)
	}
	b.limits.err = NotFound("there is none")
	if _, err := LimitRemoveCall.Ask(t.Context(), client, gone); code(err) != http.StatusNotFound {
		t.Error(err)
	}
}
