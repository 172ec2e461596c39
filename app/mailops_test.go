package app_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"weir/console"
	"weir/store"
)

// TestUsersAreChecked: what would never work is refused when it is written.
func TestUsersAreChecked(t *testing.T) {
	t.Parallel()
	p := newPost(t, "stop: 20", "", "")
	ctx := context.Background()
	p.user("ann", "ann@example.org", "@example.net")
	for _, c := range []struct{ contact, sender, want string }{
		{"weir@mail.example.org", "", "is where commands go"},
		{"Weir+x@MAIL.example.org", "", "is where commands go"},
		{"bob", "", "is not a mail address"},
		{"", "bob", "@example.org for every address there"},
		{"", "example.org", "is not a mail address"},
		{"", "@", "is not a mail address"},
		{"", "@two@example.org", "is not a mail address"},
		{"", "*@", "is not a mail address"},
		{"", "Bob <bob@example.org>", "is not a mail address"},
	} {
		contact, senders := c.contact, []string{}
		if contact == "" {
			contact = "bob@private.example"
		}
		if c.sender != "" {
			senders = append(senders, "bob@example.org", c.sender)
		}
		_, added := console.UserAddCall.Ask(ctx, p.control, console.NewUser{Name: "bob", Contact: contact,
			Senders: senders})
		_, set := console.UserSetCall.Ask(ctx, p.control, console.UserChange{Name: "ann", Contact: &contact,
			Senders: &senders})
		_, more := console.UserSetCall.Ask(ctx, p.control, console.UserChange{Name: "ann", Contact: &contact,
			AddSenders: senders})
		for _, err := range []error{added, set, more} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
	if u, err := console.UserShowCall.Ask(ctx, p.control, console.Name{Name: "ann"}); err != nil ||
		u.Contact != "ann@private.example" || len(u.Senders) != 2 {
		t.Errorf("ann is %+v, %v", u, err)
	}
	if _, err := console.UserSetCall.Ask(ctx, p.control, console.UserChange{Name: "ann", RemoveSenders: []string{"ann@example.org"},
		AddSenders: []string{"ann@example.com"}}); err != nil {
		t.Error(err)
	}
}

// TestDisabledAndRemoved: nothing of a user leaves who is disabled, or gone.
func TestDisabledAndRemoved(t *testing.T) {
	t.Parallel()
	p := newPost(t, "stop: 20", "", "")
	ctx := context.Background()
	p.user("ann")
	m := p.mailer("ann")
	for _, to := range []string{"a@elsewhere.example", "b@elsewhere.example", "c@elsewhere.example"} {
		if err := m.send("hello", to); err != nil {
			t.Fatal(err)
		}
	}
	p.runs(0)
	disable := func(on bool) {
		t.Helper()
		if _, err := console.UserSetCall.Ask(ctx, p.control, console.UserChange{Name: "ann", Disabled: &on}); err != nil {
			t.Fatal(err)
		}
	}
	disable(true)
	p.sleeps(time.Hour)
	if _, err := console.UserResumeCall.Ask(ctx, p.control, console.UserResume{Name: "ann"}); err == nil ||
		!strings.Contains(err.Error(), "weir user set ann disabled=false") {
		t.Errorf("resumed: %v", err)
	}
	if len(p.sink.to("b@elsewhere.example")) != 0 {
		t.Error("mail of a disabled user has left")
	}
	disable(false)
	p.runs(time.Minute)
	if len(p.sink.to("b@elsewhere.example")) != 0 {
		t.Error("what is held goes on by itself")
	}
	if _, err := console.UserRemoveCall.Ask(ctx, p.control, console.Name{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	p.sleeps(time.Hour)
	queue, err := console.QueueListCall.Ask(ctx, p.control,
		console.MailQuery{MailFilter: console.MailFilter{User: "ann"}, Limit: 10})
	if err != nil || len(queue.Mails) != 2 || queue.Mails[0].To[0].State != store.Held ||
		len(p.sink.to("c@elsewhere.example")) != 0 {
		t.Errorf("the queue %+v, %v", queue, err)
	}
}
