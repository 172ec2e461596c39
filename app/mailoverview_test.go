package app_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"weir/console"
)

func (p *post) overview() console.Overview {
	p.t.Helper()
	o, err := console.OverviewGetCall.Ask(context.Background(), p.control, console.OverviewQuery{})
	if err != nil {
		p.t.Fatal(err)
	}
	return o
}

// TestOverviewOfMail: recipients that pass, wait and are refused, and the user whose they are. The audit log says what
// happened to the user.
func TestOverviewOfMail(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann")
	p.user("bob")
	m, other := p.mailer("ann"), p.mailer("ann")
	if err := p.mailer("bob").send("hello", "friend@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	if err := m.send("to all of you", many(40)...); err != nil { // 15 pass, 25 are held, and ann is stopped
		t.Fatal(err)
	}
	for range 2 {
		if err := other.send("again", "one@elsewhere.example"); code(err) != 550 {
			t.Fatal(err)
		}
		if err := other.Reset(); err != nil {
			t.Fatal(err)
		}
	}
	p.clock.Advance(time.Second)
	o := p.overview()
	g := o.Gates[0]
	if g.Unit != "recipients" || g.Last(console.Admitted) != 16 || g.Last(console.Delayed) != 25 ||
		g.Last(console.Refused) != 2 {
		t.Errorf("%+v", g.Columns)
	}
	outgoing := o.Throttles[1]
	if outgoing.Name != "outgoing" {
		outgoing = o.Throttles[0]
	}
	if outgoing.Last(console.Refused) != 2 || outgoing.Last(console.Delayed) != 25 || outgoing.Unit != "recipients" ||
		len(outgoing.Held) != 1 || outgoing.Held[0].Name != "ann" || outgoing.Held[0].Kind != "user" ||
		outgoing.Held[0].Total != 27 {
		t.Errorf("%+v %+v", outgoing.Columns, outgoing.Held)
	}
	if len(o.Refusals) != 2 || o.Refusals[0].Name != "ann" || o.Refusals[0].Rule != "stop" ||
		o.Refusals[0].Gate != "127.0.0.1:0" {
		t.Errorf("%+v", o.Refusals)
	}
	p.wait(func() bool { // where the audit log takes its time, it is left out
		var all []string
		for _, c := range p.overview().Changes {
			all = append(all, c.What+" "+c.On)
		}
		text := strings.Join(all, ", ")
		return strings.Contains(text, "stopped ann") && strings.Contains(text, "started")
	})
}

// TestOverviewOfMailInShadow: what the mail throttle would have held.
func TestOverviewOfMailInShadow(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann")
	if _, err := console.ShadowCall.Ask(context.Background(), p.control, console.Shadow{All: true,
		On: true}); err != nil {
		t.Fatal(err)
	}
	if err := p.mailer("ann").send("to all of you", many(40)...); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(time.Second)
	for _, h := range p.overview().Throttles {
		if n, of := h.Hour.WouldRefuse(); h.Name == "outgoing" &&
			(n != 25 || of != 40 || len(h.Would) != 1 || h.Would[0].Name != "ann" || h.Would[0].Total != 25) {
			t.Errorf("%v of %v, %+v", n, of, h.Would)
		}
	}
}
