package spool

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"weir/mail/nexthop"
	"weir/store"
	"weir/store/sqlite"
)

// A mail that another run has taken over meanwhile is not sent, and what that one has stored about it stays.
func TestClaimedByAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state store.State
		owner string
	}{"handed over": {store.Ready, "another"}, "free again": {store.Ready, ""}, "sending": {store.Sending, "another"},
		"held":                        {store.Held, ""},
		"sending by another delivery": {store.Sending, "this run"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(r *rig) { r.opts.Owner = "this run" })
			take := func(_ context.Context, j *nexthop.Job) {
				id, err := store.ParseMailID(j.ID)
				r.must(err)
				r.must(r.update(t.Context(), func(tx store.MailTx) error {
					all, err := tx.Addressees(id)
					if err != nil {
						return err
					}
					all[0].State, all[0].Owner, all[0].Due, all[0].Status = c.state, c.owner, r.now().Add(time.Hour),
						"taken"
					return tx.PutAddressees(all[0])
				}))
			}
			untouched := func(id store.MailID, attempts int) {
				t.Helper()
				q, err := r.Show(t.Context(), id)
				r.must(err)
				if a := q.To[0]; a.State != c.state || a.Owner != c.owner || a.Attempt != attempts ||
					a.Status != "taken" || !a.Due.Equal(r.now().Add(time.Hour)) {
					t.Errorf("%+v", a)
				}
			}
			r.carrier.set(func(c *carrier) { c.before = take })
			sent := func(to string) store.MailID {
				id, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org"}, to)
				r.must(err)
				return id
			}
			id := sent("a@internal.example")
			r.idle()
			r.wantDelivered(0)
			untouched(id, 0)

			if c.owner == r.opts.Owner {
				return
			}
			// Nor does the end of a delivery change what another has taken over since, whatever it was.
			r.carrier.set(func(c *carrier) {
				c.before, c.after = nil, take
				c.answer = func(j *nexthop.Job, to nexthop.Recipient) nexthop.Result {
					return nexthop.Result{Outcome: nexthop.Ambiguous, Status: "4.4.2", Text: "no answer"}
				}
			})
			id = sent("b@internal.example")
			r.idle()
			untouched(id, 1)
		})
	}
}

// A mail whose text is in a file comes back without its row: the file knows the recipients. Notifications do, too.
func TestEnvelopeIsInTheFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.carrier.set(func(c *carrier) {
		c.answer = func(_ *nexthop.Job, to nexthop.Recipient) nexthop.Result {
			if to.Address == "no@internal.example" {
				return nexthop.Result{Outcome: nexthop.Failed, Code: 550, Status: "5.1.1", Text: "no"}
			}
			return nexthop.Result{Outcome: nexthop.Later, Code: 450, Status: "4.2.0", Text: "later"}
		}
	})
	r.user(store.User{Name: ann, Senders: []string{"ann@example.org"}})
	text := r.Stage()
	_, err := text.Write(slices.Repeat([]byte("0123456789abcd\r\n"), 8<<10))
	r.must(err)
	sent := &Envelope{ID: r.NewID(r.now()), Gate: gateName, User: ann, Sender: "ann@example.org", Subject: "news",
		Return: "FULL", EightBit: true, Envelope: "id",
		To: []To{{Address: "a@internal.example", Notify: "FAILURE"},
			{Address: "b@internal.example", Original: "rfc822;bob@example.org"}, {Address: "no@internal.example"}}}
	_, err = r.Accept(t.Context(), r.now(), sent, text)
	r.must(err)
	r.idle()
	r.must(r.Stop(t.Context()))
	r.must(r.store.Close())
	r.must(os.Remove(filepath.Join(r.folder, sqlite.File)))
	done, err := sqlite.Salvage(t.Context(), r.folder, r.now(), nil)
	r.must(err)
	if done.Held != 2 {
		t.Errorf("%+v", done)
	}
	r.open()
	q, err := r.Show(t.Context(), sent.ID)
	r.must(err)
	want := sent.message(start)
	want.Size, want.Filed = text.Size(), q.Filed
	if q.Message != want || len(q.To) != 3 || q.To[0].Notify != "FAILURE" ||
		q.To[1].Original != "rfc822;bob@example.org" || q.To[2].Address != "no@internal.example" {
		t.Errorf("%+v,\nwant %+v", q, want)
	}
	r.wantStates(map[store.State]int{store.Held: 4})
}
