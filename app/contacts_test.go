package app_test

import (
	"strings"
	"testing"
	"time"

	"weir/console"
	"weir/store"
)

// TestContactByRule: a user without a contact of their own is told by the rule, and acts by mail. When a contact
// changes, the old one is told.
func TestContactByRule(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m, stop: 2", "", "self_service: {contacts: \"{user}@private.example\"}\n")
	p.user("ann")
	for _, name := range []string{"eve", "mallory@elsewhere.example"} {
		if _, err := console.UserAddCall.Ask(t.Context(), p.control, console.NewUser{Name: name,
			Password: password}); err != nil {
			t.Fatal(err)
		}
	}
	m := p.mailer("eve")
	for i := 0; ; i++ {
		if err := m.send("hello", many(10)[i]); code(err) == 550 {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	p.runs(0)
	notices := p.sink.to("eve@private.example")
	if len(notices) == 0 || !strings.Contains(notices[len(notices)-1].text, "resume") {
		t.Fatalf("%d notices", len(notices))
	}
	outside := p.mailer("")
	outside.from = "eve@private.example"
	last := notices[len(notices)-1]
	if err := outside.sendText(replied(last, "delete all, resume"), replyTo(t, last)); err != nil {
		t.Fatal(err)
	}
	p.sleeps(time.Hour)
	if s := p.status(); s.Stopped != 0 || s.Recipients[store.Held] != 0 {
		t.Errorf("%+v", s)
	}
	other := "ann@new.example"
	if _, err := console.UserSetCall.Ask(t.Context(), p.control, console.UserChange{Name: "ann",
		Contact: &other}); err != nil {
		t.Fatal(err)
	}
	p.runs(0)
	if old := p.sink.to("ann@private.example"); len(old) != 1 || !strings.Contains(old[0].text, "the last one that comes here") {
		t.Errorf("the old contact was told %d times", len(old))
	}
	if u, err := console.UserShowCall.Ask(t.Context(), p.control, console.Name{Name: "eve"}); err != nil ||
		u.Contact != "eve@private.example" {
		t.Errorf("%+v, %v", u, err)
	}
}
