package spool

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weir/store"
	"weir/throttle/outbreak"
)

func (r *rig) disable(name string, disabled bool) {
	r.Helper()
	r.must(r.ChangeUser(r.Context(), r.now(), "op", name, func(u *store.User, _ bool) error {
		u.Disabled = disabled
		return nil
	}))
	r.idle()
}

// TestDisabled: nothing of a disabled user goes on by itself, and what is held then stays held when they are enabled.
func TestDisabled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, to := range recipients("r", 4) {
		r.sent(ann, to)
	}
	r.idle()
	told := len(r.carrier.to(contact))
	r.disable(ann, true)
	r.wantStates(map[store.State]int{store.Held: 3})
	if log := r.audit("stopped"); len(log) != 1 || log[0].By != "op" || log[0].Text != "disabled" {
		t.Errorf("audit log %+v", log)
	}
	r.pass(time.Hour)
	r.wantDelivered(1)
	if _, err := r.send(ann, "x@example.net"); !errors.Is(err, ErrStopped) {
		t.Errorf("his mail: %v", err)
	}
	if v, err := r.Decide(t.Context(), r.now(), gateName, ann, "a", []string{"x@example.net"}, false,
		false); err != nil || !v.Refused {
		t.Errorf("a decision: %+v, %v", v, err)
	}
	if err := r.ResumeUser(t.Context(), r.now(), "op", ann, false); !errors.Is(err, ErrDisabled) {
		t.Errorf("resumed: %v", err)
	}
	r.must(r.limits(ann, `{"exempt":true}`))
	r.idle()
	r.wantDelivered(1)
	r.must(r.limits(ann, ""))
	r.again("second")
	r.disable(ann, false)
	r.wantStates(map[store.State]int{store.Held: 3})
	r.wantDelivered(1)
	if r.Stopped(gateName, ann) {
		t.Error("still stopped")
	}
	r.pass(time.Hour)
	r.wantDelivered(1)
	r.sent(ann, "x@example.net")
	if len(r.carrier.to(contact)) != told || len(r.carrier.to(admin)) != 0 {
		t.Error("somebody was told")
	}
}

// TestDisabledWhileStopped: a user who was stopped before being disabled, or meanwhile, stays so.
func TestDisabledWhileStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.Mail.Resume = 24 * 3600e9 })
	r.sent(ann, recipients("r", 40)...)
	r.idle()
	_, page := r.tickets()
	r.disable(ann, true)
	done, err := r.Act(t.Context(), r.now(), page, "form", Action{Resume: true})
	if r.must(err); !done.Refused || done.Resumed {
		t.Errorf("by himself: %+v", done)
	}
	r.pass(48 * time.Hour)
	r.wantStates(map[store.State]int{store.Held: 25})
	r.disable(ann, false)
	if r.Stopped(gateName, ann) { // it is time, long since
		t.Error("not tried again")
	}
	r.wantStates(map[store.State]int{store.Held: 25})
	r.disable(ann, true)
	r.must(r.StopUser(t.Context(), r.now(), "op", ann, "stolen"))
	r.disable(ann, false)
	if !r.Stopped(gateName, ann) {
		t.Error("what an operator did is undone")
	}
	if log := r.audit("stopped"); log[len(log)-1].Text != "stolen" {
		t.Errorf("audit log %+v", log)
	}
	r.wantStates(map[store.State]int{store.Held: 25})

	// A user that no throttle knows yet.
	r.user(store.User{Name: "bob", Disabled: true})
	if _, err := r.send("bob", "x@example.net"); !errors.Is(err, ErrStopped) || !r.Stopped(gateName, "bob") {
		t.Errorf("bob: %v", err)
	}
}

// TestExemptIsLogged: who is exempt from now on may send again, what is delayed goes on, what is held stays so, and the
// log says why.
func TestExemptIsLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.user(store.User{Name: "bob"})
	r.sent(ann, recipients("r", 40)...)
	r.sent("bob", recipients("r", 30)...)
	r.idle()
	for _, user := range []string{ann, "bob"} {
		r.must(r.limits(user, `{"exempt":true}`))
	}
	r.idle()
	r.wantDelivered(15 + 30)
	r.wantHeld(25)
	released, resumed := r.audit("released"), r.audit("resumed")
	if len(released) != 1 || released[0].User != "bob" || released[0].Text != "exempt: 15 recipients" ||
		len(resumed) != 1 || resumed[0].Text != "exempt" || resumed[0].User != ann {
		t.Errorf("audit log %+v, %+v", released, resumed)
	}
}

// TestLostThrottle: users who were stopped by a throttle that is gone are told of, and nothing of theirs is stuck.
func TestLostThrottle(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	rename := func(t *testing.T) *rig {
		r := newRig(t, func(r *rig) { r.opts.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		r.user(store.User{Name: "bob"})
		for _, user := range []string{ann, "bob"} {
			r.sent(user, recipients("r", 40)...)
		}
		r.idle()
		log.Reset()
		r.gate.Throttle = "renamed"
		r.must(r.Configure([]Gate{r.gate}))
		r.run()
		if text := log.String(); strings.Count(text, "throttle that is gone") != 1 ||
			!strings.Contains(text, "throttle=outgoing") || !strings.Contains(text, "users=2") {
			t.Errorf("the log says %s", text)
		}
		r.wantStates(map[store.State]int{store.Held: 50})
		r.sent(ann, "other@example.net")
		r.idle()
		r.wantDelivered(31)
		standing, err := r.Standing(t.Context(), r.now(), ann)
		if r.must(err); len(standing) != 2 || standing[0].Stopped || standing[1].Throttle != "outgoing" ||
			!standing[1].Stopped || standing[1].Waiting != 25 {
			t.Errorf("standing %+v", standing)
		}
		return r
	}
	t.Run("resume", func(t *testing.T) {
		r := rename(t)
		r.must(r.ResumeUser(t.Context(), r.now(), "op", ann, false))
		r.idle()
		r.wantDelivered(31)
		r.wantHeld(50)
		if log := r.audit("resumed"); len(log) != 1 || log[0].By != "op" ||
			log[0].Text != "the throttle outgoing is gone" {
			t.Errorf("audit log %+v", log)
		}
		if r.CountStopped() != 1 {
			t.Errorf("stopped: %v", r.StoppedUsers("", 10))
		}
		log.Reset()
		r.again("second")
		if text := log.String(); !strings.Contains(text, "users=1") {
			t.Errorf("after a restart the log says %s", text)
		}
	})
	t.Run("release", func(t *testing.T) {
		r := rename(t)
		if n, err := r.Release(t.Context(), r.now(), "op", ann, Selection{All: true}); n != 25 || err != nil {
			t.Errorf("released %d, %v", n, err)
		}
		r.idle()
		r.wantDelivered(56)
		if standing, err := r.Standing(t.Context(), r.now(), ann); err != nil || standing[1].Waiting != 0 {
			t.Errorf("standing %+v, %v", standing, err)
		}
	})
	t.Run("remove", func(t *testing.T) {
		r := rename(t)
		r.must(r.RemoveUser(t.Context(), r.now(), "op", ann))
		if r.CountStopped() != 1 {
			t.Errorf("stopped: %v", r.StoppedUsers("", 10))
		}
		r.wantHeld(50)
	})
	t.Run("back", func(t *testing.T) {
		r := rename(t)
		r.gate.Throttle = "outgoing"
		r.must(r.Configure([]Gate{r.gate}))
		r.run()
		if _, err := r.send(ann, "x@example.net"); !errors.Is(err, ErrStopped) {
			t.Errorf("his mail: %v", err)
		}
	})
	t.Run("disabled", func(t *testing.T) {
		r := newRig(t)
		r.sent(ann, "a@example.net")
		r.sent(ann, "b@example.net")
		r.idle()
		r.disable(ann, true)
		r.gate.Throttle = "renamed"
		r.must(r.Configure([]Gate{r.gate}))
		r.pass(2 * time.Hour)
		r.wantHeld(1)
		failing := &flaky{Mail: r.store.Mail()}
		r.Spool.store = failing
		r.eachCallFails(failing, "enable", func() error {
			return r.ChangeUser(t.Context(), r.now(), "op", ann, func(u *store.User, _ bool) error {
				u.Disabled = false
				return nil
			})
		})
		r.wantDelivered(1)
		r.wantHeld(1)
	})
}

// TestRemoveUserOfLostThrottle: what waits for a throttle that is gone is held, and not forgotten.
func TestRemoveUserOfLostThrottle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, "a@example.net")
	r.sent(ann, "b@example.net")
	r.idle()
	r.gate.Throttle = "renamed"
	r.must(r.Configure([]Gate{r.gate}))
	r.must(r.RemoveUser(t.Context(), r.now(), "op", ann))
	r.pass(time.Hour)
	r.wantStates(map[store.State]int{store.Held: 1})
}

// TestOrphans: what is delayed and in no delay queue is held, and nothing else.
func TestOrphans(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	for _, user := range []string{ann, "bob"} {
		r.sent(user, "a@example.net")
		r.sent(user, "b@example.net", "B@example.net")
		r.sent(user, recipients("r", 17)...)
	}
	r.idle()
	r.wantStates(map[store.State]int{store.Delayed: 8})
	orphan, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org"}, "o@example.net", "p@internal.example")
	r.must(err)
	r.idle()
	r.must(r.update(t.Context(), func(tx store.MailTx) error { // bob is forgotten, and of ann one mail
		if err := tx.Remember(store.Memory{Throttle: "outgoing", User: "bob"}); err != nil {
			return err
		}
		g := r.gates.Load().throttle("outgoing")
		user, err := r.openUser(tx, r.now(), g, ann)
		if err != nil {
			return err
		}
		user.mem.state.Take(func(it outbreak.Item) bool { return it.Mail == uint64(orphan) })
		return user.end(news{})
	}))
	r.must(r.sweepDelayed(t.Context(), r.now()))
	r.wantStates(map[store.State]int{store.Delayed: 4, store.Held: 5})
	if log := r.audit("held"); len(log) != 3 || log[0].By != weirItself || log[0].User != "bob" ||
		log[2].Mail != orphan {
		t.Errorf("audit log %+v", log)
	}
	r.must(r.sweepDelayed(t.Context(), r.now()))
	if len(r.audit("held")) != 3 {
		t.Error("held twice")
	}
	if n, err := r.Release(t.Context(), r.now(), "op", "bob", Selection{All: true}); n != 4 || err != nil {
		t.Errorf("released %d, %v", n, err)
	}
	// It happens by itself.
	r.must(r.update(t.Context(),
		func(tx store.MailTx) error { return tx.Remember(store.Memory{Throttle: "outgoing", User: ann}) }))
	r.pass(2 * keepEvery)
	r.wantStates(map[store.State]int{store.Held: 5})
}
