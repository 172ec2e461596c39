package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/store"
)

var stampNumber atomic.Uint64

// freshStamp is a stamp that nobody has used, good for two hours from the start.
func freshStamp() Stamp {
	k := Stamp{Until: start.Add(2 * time.Hour)}
	binary.BigEndian.PutUint64(k.Nonce[:], stampNumber.Add(1))
	return k
}

// stamped accepts a mail with a stamp.
func (r *rig) stamped(to string, k Stamp) (Receipt, error) {
	r.Helper()
	_, receipt, err := r.mail(&Envelope{User: ann, Sender: "a", To: []To{{Address: to, Stamp: k}}})
	return receipt, err
}

// wantSpent wants a stamp to be spent, or not.
func (r *rig) wantSpent(k Stamp, want bool) {
	r.Helper()
	if spent, err := r.Spent(r.Context(), k.Nonce); err != nil || spent != want {
		r.Errorf("spent: %t, %v, want %t", spent, err, want)
	}
}

// TestAStampIsSpentWithItsMail: a mail that is taken spends its stamp, through the end of the process, and one that is
// not leaves it good.
func TestAStampIsSpentWithItsMail(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, "first@example.net") // the slack
	k := freshStamp()
	broken := &breakable{Mail: r.store.Mail()}
	r.Spool.store = broken
	broken.fails.Store(true)
	if _, err := r.stamped("a@example.net", k); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	broken.fails.Store(false)
	r.again("second") // killed before it was taken
	r.wantSpent(k, false)
	r.must(r.StopUser(t.Context(), r.now(), "op", ann, "why not"))
	// in the transaction, after the stamp was spent
	if _, err := r.stamped("a@example.net", k); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	r.wantSpent(k, false)
	r.must(r.ResumeUser(t.Context(), r.now(), "op", ann, false))
	if receipt, err := r.stamped("a@example.net", k); err != nil || receipt.Paid != 1 || receipt.Passed != 1 {
		t.Fatalf("%+v, %v", receipt, err)
	}
	r.again("third") // killed after it was taken
	r.wantSpent(k, true)
	if receipt, err := r.stamped("b@example.net", k); err != nil || receipt.Paid != 0 || receipt.Delayed != 1 {
		t.Errorf("as without one: %+v, %v", receipt, err)
	}
}

// TestOneStampManyMails: of many mails with one stamp that come at once exactly one is paid for.
func TestOneStampManyMails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	k := freshStamp()
	var paid atomic.Int64
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			text := r.Stage()
			fmt.Fprint(text, "Subject: x\r\n\r\nHello.\r\n")
			receipt, err := r.Accept(t.Context(), r.now(),
				&Envelope{ID: r.NewID(r.now()), Gate: gateName, User: fmt.Sprint("user", i), Sender: "a",
					To: []To{{Address: "a@example.net", Stamp: k}}}, text)
			if err != nil {
				t.Error(err)
			}
			paid.Add(int64(receipt.Paid))
		})
	}
	wg.Wait()
	if n := paid.Load(); n != 1 {
		t.Errorf("one stamp has paid for %d", n)
	}
}

// TestUnpaid: who is not paid for after all waits, in the pool while there is load, or has the mail refused where a
// stamp is required.
func TestUnpaid(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.Mail = nil })
	spent, good := freshStamp(), freshStamp()
	if receipt, err := r.stamped("a@example.net", spent); err != nil || receipt.Paid != 1 {
		t.Fatal(receipt, err)
	}
	mixed := func(required bool) []To {
		return []To{{Address: "a@example.net", Stamp: good, Pooled: true, Required: required},
			{Address: "A@example.net", Stamp: good, Pooled: true, Required: required},
			{Address: "b@example.net", Stamp: spent, Pooled: true, Required: required}, {Address: "free@example.net"}}
	}
	if _, _, err := r.mail(&Envelope{User: ann, Sender: "a", To: mixed(true)}); !errors.Is(err, ErrUnpaid) {
		t.Errorf("required: %v", err)
	}
	r.wantSpent(good, false) // the mail was not taken
	if _, receipt, err := r.mail(&Envelope{User: ann, Sender: "a", To: mixed(false)}); err != nil ||
		receipt.Paid != 2 || receipt.Passed != 3 || receipt.Pooled != 1 {
		t.Errorf("%+v, %v", receipt, err)
	}
	if _, _,
		err := r.mail(&Envelope{User: ann, Sender: "a",
		To: []To{{Address: "c@example.net", Required: true}}}); !errors.Is(err, ErrUnpaid) {
		t.Errorf("none at all: %v", err)
	}
}

// TestStampsBound: one stamp more than can be remembered pays for nobody, until others are over; those are forgotten by
// themselves, too.
func TestStampsBound(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Stamps = 2 })
	kept := func() int {
		r.Helper()
		n := 0
		for {
			err := r.store.Mail().Update(t.Context(),
				func(tx store.MailTx) error { _, err := tx.Spend(freshStamp(), n); return errors.Join(err, errBroken) })
			if !errors.Is(err, store.ErrCrowded) {
				return n - 1
			}
			n++
		}
	}
	for range 2 {
		if receipt, err := r.stamped("a@example.net", freshStamp()); err != nil || receipt.Paid != 1 {
			t.Fatal(receipt, err)
		}
	}
	third := freshStamp()
	if receipt, err := r.stamped("a@example.net", third); err != nil || receipt.Paid != 0 ||
		r.seen.bound(BoundStamps) != 1 {
		t.Errorf("%+v, %v, %v", receipt, err, r.seen.bounds)
	}
	if _, _,
		err := r.mail(&Envelope{User: ann, Sender: "a",
		To: []To{{Address: "a@example.net", Stamp: third, Required: true}}}); !errors.Is(err, store.ErrCrowded) {
		t.Errorf("required: %v", err)
	}
	// over, but not for so long that a clock set back could not make them good again
	r.clock.Leap(3*time.Hour - time.Second)
	later := third
	later.Until = r.now().Add(time.Hour)
	if receipt, err := r.stamped("a@example.net", later); err != nil || receipt.Paid != 0 {
		t.Errorf("%+v, %v", receipt, err)
	}
	r.clock.Leap(time.Second)
	if receipt, err := r.stamped("a@example.net", later); err != nil || receipt.Paid != 1 || kept() != 1 {
		t.Errorf("%+v, %v; %d are kept", receipt, err, kept())
	}
	r.clock.Leap(2 * time.Hour)
	r.run()
	r.wantSpent(later, false)
	if n := kept(); n != 0 {
		t.Errorf("%d are kept", n)
	}
	if _, err := New(Options{Store: r.store.Mail(), Secret: secret, Signer: r.signer,
		Stamps: MaxStamps + 1}); err == nil {
		t.Error("more than can be kept")
	}
}
