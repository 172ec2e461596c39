package app_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/console"
	"weir/internal/testkit/needs"
	"weir/store"
)

// TestSpellingsBesidePostfix: with a realm, every spelling of a login at a real Postfix is one user with one credit,
// and a name means that user wherever it is written: in the configuration, in commands, and in what is shown.
func TestSpellingsBesidePostfix(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	asks, diverts, back := needs.FreeAddress(), needs.FreeAddress(), needs.FreeAddress()
	host, port, _ := strings.Cut(diverts, ":")
	p, mta, world := besidePostfixAs(t, nil, asks, back, fmt.Sprintf(`
data: %s
console: {listen: "off"}
postfix:
- {listen: %q, realm: example.org, filter: "weir:[%s]:%s", throttles: [outgoing], next_hop: %q}
smtp:
- {listen: %q, networks: [127.0.0.0/8], auth: none, marks: true, next_hop: %q, throttles: [outgoing], admin: admin@example.org, hostname: mail.example.org}
throttles:
  outgoing: {mail: {rate: 1/m, stop: 8, exempt: [Bob], users: {ANN: {max_slack: 2}}}}
`, t.TempDir(), asks, host, port, back, diverts, back))
	b := &beside{post: p, submission: mta.Addr, world: world, log: mta.Log}
	for i := range 3 { // exempt
		if err := b.send("bob", fmt.Sprintf("friend%d@example.net", i)); err != nil {
			t.Fatal(err)
		}
	}
	world.Await(3)
	// Three spellings, two credits of one user, and one that waits.
	for i, name := range []string{"ann", "ann@example.org", "ann+news"} {
		if err := b.send(name, fmt.Sprintf("stranger%d@example.net", i)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	b.waits(1)
	if got := len(world.Await(5)); got != 5 {
		t.Errorf("%d arrived", got)
	}
	// One user for whoever asks.
	u, err := console.UserAddCall.Ask(t.Context(), p.control, console.NewUser{Name: "Ann",
		Contact: "ann@private.example"})
	if err != nil || u.Name != "ann@example.org" || u.Never != "" || len(u.Throttles) != 1 ||
		u.Throttles[0].Waiting != 1 || u.Throttles[0].Slack != 0 {
		t.Errorf("%+v, %v", u, err)
	}
	for _, name := range []string{"ann", "ANN@example.org", "ann+other"} {
		if u, err := console.UserShowCall.Ask(t.Context(), p.control, console.Name{Name: name}); err != nil ||
			u.Contact != "ann@private.example" {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
		if found, err := console.QueueListCall.Ask(t.Context(), p.control,
			console.MailQuery{MailFilter: console.MailFilter{User: name}, Limit: 10}); err != nil ||
			len(found.Mails) != 1 || found.Mails[0].User != "ann@example.org" {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
	if _, err := console.UserAddCall.Ask(t.Context(), p.control, console.NewUser{Name: "ann@example.org"}); err == nil {
		t.Error("added twice")
	}
	if u, err := console.UserAddCall.Ask(t.Context(), p.control, console.NewUser{Name: "@example.org"}); err != nil ||
		u.Never == "" {
		t.Errorf("a name that nobody has: %+v, %v", u, err)
	}
	r, err := console.QueueReleaseCall.Ask(t.Context(), p.control, console.MailOrder{User: "ann", All: true})
	if err != nil || r.Recipients != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	p.runs(0)
	world.Await(6)
	if s := p.status(); s.Recipients[store.Delayed] != 0 {
		t.Errorf("%+v", s)
	}
}
