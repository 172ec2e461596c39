package console

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"weir"
	"weir/store"
)

func (m *mailed) Find(_ context.Context, f MailFilter, after store.MailID, limit int) ([]store.Queued, store.MailID,
	error,
) {
	m.filter, m.limit = f, limit
	return m.queue[:min(limit, len(m.queue))], after + 1, m.err
}

func (m *mailed) Bulk(_ context.Context, by string, f MailFilter, o BulkOrder) (BulkResult, error) {
	m.filter, m.bulk = f, append(m.bulk, o)
	r := BulkResult{Mails: 2, Recipients: 3, UpTo: 99}
	if len(m.bulk) < 3 {
		r.Next = store.MailID(10 * len(m.bulk))
	}
	return r, m.note(o.Act, by)
}

func (m *mailed) Track(_ context.Context, q TrackQuery, _ int) ([]store.Queued, []MailStep, error) {
	m.tracked = q
	return m.queue, []MailStep{{At: time.Unix(1e9, 0).UTC(), Address: "a@example.net", Result: "delivered"}}, m.err
}

// bulkState is what the test's weir is asked about many messages.
type bulkState struct {
	filter  MailFilter
	bulk    []BulkOrder
	tracked TrackQuery
}

func TestBulkOverTheSocket(t *testing.T) {
	m := &mailed{backend: newBackend()}
	path := socketPath(t)
	control(t, path, m)
	client := NewClient(path)
	o := BulkOrder{Act: "delete", MailFilter: MailFilter{Sender: "<>", Domain: ".example.com", Subject: "a b&c=d",
		State: store.Held, Older: weir.Duration(time.Hour), Larger: 1000}}
	told := 0
	r, err := client.Bulk(t.Context(), o, func(so BulkResult) { told += so.Mails })
	if err != nil || r.Mails != 6 || r.Recipients != 9 || told != 2+4 || m.by == "" || m.filter != o.MailFilter {
		t.Errorf("%+v, told %d, %v", r, told, err)
	}
	if got := fmt.Sprint(m.bulk[0].After, m.bulk[1].After, m.bulk[1].UpTo, m.bulk[2].After, m.bulk[2].UpTo); got !=
		fmt.Sprint(store.MailID(0), store.MailID(10), store.MailID(99), store.MailID(20), store.MailID(99)) {
		t.Errorf("the parts: %s", got)
	}
	for _, bad := range []BulkOrder{{Act: "delete"}, {Act: "release"}, {Act: "eat", MailFilter: MailFilter{User: "ann"}},
		{MailFilter: MailFilter{User: "ann"}}, {Act: "delete", MailFilter: MailFilter{User: "a\nb"}},
		{Act: "delete", MailFilter: MailFilter{Older: 2, Newer: 1}},
		{Act: "delete", MailFilter: MailFilter{Larger: 2, Smaller: 2}},
		{Act: "delete", MailFilter: MailFilter{Older: -1}}} {
		if _, err := client.Bulk(t.Context(), bad, nil); code(err) != http.StatusBadRequest {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	m.bulk = nil
	if _, err := client.Bulk(t.Context(), BulkOrder{Act: "retry"}, nil); err != nil { // harmless without a filter
		t.Error(err)
	}
	m.err = Rejected("full")
	if _, err := client.Bulk(t.Context(), o, nil); code(err) != http.StatusConflict {
		t.Error(err)
	}
	m.err = nil

	q := MailQuery{MailFilter: MailFilter{Recipient: "bob@", Smaller: 5000}, Limit: 7}
	page, err := QueueListCall.Ask(t.Context(), client, q)
	if err != nil || m.filter != q.MailFilter || m.limit != 7 || page.Next != 1 {
		t.Errorf("%+v of %+v, %v", page, m.filter, err)
	}
	q = MailQuery{MailFilter: MailFilter{Sender: "a\nb"}}
	if _, err := QueueListCall.Ask(t.Context(), client, q); code(err) != http.StatusBadRequest {
		t.Error(err)
	}
	if got, err := MailTrackCall.Ask(t.Context(), client, TrackQuery{Recipient: "bob@example.net"}); err != nil ||
		m.tracked.Recipient != "bob@example.net" || len(got.Attempts) != 1 || got.Attempts[0].Result != "delivered" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []TrackQuery{{}, {ID: 1, Recipient: "a"}, {Recipient: "a\nb"}} {
		if _, err := MailTrackCall.Ask(t.Context(), client, bad); code(err) != http.StatusBadRequest {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
