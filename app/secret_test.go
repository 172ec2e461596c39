package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"weir/config"
	"weir/farm"
	"weir/identify"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/mail/notice"
	"weir/throttle/stamp"
)

var rotated = [][]string{{"the secret of last year"}, {"the secret of last year", "the secret of this year"},
	{"the secret of this year", "the secret of last year"}, {"the secret of this year"}}

// A mailNode is a weir with a gate for mail and stamps.
type mailNode struct {
	*App
	t      *testing.T
	member farm.Options
	folder string
}

func (n *mailNode) config(secrets []string) *config.Config {
	n.t.Helper()
	cfg, err := config.Parse("weir.yaml", []byte(fmt.Sprintf(`
data: %s
smtp:
- {listen: "127.0.0.1:0", next_hop: "127.0.0.1:25", networks: [192.0.2.0/24],
   throttles: [outgoing], stamps: {work: 4 bits}}
console: {listen: "127.0.0.1:0"}
throttles:
  outgoing: {mail: {}}
`, n.folder)))
	if err != nil {
		n.t.Fatal(err)
	}
	if secrets != nil {
		n.member.Secret = secrets
		member := n.member
		cfg.Farm = &member
	}
	return cfg
}

func newMailNode(t *testing.T, member farm.Options, secrets []string) *mailNode {
	t.Helper()
	n := &mailNode{t: t, member: member, folder: t.TempDir()}
	n.start(secrets)
	return n
}

func (n *mailNode) start(secrets []string) {
	n.t.Helper()
	needs.Wait(n.t, "the address is free", func() bool { // as fold.start does
		a, err := New(n.config(secrets), Options{Clock: clock.NewFake(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))})
		if err != nil {
			n.t.Fatal(err)
		}
		n.App = a
		err = a.Start(context.Background())
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			n.t.Fatal(err)
		}
		return err == nil
	})
	n.t.Cleanup(n.end)
}

func (n *mailNode) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		n.t.Error(err)
	}
}

func (n *mailNode) reload(secrets []string) {
	n.t.Helper()
	if err := n.Reload(n.config(secrets)); err != nil {
		n.t.Fatal(err)
	}
}

// given is what a node gives to mail users, and to Postfix.
type given struct {
	ticket, mark string
	seeds        stamp.MailParams
}

func (n *mailNode) gives() given {
	now := n.opts.Clock.Now()
	return given{n.post.signer.Sign(notice.ForMail, notice.NewNonce(), now.Add(time.Hour)),
		identify.Mark(n.markSecrets()[0], "ann", "queue-id", now.Add(time.Hour)),
		n.current.Load().gates[0].stamps.Params(now)}
}

// honours reports what is wrong with what another node gave.
func (n *mailNode) honours(g given) (wrong []error) {
	now := n.opts.Clock.Now()
	if _, err := n.post.signer.Read(notice.ForMail, g.ticket, now); err != nil {
		wrong = append(wrong, fmt.Errorf("the ticket of a notice: %w", err))
	}
	if _, _, err := identify.ReadMark(g.mark, now, n.markSecrets()...); err != nil {
		wrong = append(wrong, fmt.Errorf("a mark: %w", err))
	}
	binding := stamp.MailBinding{Message: "text", Recipient: "bob@example.org"}
	s, err := stamp.MailStamp(context.Background(), g.seeds, binding, stamp.SolveOptions{})
	if err != nil {
		return append(wrong, err)
	}
	unspent := func(context.Context, stamp.Nonce) (bool, error) { return false, nil }
	issuer := n.current.Load().gates[0].stamps.MailIssuer
	_, errs := issuer.LookEach(context.Background(), now, []string{s}, binding, []string{binding.Recipient}, unspent)
	if errs[0] != nil {
		wrong = append(wrong, fmt.Errorf("a stamp of mail: %w", errs[0]))
	}
	return wrong
}

// TestFarmSecretRotatesForMail: notices, marks and stamps of mail that one node gives are good at the other, while they
// change the secret one after the other. What only a dropped secret signs is not. Hashes in the store stay what they
// were.
func TestFarmSecretRotatesForMail(t *testing.T) {
	t.Parallel()
	var member [2]farm.Options
	for i := range member {
		member[i] = farm.Options{Node: fmt.Sprintf("node-%d", i), Listen: needs.FreeAddress()}
	}
	member[0].Peers, member[1].Peers = []string{member[1].Listen}, []string{member[0].Listen}
	nodes := [2]*mailNode{newMailNode(t, member[0], rotated[0]), newMailNode(t, member[1], rotated[0])}
	hashes := nodes[0].hashKey("recipients of mail")
	first := nodes[0].gives()
	for step, secrets := range rotated {
		for _, n := range nodes {
			n.reload(secrets)
			for i, from := range nodes {
				if wrong := nodes[1-i].honours(from.gives()); wrong != nil {
					t.Fatalf("step %d, of node %d: %v", step, i, wrong)
				}
			}
		}
		if wrong := nodes[1].honours(first); len(wrong) != 0 && step < 3 || len(wrong) != 3 && step == 3 {
			t.Errorf("step %d: what the first one signed: %v", step, wrong)
		}
	}
	if !bytes.Equal(hashes, nodes[0].hashKey("recipients of mail")) {
		t.Error("hashes are made with another key")
	}
}

// TestIntoAFarm: a node that becomes a member honours what it gave when it was alone, and keeps the key of its hashes.
// It is started anew for that: a reload refuses it.
func TestIntoAFarm(t *testing.T) {
	t.Parallel()
	n := newMailNode(t, farm.Options{Node: "one", Listen: needs.FreeAddress(), Peers: []string{"127.0.0.1:1"}}, nil)
	alone, hashes := n.gives(), n.hashKey("recipients of mail")
	n.end()
	n.start(rotated[0])
	if wrong := n.honours(alone); wrong != nil {
		t.Error(wrong)
	}
	member := n.gives()
	if bytes.Equal(n.markSecrets()[0], n.markSecrets()[1]) || member.seeds == alone.seeds {
		t.Error("it signs as if it were alone")
	}
	n.end()
	n.start(rotated[0])
	for _, g := range []given{alone, member} {
		if wrong := n.honours(g); wrong != nil {
			t.Error(wrong)
		}
	}
	if !bytes.Equal(hashes, n.hashKey("recipients of mail")) {
		t.Error("hashes are made with another key")
	}
}

// TestSignedStamps: a secret of their own goes first; in a farm the farm's follow from each of its secrets, and are
// different for each throttle. Alone, nothing is added to a secret of their own.
func TestSignedStamps(t *testing.T) {
	t.Parallel()
	a := &App{secret: bytes.Repeat([]byte{1}, 32)}
	b := &App{secret: bytes.Repeat([]byte{2}, 32)}
	sign := func(a *App, name string, own stamp.Options, secrets ...string) [2]string {
		c := &config.Config{Throttles: map[string]config.Throttle{name: {Stamp: &own}}}
		if secrets != nil {
			c.Farm = &farm.Options{Secret: secrets}
		}
		o := a.signed(c, name).Stamp
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
		return [2]string{o.Secret, o.OldSecret}
	}
	first, second := rotated[0][0], rotated[3][0]
	alone := sign(a, "x", stamp.Options{})
	both := sign(a, "x", stamp.Options{}, first, second)
	own := stamp.Options{Secret: second, OldSecret: first}
	for what, ok := range map[string]bool{
		"alone, they differ":             alone != sign(b, "x", stamp.Options{}) && alone[0] != "" && alone[1] == "",
		"in a farm, they agree":          both == sign(b, "x", stamp.Options{}, first, second),
		"turned round":                   sign(b, "x", stamp.Options{}, second, first) == [2]string{both[1], both[0]},
		"one secret":                     sign(b, "x", stamp.Options{}, second)[0] == both[1],
		"its own from before":            sign(a, "x", stamp.Options{}, first) == [2]string{both[0], alone[0]},
		"another throttle":               sign(a, "y", stamp.Options{}, first, second)[0] != both[0],
		"of their own, alone":            sign(a, "x", stamp.Options{Secret: first}) == [2]string{first, ""},
		"of their own, in a farm":        sign(a, "x", stamp.Options{Secret: second}, first)[0] == second,
		"the farm's beside it":           sign(a, "x", stamp.Options{Secret: second}, first)[1] == both[0],
		"of their own, with an old one":  sign(a, "x", own, first) == [2]string{second, first},
		"the farm's secret is not shown": both[0] != first && both[1] != second,
	} {
		if !ok {
			t.Error(what)
		}
	}
}
