package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/user"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/throttle/ban"
)

// What the test's weir says about bans.
func (b *backend) Bans(q BanQuery) (BanPage, error) {
	b.bans.query = q
	return b.bans.page, b.bans.err
}
func (b *backend) Ban(_ context.Context, o BanOrder, by string) (BanResult, error) {
	b.bans.order, b.bans.by = o, by
	return BanResult{Ban: Ban{Who: o.Who, By: by, Operator: true}, Kept: true}, b.bans.err
}
func (b *backend) Unban(_ context.Context, who, by string) (BanResult, error) {
	b.bans.order, b.bans.by = BanOrder{Who: who}, by
	return BanResult{Ban: Ban{Who: who}, Warnings: []string{"the disk is full"}}, b.bans.err
}

// banState is what the test's weir is asked about bans, and what it answers.
type banState struct {
	status BanStatus
	store  StoreStatus
	page   BanPage
	query  BanQuery
	order  BanOrder
	by     string
	err    error
}

func TestBansOverTheSocket(t *testing.T) {
	b := newBackend()
	path := socketPath(t)
	control(t, path, b)
	client := NewClient(path)
	b.bans.page = BanPage{Bans: []Ban{{Who: "192.0.2.0/24", Reason: "scraper", By: "root", Operator: true,
		Until: time.Unix(1e9, 0).UTC()}}, Total: 7, Next: "192.0.2.0/24"}
	q := BanQuery{Filter: "a b&c=d", After: "client:x/../y", Limit: MaxBanPage}
	page, err := BansCall.Ask(t.Context(), client, q)
	if err != nil || b.bans.query != q || !reflect.DeepEqual(page, b.bans.page) {
		t.Errorf("%+v of %+v, %v", page, b.bans.query, err)
	}
	if _, err := BansCall.Ask(t.Context(), client, BanQuery{}); err != nil ||
		b.bans.query != (BanQuery{Limit: MaxBanPage}) {
		t.Errorf("%+v, %v", b.bans.query, err)
	}
	for _, limit := range []int{-1, MaxBanPage + 1} {
		if _, err := BansCall.Ask(t.Context(), client, BanQuery{Limit: limit}); code(err) != http.StatusBadRequest {
			t.Errorf("limit %d: %v", limit, err)
		}
	}

	// Who asks is told by the kernel, and not by who asks.
	me := anOperator
	if u, err := user.Current(); err == nil && runtime.GOOS == "linux" {
		me = u.Username
	}
	order := BanOrder{Who: "client:a?b", For: weir.Duration(90 * time.Minute), Reason: "forged stamps"}
	r, err := BanAddCall.Ask(t.Context(), client, order)
	if err != nil || b.bans.order != order || b.bans.by != me || !r.Kept || r.Ban.Who != order.Who || r.Ban.By != me {
		t.Errorf("%+v of %+v by %q, %v", r, b.bans.order, b.bans.by, err)
	}
	r, err = BanRemoveCall.Ask(t.Context(), client, BanWho{Who: "client:a?b"})
	if err != nil || b.bans.order.Who != "client:a?b" || b.bans.by != me || r.Kept ||
		fmt.Sprint(r.Warnings) != "[the disk is full]" {
		t.Errorf("%+v by %q, %v", r, b.bans.by, err)
	}
	b.bans.err = NotFound("it is not banned")
	if _, err := BanRemoveCall.Ask(t.Context(), client, BanWho{Who: "192.0.2.1"}); code(err) != http.StatusNotFound ||
		err.Error() != "it is not banned" {
		t.Error(err)
	}
	if err := client.call(t.Context(), http.MethodPost, "/api/v1/bans", map[string]any{"who": "x", "by": "somebody else"},
		nil); code(err) != http.StatusBadRequest {
		t.Errorf("who it was is not to be claimed: %v", err)
	}
	if err := client.call(t.Context(), http.MethodPost, "/api/v1/bans", map[string]any{"who": "x", "for": "soon"},
		nil); code(err) != http.StatusBadRequest {
		t.Errorf("soon: %v", err)
	}
}

func code(err error) int {
	e, _ := errors.AsType[*Error](err)
	if e == nil {
		return 0
	}
	return e.Code
}

func TestBanMetrics(t *testing.T) {
	b := newBackend()
	b.bans.status = BanStatus{Stats: ban.Stats{Clients: 3, Networks: 2, Max: 10, Added: 11, Removed: 1, Expired: 4,
		Evicted: 5, Refused: 6, Offences: 7, Addresses: 8}}
	b.bans.store = StoreStatus{Writes: 9,
		Parts: []StorePart{{Part: "bans", Unsaved: 12, Failures: 13, Error: "full"}, {Part: "counters"}}}
	b.xdp = []XDPStatus{{Interface: "eth0", LeftOut: 14}}
	url, _ := serve(t, Options{}, b)
	_, body, _ := get(t, "GET", url+"/metrics", "")
	for _, want := range []string{
		`weir_bans_listed{kind="client"} 3`, `weir_bans_listed{kind="network"} 2`, `weir_bans_limit 10`,
		`weir_bans_added_total 11`,
		`weir_bans_removed_total{reason="removed"} 1`, `weir_bans_removed_total{reason="expired"} 4`,
		`weir_bans_removed_total{reason="evicted"} 5`,
		`weir_bans_refused_total 6`, `weir_bans_offences_total 7`, `weir_bans_addresses_total 8`,
		`weir_store_writes_total 9`, `weir_store_unsaved{part="bans"} 12`, `weir_store_failures_total{part="bans"} 13`,
		`weir_store_failing{part="bans"} 1`, `weir_store_failing{part="counters"} 0`,
		`weir_xdp_bans_omitted{interface="eth0"} 14`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

func TestIndexShowsBans(t *testing.T) {
	b := newBackend()
	url, _ := serve(t, Options{}, b)
	_, body, _ := get(t, "GET", url+"/", "")
	if !strings.Contains(body, "Nobody is banned.") || strings.Contains(body, "store fails") {
		t.Error(body)
	}
	b.bans.status = BanStatus{Stats: ban.Stats{Clients: 1, Networks: 2, Operators: 2}}
	b.bans.store = StoreStatus{Parts: []StorePart{{Part: "bans", Error: "<no room>"}, {Part: "counters"}}}
	_, body, _ = get(t, "GET", url+"/", "")
	for _, want := range []string{"1 client and 2 networks are banned, 2 of them by operators.",
		"a restart would forget the latest bans. &lt;no room&gt;"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
	if strings.Count(body, "The store fails") != 1 {
		t.Error(body)
	}
}

// TestBannedInBrowser: what is said of a store that fails is long, and a phone is narrow.
func TestBannedInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	b := newBackend()
	b.bans.status = BanStatus{Stats: ban.Stats{Clients: 12345, Networks: 67890, Operators: 17}}
	b.bans.store = StoreStatus{Parts: []StorePart{{Part: "bans",
		Error: "/var/lib/weir-of-the-whole-organisation/in-the-second-data-centre/weir.db: no room to store more " +
			"(disk full; make room on the disk)"}}}
	url, _ := serve(t, Options{}, b)
	p := browser.Open(t)
	p.Inspect("console-banned", url+"/", func(at string, _ int, _ http.Header) {
		if text := p.Text("main"); !strings.Contains(text, "12345 clients and 67890 networks") ||
			!strings.Contains(text, "no room to store more") {
			t.Errorf("%s: %q", at, text)
		}
	})
}
