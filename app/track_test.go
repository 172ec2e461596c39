package app_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/config"
	"weir/console"
	"weir/internal/keeper"
	"weir/internal/needs"
)

// TestWayOfAMessage: a message that a real Postfix diverts is found by its id here, by its Message-ID, and by both of
// its ids in Postfix's log, also after a restart.
func TestWayOfAMessage(t *testing.T) {
	t.Parallel()
	asks, diverts, back := needs.FreeAddress(), needs.FreeAddress(), needs.FreeAddress()
	host, port, _ := strings.Cut(diverts, ":")
	text := fmt.Sprintf(`
data: %s
console: {listen: "off"}
log: {recipients: domain}
postfix:
- {listen: %q, realm: example.org, filter: "weir:[%s]:%s", throttles: [outgoing], next_hop: %q}
smtp:
- {listen: %q, networks: [127.0.0.0/8], auth: none, marks: true, next_hop: %q, throttles: [outgoing], admin: admin@example.org, hostname: mail.example.org}
throttles:
  outgoing: {mail: {rate: 1/m, stop: 8}}
`, t.TempDir(), asks, host, port, back, diverts, back)
	p, mta, world := besidePostfixAs(t, nil, asks, back, text)
	b := &beside{post: p, submission: mta.Addr, world: world, log: mta.Log}
	for i := range 2 {
		if err := b.send("ann", fmt.Sprintf("stranger%d@example.net", i)); err != nil {
			t.Fatal(err)
		}
	}
	world.Await(1)
	b.waits(1)
	b.runs(time.Minute)
	world.Await(2)
	handed := regexp.MustCompile(`: (\w+): to=<stranger1@example\.net>.* status=sent \(250 2\.0\.0 OK: queued as (\w+)\)`)
	if !keeper.Await(func() bool { return handed.MatchString(mta.Log()) }) {
		t.Fatal(mta.Log())
	}
	before := handed.FindStringSubmatch(mta.Log())
	track := func(what string) console.Track {
		t.Helper()
		found, err := p.control.Track(t.Context(), console.TrackQuery{Recipient: what})
		if err != nil || len(found.Attempts) != 2 {
			t.Fatalf("%s: %+v, %v\n%s", what, found, err, mta.Log())
		}
		if last := found.Attempts[0]; last.Result != "delivered" || last.Mail.String() != before[2] || last.Hop != back ||
			last.ID == "" || found.Attempts[1].Result != "accepted" || found.Attempts[1].Queue != before[1] {
			t.Errorf("%s: %+v", what, found.Attempts)
		}
		return found
	}
	last := track(before[1]).Attempts[0]
	if !strings.Contains(mta.Log(), ": "+last.Queue+": to=<stranger1@example.net>") || last.Address == "" {
		t.Errorf("%+v is not in\n%s", last, mta.Log())
	}
	p.stop()
	cfg, err := config.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p.start(cfg)
	for _, what := range []string{before[1], last.Queue, "<" + last.ID + ">"} {
		if again := track(what); again.Attempts[0].Address != "@example.net" {
			t.Errorf("%s: %+v", what, again.Attempts)
		}
	}
}
