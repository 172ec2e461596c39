package access

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/store"
	"weir/store/sqlite"
)

var (
	start  = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	source = netip.MustParseAddr("192.0.2.1")
	root   = Local("root")
)

// rig is Operators over a real store, with the clock in the test's hand.
type rig struct {
	*Operators
	t     testing.TB
	clock *clock.Fake
	store *sqlite.Store
}

func newRig(t testing.TB) *rig {
	t.Helper()
	kept, err := sqlite.Open(t.Context(), sqlite.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	r := &rig{t: t, clock: clock.NewFake(start), store: kept}
	r.Operators = r.again()
	return r
}

func (r *rig) again() *Operators {
	r.t.Helper()
	d, err := New(Options{Store: r.store.Access(), Clock: r.clock, HashMemory: 8,
		Secret: []byte("secret of the tests, 32 bytes ok")})
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

const password = "correct horse"

func (r *rig) add(name string, role Role) {
	r.t.Helper()
	if _, err := r.AddOperator(r.t.Context(), root, name, role, password); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) logIn(a Attempt) (Admission, error) {
	if !a.Source.IsValid() {
		a.Source = source
	}
	return r.LogIn(r.t.Context(), a)
}

// in logs somebody in who must get in.
func (r *rig) in(name string) Admission {
	r.t.Helper()
	in, err := r.logIn(Attempt{Name: name, Password: password})
	if err != nil {
		r.t.Fatal(err)
	}
	return in
}

func (r *rig) audit() (all []store.Entry) {
	r.t.Helper()
	if err := r.store.Mail().View(r.t.Context(), func(tx store.MailTx) (err error) {
		all, err = tx.Entries(store.EntryQuery{}, 100)
		return err
	}); err != nil {
		r.t.Fatal(err)
	}
	return all
}

func TestRoles(t *testing.T) {
	for i, have := range ranks {
		for j, need := range ranks {
			if have.May(need) != (i >= j) {
				t.Errorf("%q may %q: %t", have, need, have.May(need))
			}
		}
	}
	if Role("root").May(View) || Role("root").May(None) || Role("root").Valid() || None.Valid() || !Act.Valid() {
		t.Error("a role that there is not")
	}
	if least(Admin, View) != View || least(Act, Admin) != Act || least("root", View) != "root" {
		t.Error("the lower one of two")
	}
}

func TestNames(t *testing.T) {
	for name, good := range map[string]bool{"ann": true, "a.b_c-d@example.org": true, "0": true,
		strings.Repeat("a", store.MaxOperatorName): true, strings.Repeat("a", store.MaxOperatorName+1): false,
		"": false, "-a": false, "Ann": false, "a b": false, "ä": false, "a\n": false, "a/b": false} {
		if err := CheckName(name); (err == nil) != good || err != nil && !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestLogInAndOut(t *testing.T) {
	r := newRig(t)
	r.add("ann", Act)
	in := r.in("ann")
	who, err := r.Session(t.Context(), in.Secret)
	if err != nil || who.Name != "ann" || who.Role != Act || who.Operator != "ann" {
		t.Fatalf("%+v, %v", who, err)
	}
	// Other Operators, as after a restart, knows the session and its forms.
	if again, err := r.again().Session(t.Context(), in.Secret); err != nil || again != who ||
		!r.again().Genuine(again, r.Form(who)) {
		t.Errorf("%+v, %v", again, err)
	}
	// A second session of the same operator has other forms.
	other := r.in("ann")
	if other.Secret == in.Secret || r.Genuine(other.Identity, r.Form(who)) || r.Form(who) == "" {
		t.Error("two sessions are the same")
	}
	for _, wrong := range []string{"", "x", in.Secret + "x", in.Secret[1:], strings.Repeat("x", 1000)} {
		if _, err := r.Session(t.Context(), wrong); !errors.Is(err, ErrNobody) {
			t.Errorf("%.20q: %v", wrong, err)
		}
	}
	if err := r.LogOut(t.Context(), in.Secret, "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Session(t.Context(), in.Secret); !errors.Is(err, ErrNobody) {
		t.Errorf("after the log-out: %v", err)
	}
	if _, err := r.Session(t.Context(), other.Secret); err != nil {
		t.Errorf("the other session: %v", err)
	}
	log := r.audit()
	if e := log[0]; e.What != "logout" || e.By != "ann" || e.From != "192.0.2.1" {
		t.Errorf("%+v", e)
	}
	if e := log[len(log)-2]; e.What != "login" || e.By != "ann" || e.From != "192.0.2.1" {
		t.Errorf("%+v", e)
	}
}

// TestNothingSecretIsStored: neither passwords nor the secrets of sessions and tokens are in the files.
func TestNothingSecretIsStored(t *testing.T) {
	r := newRig(t)
	r.add("ann", Admin)
	in := r.in("ann")
	k, secret, err := r.AddToken(t.Context(), in.Identity, "ci", View, time.Hour)
	if err != nil || !strings.HasPrefix(secret, tokenMark) {
		t.Fatal(k, err)
	}
	var all strings.Builder
	if err := r.store.Access().View(t.Context(), func(tx store.AccessTx) error {
		o, err := tx.Operators("", 9)
		s, err2 := tx.Sessions("ann", 9)
		k, err3 := tx.Tokens("", 9)
		fmt.Fprintf(&all, "%+v %+v %+v %+v", o, s, k, r.audit())
		return errors.Join(err, err2, err3)
	}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{password, in.Secret, secret} {
		if strings.Contains(all.String(), bad) {
			t.Errorf("%q is in %s", bad, all.String())
		}
	}
	if !strings.Contains(all.String(), "$argon2id$") {
		t.Error("the password is not hashed as it should be")
	}
}

func TestSessionsEnd(t *testing.T) {
	r := newRig(t)
	r.add("ann", View)
	ends := func(what string, in Admission, want bool) {
		t.Helper()
		if _, err := r.Session(t.Context(), in.Secret); errors.Is(err, ErrNobody) != want {
			t.Errorf("%s: %v", what, err)
		}
	}
	in := r.in("ann")
	r.clock.Advance(SessionIdle - 1)
	ends("used just in time", in, false)
	r.clock.Advance(SessionIdle - 1)
	ends("used again", in, false)
	r.clock.Advance(SessionIdle)
	ends("not used", in, true)

	in = r.in("ann")
	for range int(SessionLife/SessionIdle) * 2 {
		r.clock.Advance(SessionIdle / 2)
		_, _ = r.Session(t.Context(), in.Secret)
	}
	ends("used all the time", in, true)

	in = r.in("ann")
	if _, err := r.SetPassword(t.Context(), root, "ann", "another password"); err != nil {
		t.Fatal(err)
	}
	ends("after another password", in, true)
	if _, err := r.logIn(Attempt{Name: "ann", Password: password}); !errors.Is(err, ErrWrong) {
		t.Errorf("the old password: %v", err)
	}
}

// TestSessionsAreBounded: one more ends the one that was used longest ago, of the same operator only.
func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t)
	r.add("ann", View)
	r.add("bob", View)
	bob := r.in("bob")
	var all []Admission
	for range MaxSessions {
		r.clock.Advance(time.Second)
		all = append(all, r.in("ann"))
	}
	r.clock.Advance(2 * time.Minute)
	if _, err := r.Session(t.Context(), all[0].Secret); err != nil { // now it is the last one used
		t.Fatal(err)
	}
	r.in("ann")
	for i, in := range all {
		if _, err := r.Session(t.Context(), in.Secret); (err != nil) != (i == 1) {
			t.Errorf("session %d: %v", i, err)
		}
	}
	if _, err := r.Session(t.Context(), bob.Secret); err != nil {
		t.Errorf("bob: %v", err)
	}
}

func TestOperators(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.add("ann", Admin)
	for err, add := range map[error][3]string{ErrName: {"Bob", "view", password}, ErrRole: {"bob", "root", password},
		store.ErrExists: {"ann", "view", password}} {
		if _, got := r.AddOperator(ctx, root, add[0], Role(add[1]), add[2]); !errors.Is(got, err) {
			t.Errorf("%v: %v, want %v", add, got, err)
		}
	}
	if _, err := r.AddOperator(ctx, root, "bob", View, "short"); err == nil {
		t.Error("a short password")
	}
	if err := r.RemoveOperator(ctx, root, "ann"); !errors.Is(err, ErrLastAdmin) {
		t.Errorf("the last admin: %v", err)
	}
	if err := r.RemoveOperator(ctx, root, "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
	r.add("eve", Admin)
	in := r.in("ann")
	_, secret, err := r.AddToken(ctx, in.Identity, "ci", Admin, 0)
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.List(ctx)
	if err != nil || len(all) != 2 || all[0].Name != "ann" || all[0].Sessions != 1 || all[1].Sessions != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := r.RemoveOperator(ctx, root, "ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Session(ctx, in.Secret); !errors.Is(err, ErrNobody) {
		t.Errorf("a session of somebody who is no more: %v", err)
	}
	if _, err := r.Token(ctx, secret); !errors.Is(err, ErrNobody) {
		t.Errorf("a token of somebody who is no more: %v", err)
	}
	e := r.audit()[0]
	if e.What != "operator-remove" || e.User != "ann" || e.By != "root" || e.Before != `{"role":"admin"}` {
		t.Errorf("%+v", e)
	}
}

// TestRoleChanges: another role holds at once, in an open session and for its tokens, and somebody stays an admin.
func TestRoleChanges(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.add("ann", Admin)
	if _, err := r.SetRole(ctx, root, "ann", View); !errors.Is(err, ErrLastAdmin) {
		t.Errorf("the last admin: %v", err)
	}
	if _, err := r.SetRole(ctx, root, "ann", Admin); err != nil {
		t.Errorf("an admin stays one: %v", err)
	}
	r.add("eve", Admin)
	in := r.in("ann")
	_, secret, err := r.AddToken(ctx, in.Identity, "ci", Admin, 0)
	if err != nil {
		t.Fatal(err)
	}
	v, err := r.SetRole(ctx, root, "ann", View)
	if err != nil || v.Role != View || v.Sessions != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	for name, ask := range map[string]func() (Identity, error){
		"session": func() (Identity, error) { return r.Session(ctx, in.Secret) },
		"token":   func() (Identity, error) { return r.Token(ctx, secret) },
	} {
		if who, err := ask(); err != nil || who.Role != View {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
	if _, err := r.SetRole(ctx, root, "nobody", View); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
	if _, err := r.SetRole(ctx, root, "eve", "god"); !errors.Is(err, ErrRole) {
		t.Errorf("no role: %v", err)
	}
}

// TestSessionsAreSeenAndEnded: an operator sees where they are logged in, and ends one, the others, or all.
func TestSessionsAreSeenAndEnded(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.add("ann", View)
	r.add("bob", View)
	first := r.in("ann")
	r.clock.Advance(time.Minute)
	second, third := r.in("ann"), r.in("ann")
	bob := r.in("bob")
	all, err := r.Sessions(ctx, second.Identity, "ann")
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	here, id := 0, ""
	for _, s := range all {
		if s.Here {
			here++
		}
		if s.Made.Equal(start) {
			id = s.ID
		}
		if s.Source != "192.0.2.1" || len(s.ID) != 2*sessionIDBytes || strings.Contains(first.Secret, s.ID) {
			t.Errorf("%+v", s)
		}
	}
	if here != 1 || all[2].ID != id { // the one used longest ago is the last
		t.Errorf("%d sessions ask; %+v", here, all)
	}
	ends := func(want int, id string, others bool) {
		t.Helper()
		if n, err := r.EndSessions(ctx, second.Identity, "ann", id, others); err != nil || n != want {
			t.Errorf("%d ended, want %d: %v", n, want, err)
		}
	}
	ends(1, id, false)
	if _, err := r.EndSessions(ctx, second.Identity, "ann", id, false); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("ended twice: %v", err)
	}
	ends(1, "", true)
	for _, gone := range []Admission{first, third} {
		if _, err := r.Session(ctx, gone.Secret); !errors.Is(err, ErrNobody) {
			t.Errorf("still there: %v", err)
		}
	}
	ends(1, "", false)
	if _, err := r.Session(ctx, second.Secret); !errors.Is(err, ErrNobody) {
		t.Errorf("still there: %v", err)
	}
	if _, err := r.Session(ctx, bob.Secret); err != nil {
		t.Errorf("somebody else's has ended: %v", err)
	}
	r.clock.Advance(SessionIdle)
	if all, err := r.Sessions(ctx, root, "bob"); err != nil || len(all) != 0 {
		t.Errorf("a session that is over is listed: %+v, %v", all, err)
	}
	if _, err := r.Sessions(ctx, root, "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
	if _, err := r.EndSessions(ctx, root, "nobody", "", false); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
}

func TestTokens(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	k, secret, err := r.AddToken(ctx, root, "ci", Act, time.Hour)
	if err != nil || k.By != "root" || k.Operator != "" {
		t.Fatalf("%+v, %v", k, err)
	}
	who, err := r.Token(ctx, secret)
	if err != nil || who.Name != "token ci" || who.Role != Act || r.Form(who) != "" {
		t.Errorf("%+v, %v", who, err)
	}
	for _, wrong := range []string{"", secret[len(tokenMark):], secret + "x", "weir_", strings.Repeat("weir_", 100)} {
		if _, err := r.Token(ctx, wrong); !errors.Is(err, ErrNobody) {
			t.Errorf("%.30q: %v", wrong, err)
		}
	}
	if _, err := r.Session(ctx, secret); !errors.Is(err, ErrNobody) {
		t.Errorf("a token is no session: %v", err)
	}
	for want, life := range map[error]time.Duration{ErrLife: time.Second, store.ErrExists: time.Hour} {
		if _, _, err := r.AddToken(ctx, root, "ci", View, life); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if _, _, err := r.AddToken(ctx, root, "long", View, MaxTokenLife+1); !errors.Is(err, ErrLife) {
		t.Error(err)
	}
	r.clock.Advance(time.Hour - 1)
	if _, err := r.Token(ctx, secret); err != nil {
		t.Errorf("just in time: %v", err)
	}
	r.clock.Advance(1)
	if _, err := r.Token(ctx, secret); !errors.Is(err, ErrNobody) {
		t.Errorf("it has expired: %v", err)
	}
	if err := r.RevokeToken(ctx, root, "ci"); err != nil {
		t.Error(err)
	}
	if err := r.RevokeToken(ctx, root, "ci"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	_, forever, err := r.AddToken(ctx, root, "forever", View, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(20 * 365 * 24 * time.Hour)
	if _, err := r.Token(ctx, forever); err != nil {
		t.Errorf("forever: %v", err)
	}
	if err := r.RevokeToken(ctx, root, "forever"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Token(ctx, forever); !errors.Is(err, ErrNobody) {
		t.Errorf("revoked: %v", err)
	}
}

// TestTokenIsNoMoreThanItsOperator: a token of somebody who may do less now may do less, too.
func TestTokenIsNoMoreThanItsOperator(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.add("ann", Admin)
	_, secret, err := r.AddToken(ctx, r.in("ann").Identity, "ci", Admin, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.Access().Update(ctx, func(tx store.AccessTx) error {
		o, err := tx.Operator("ann")
		o.Role = string(View)
		return errors.Join(err, tx.PutOperator(o))
	}); err != nil {
		t.Fatal(err)
	}
	if who, err := r.Token(ctx, secret); err != nil || who.Role != View {
		t.Errorf("%+v, %v", who, err)
	}
}

func TestBoundsOfOperatorsAndTokens(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	if err := r.store.Access().Update(ctx, func(tx store.AccessTx) error {
		for i := range MaxOperators - 1 {
			if err := tx.PutOperator(store.Operator{Name: fmt.Sprint("o", i), Role: "view", Made: start,
				Changed: start}); err != nil {
				return err
			}
		}
		for i := range MaxTokens - 1 {
			if err := tx.PutToken(store.Token{Sum: store.Sum{byte(i), byte(i >> 8)}, Name: fmt.Sprint("t", i), Role: "view",
				Made: start}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{nil, ErrTooMany} {
		name := fmt.Sprint("last", want != nil)
		if _, err := r.AddOperator(ctx, root, name, View, password); !errors.Is(err, want) {
			t.Errorf("an operator: %v, want %v", err, want)
		}
		if _, _, err := r.AddToken(ctx, root, name, View, 0); !errors.Is(err, want) {
			t.Errorf("a token: %v, want %v", err, want)
		}
	}
}

func TestMakeFirst(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	full := errors.New("the disk is full")
	if made, err := r.MakeFirst(ctx, func(string, string) error { return full }); made || !errors.Is(err, full) {
		t.Errorf("%t, %v", made, err)
	}
	var name, secret string
	keep := func(n, p string) error { name, secret = n, p; return nil }
	if made, err := r.MakeFirst(ctx, keep); !made || err != nil || name != First || len(secret) < 20 {
		t.Fatalf("%t, %v: %q", made, err, name)
	}
	if in, err := r.logIn(Attempt{Name: name, Password: secret}); err != nil || in.Role != Admin {
		t.Errorf("%+v, %v", in, err)
	}
	if made, err := r.MakeFirst(ctx, keep); made || err != nil {
		t.Errorf("again: %t, %v", made, err)
	}
}

// TestGuessesFromOneSource: the limit is charged before a password is looked at, so that guesses at once get no further
// than one after the other; the right password does not help beyond it.
func TestGuessesFromOneSource(t *testing.T) {
	r := newRig(t)
	r.add("ann", View)
	var mu sync.Mutex
	results := map[error]int{}
	var all sync.WaitGroup
	for i := range 3 * perSource {
		all.Go(func() {
			_, err := r.LogIn(context.Background(), Attempt{Name: fmt.Sprint("x", i), Password: "a guess", Source: source})
			mu.Lock()
			defer mu.Unlock()
			results[err]++
		})
	}
	all.Wait()
	if results[ErrWrong] != perSource || results[ErrWrong]+results[ErrGuessing]+results[ErrBusy] != 3*perSource {
		t.Errorf("%v", results)
	}
	if _, err := r.logIn(Attempt{Name: "ann", Password: password}); !errors.Is(err, ErrGuessing) {
		t.Errorf("the right one, too late: %v", err)
	}
	if _, err := r.logIn(Attempt{Name: "ann", Password: password,
		Source: netip.MustParseAddr("192.0.2.2")}); err != nil {
		t.Errorf("from elsewhere: %v", err)
	}
	r.clock.Advance(12 * time.Minute) // a sliding window is counted in parts
	r.in("ann")
}

// TestOneIPv6NetworkIsOneSource: whoever has a network of /64 has one source, not 2^64.
func TestOneIPv6NetworkIsOneSource(t *testing.T) {
	r := newRig(t)
	for i := range perSource {
		if _, err := r.logIn(Attempt{Name: fmt.Sprint("x", i), Password: "guess",
			Source: netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1))}); !errors.Is(err, ErrWrong) {
			t.Fatal(i, err)
		}
	}
	for from, want := range map[string]error{"2001:db8::ffff": ErrGuessing, "2001:db8:0:1::1": ErrWrong} {
		if _, err := r.logIn(Attempt{Name: "y", Password: "guess", Source: netip.MustParseAddr(from)}); !errors.Is(err,
			want) {
			t.Errorf("%s: %v, want %v", from, err, want)
		}
	}
}

// TestAStrangerLocksNobodyOut: guesses from everywhere end at the limit of the name, for all browsers but those in
// which this operator has logged in before.
func TestAStrangerLocksNobodyOut(t *testing.T) {
	r := newRig(t)
	r.add("ann", View)
	r.add("bob", View)
	known := r.in("ann").Browser
	bobs := r.in("bob").Browser
	for i := range perName {
		r.clock.Advance(2 * time.Second) // there are few a minute
		if _, err := r.logIn(Attempt{Name: "ann", Password: "guess",
			Source: netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})}); !errors.Is(err, ErrWrong) {
			t.Fatal(i, err)
		}
	}
	far := netip.MustParseAddr("203.0.113.9")
	last := "A"
	if strings.HasSuffix(known, last) {
		last = "Q" // which differs in a bit that counts
	}
	for what, a := range map[string]Attempt{"a stranger": {}, "a browser of another operator": {Browser: bobs},
		"a mark that was changed": {Browser: known[:len(known)-1] + last}, "a mark of nobody": {Browser: "a.b"}} {
		a.Name, a.Password, a.Source = "ann", password, far
		if _, err := r.logIn(a); !errors.Is(err, ErrGuessing) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := r.logIn(Attempt{Name: "ann", Password: password, Source: far, Browser: known}); err != nil {
		t.Errorf("her own browser: %v", err)
	}
	// Whoever has stolen the mark has no more guesses than any source.
	for i := range perBrowser {
		if _, err := r.logIn(Attempt{Name: "ann", Password: "guess", Source: far, Browser: known}); !errors.Is(err,
			ErrWrong) {
			t.Fatal(i, err)
		}
	}
	if _, err := r.logIn(Attempt{Name: "ann", Password: password, Source: far, Browser: known}); !errors.Is(err,
		ErrGuessing) {
		t.Errorf("a stolen mark: %v", err)
	}
	r.clock.Advance(deviceLife)
	if r.browserOf(known, "ann") != "" {
		t.Error("a mark that does not end")
	}
}

// TestAFloodOfLogInsIsCheap: strangers together have so many passwords looked at in a minute, and no more.
func TestAFloodOfLogInsIsCheap(t *testing.T) {
	r := newRig(t)
	r.add("ann", View)
	mark := r.in("ann").Browser
	results := map[error]int{}
	for i := range perMinute + 20 {
		_, err := r.logIn(Attempt{Name: fmt.Sprint("x", i), Password: "guess",
			Source: netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})})
		results[err]++
	}
	if results[ErrWrong] != perMinute || results[ErrGuessing] != 20 {
		t.Errorf("%v", results)
	}
	if s := r.passwords.Stats(); s.Wrong != perMinute {
		t.Errorf("%+v", s)
	}
	if _, err := r.logIn(Attempt{Name: "ann", Password: password, Browser: mark}); err != nil {
		t.Errorf("a browser that is known: %v", err)
	}
}

// TestUnknownNamesTakeAsLong: the same work is done for a name that nobody has.
func TestUnknownNamesTakeAsLong(t *testing.T) {
	r := newRig(t)
	r.add("ann", View)
	for i, name := range []string{"ann", "nobody", strings.Repeat("x", 200)} {
		if _, err := r.logIn(Attempt{Name: name, Password: "a guess"}); !errors.Is(err, ErrWrong) {
			t.Errorf("%s: %v", name, err)
		}
		if s := r.passwords.Stats(); s.Wrong != uint64(i+1) || s.Verified != 0 {
			t.Errorf("%.20s: %+v", name, s)
		}
	}
}

func TestVouched(t *testing.T) {
	r := newRig(t)
	r.add("ann", Admin)
	if who, err := r.Vouched(t.Context(), "ann", View); err != nil || who.Role != Admin || who.Operator != "ann" {
		t.Errorf("%+v, %v", who, err)
	}
	who, err := r.Vouched(t.Context(), "Eve@Example.org", View)
	if err != nil || who.Role != View || who.Operator != "" || r.Form(who) == "" {
		t.Errorf("%+v, %v", who, err)
	}
	if other := Proxied("eve", View); r.Genuine(other, r.Form(who)) {
		t.Error("the form of another")
	}
}

func TestSignatures(t *testing.T) {
	r := newRig(t)
	r.add("ann", View)
	who := r.in("ann").Identity
	said := r.Sign(who, "said", "text")
	if !r.Signed(who, "said", "text", said) || r.Signed(who, "said", "texts", said) ||
		r.Signed(who, "other", "text", said) || r.Signed(Anybody(View), "said", "text", said) ||
		r.Signed(Anybody(View), "said", "text", r.Sign(Anybody(View), "said", "text")) {
		t.Error("a signature of something else")
	}
	if !r.GenuineBefore("seed", r.Before("seed")) || r.GenuineBefore("", r.Before("")) ||
		r.GenuineBefore("other", r.Before("seed")) || r.Genuine(Anybody(View), "") || r.Genuine(Local("root"), "") {
		t.Error("a form of something else")
	}
}

func TestAStoreThatFails(t *testing.T) {
	r := newRig(t)
	r.add("ann", Admin)
	in := r.in("ann")
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	_, session := r.Session(t.Context(), in.Secret)
	_, token := r.Token(t.Context(), "weir_x")
	_, logIn := r.logIn(Attempt{Name: "ann", Password: password})
	_, vouched := r.Vouched(t.Context(), "ann", Admin)
	for what, err := range map[string]error{"session": session, "token": token, "login": logIn, "vouched": vouched} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
