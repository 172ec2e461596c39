package console

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"weir"
	"weir/console/access"
	"weir/mail/login"
	"weir/notify"
	"weir/policy"
	"weir/store"
	"weir/store/sqlite"
)

// backend is a weir that only the test knows.
type backend struct {
	demo      Demo
	notReady  error
	mu        sync.Mutex
	told      []notify.Stats
	throttles []Throttle
	xdp       []XDPStatus
	reload    error
	asked     Question
	shadow    Shadow
	accounts  map[string]Account
	bans      banState
	limits    limitState
	lists     listState
	history   []GateHistory
	farm      *fakeFarm
	overview  Overview
	looked    OverviewQuery
	refusals  RefusalPage
	sought    RefusalQuery
	operators *access.Operators

	noting sync.Mutex
	noted  []store.Entry // the audit log
}

func (b *backend) Access() *access.Operators          { return b.operators }
func (b *backend) admits(operators *access.Operators) { b.operators = operators }

func (b *backend) Log(_ context.Context, e store.Entry) error {
	b.noting.Lock()
	defer b.noting.Unlock()
	b.noted = append(b.noted, e)
	return nil
}

func (b *backend) Backup(context.Context, string, func(done, total int64)) error { return nil }
func (b *backend) Entries(_ context.Context, q store.EntryQuery, limit int) (found []store.Entry, _ error) {
	b.noting.Lock()
	defer b.noting.Unlock()
	for _, e := range slices.Backward(b.noted) {
		if len(found) < limit {
			found = append(found, e)
		}
	}
	return found, nil
}

// accessOperators returns Operators over a real store.
func accessOperators(t testing.TB, c login.Clock) *access.Operators {
	t.Helper()
	kept, err := sqlite.Open(t.Context(), sqlite.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	operators, err := access.New(access.Options{Store: kept.Access(), Clock: c, HashMemory: 8,
		Secret: []byte("a secret of 32 bytes, or about so")})
	if err != nil {
		t.Fatal(err)
	}
	return operators
}

func (b *backend) Ready() error           { return b.notReady }
func (b *backend) Throttles() []Throttle  { return b.throttles }
func (b *backend) History() []GateHistory { return b.history }
func (b *backend) Overview(q OverviewQuery) Overview {
	b.mu.Lock() // pages are shown side by side
	defer b.mu.Unlock()
	b.looked = q
	return b.overview
}
func (b *backend) Refusals(q RefusalQuery) RefusalPage {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sought = q
	return b.refusals
}
func (b *backend) Status() Status {
	s := Status{Version: "test", State: "serving", Ready: b.notReady == nil, Control: "here"}
	s.Bans, s.Store, s.XDP = b.bans.status, b.bans.store, b.xdp
	for _, t := range b.throttles {
		s.Throttles = append(s.Throttles, t.Status())
	}
	if b.farm != nil {
		status := b.farm.Status()
		s.Farm = &status
	}
	return s
}
func (b *backend) Account(name string) (Account, error) {
	if a, ok := b.accounts[name]; ok {
		return a, nil
	}
	return Account{}, NotFound("nothing is known of it")
}
func (b *backend) ResetAccount(name string) (Account, error) {
	a, err := b.Account(name)
	delete(b.accounts, name)
	return a, err
}
func (b *backend) Why(q Question) (Explanation, error) {
	b.asked = q
	return Explanation{Gate: q.Gate, Verdict: weir.Refuse,
		Steps: []Step{{Throttle: "plans", Verdict: weir.Refuse, Reason: weir.OverLimit}}}, nil
}
func (b *backend) SetShadow(_ context.Context, s Shadow, _ string) (ShadowResult, error) {
	b.shadow = s
	return ShadowResult{Throttles: []ShadowState{{"plans", s.On}}}, nil
}
func (b *backend) Reload(context.Context) error { return b.reload }

func newBackend() *backend {
	link := policy.NewLink("plans", nil, policy.Open)
	link.Counts.Declare([]string{"per-hour"})
	link.Counts.Verdicts[weir.Refuse].Add(2)
	link.Counts.Of("per-hour", weir.Refuse).Verdicts[weir.Refuse].Add(1)
	link.Counts.Shadowed[weir.Wait].Add(2)
	link.Counts.Errors.Add(1)
	link.Counts.Expired.Add(4)
	link.Shadow.Store(true)
	return &backend{throttles: []Throttle{{Link: link, Kind: "quota",
		Table: &Table{Accounts: 7, Probation: 3, Waiting: 5, Strangers: 6, PushedOut: 8}}}}
}

var quiet = slog.New(slog.DiscardHandler)
