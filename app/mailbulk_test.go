package app_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/console"
	"weir/store"
)

// TestMailInBulk: of the held mail of a stopped user, the operator deletes the spam by its subject and releases one
// message by its recipient. What was released arrives, what was deleted does not, and the way of both is known.
func TestMailInBulk(t *testing.T) {
	t.Parallel()
	p := newPost(t, "", "", "")
	p.stopped()
	page, err := console.QueueListCall.Ask(t.Context(), p.control, console.MailQuery{
		MailFilter: console.MailFilter{Subject: "CHEAP", State: store.Held}, Limit: 1000})
	if err != nil || len(page.Mails) < 10 {
		t.Fatalf("%d held, %v", len(page.Mails), err)
	}
	spam := len(page.Mails)
	first := page.Mails[0]
	o := console.BulkOrder{Act: "delete", Dry: true,
		MailFilter: console.MailFilter{Subject: "cheap watches", Sender: "ann@", State: store.Held}}
	if r, err := p.control.Bulk(t.Context(), o, nil); err != nil || r.Mails != spam {
		t.Errorf("a rehearsal finds %+v, %v", r, err)
	}
	o.Dry, o.Older = false, weir.Duration(time.Hour)
	if r, err := p.control.Bulk(t.Context(), o, nil); err != nil || r.Mails != 0 {
		t.Errorf("older than an hour are %+v, %v", r, err)
	}
	// One of them was no spam.
	keep := first.To[0].Address
	r, err := p.control.Bulk(t.Context(), console.BulkOrder{Act: "release",
		MailFilter: console.MailFilter{Recipient: keep}}, nil)
	if err != nil || r.Mails != 1 {
		t.Errorf("released %+v, %v", r, err)
	}
	o.Older = 0
	if r, err := p.control.Bulk(t.Context(), o, nil); err != nil || r.Mails != spam-1 {
		t.Errorf("deleted %+v, %v, want %d", r, err, spam-1)
	}
	p.runs(0)
	if len(p.sink.to(keep)) != 1 {
		t.Errorf("%s got %d messages, want the one that was released", keep, len(p.sink.to(keep)))
	}
	for _, m := range page.Mails[1:] {
		if to := m.To[0].Address; len(p.sink.to(to)) != 0 {
			t.Errorf("%s got what was deleted", to)
		}
	}
	steps := func(way console.Track) (all []string) {
		for _, a := range way.Attempts {
			all = append(all, a.Result)
		}
		return all
	}
	way, err := console.MailTrackCall.Ask(t.Context(), p.control, console.TrackQuery{ID: first.ID})
	if err != nil || len(way.Mails) != 0 ||
		!slices.Equal(steps(way), []string{"delivered", "released", "held", "accepted"}) || len(way.Acts) == 0 || way.Acts[0].What != "released" {
		t.Errorf("the way of what was released: %+v, %v", way, err)
	}
	way, err = console.MailTrackCall.Ask(t.Context(), p.control, console.TrackQuery{ID: page.Mails[1].ID})
	if err != nil || !slices.Equal(steps(way), []string{"deleted", "held", "accepted"}) || len(way.Acts) == 0 ||
		way.Acts[0].What != "deleted" {
		t.Errorf("the way of what was deleted: %+v, %v", way, err)
	}
	if _, err := console.MailTrackCall.Ask(t.Context(), p.control, console.TrackQuery{Recipient: "nobody@elsewhere.example"}); err == nil ||
		!strings.Contains(err.Error(), "nothing is known of it") {
		t.Errorf("the way of nothing: %v", err)
	}
}
