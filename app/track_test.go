package app_test

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/config"
	"weir/console"
	"weir/internal/testkit/keeper"
	"weir/internal/testkit/needs"
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
		found, err := console.MailTrackCall.Ask(t.Context(), p.control, console.TrackQuery{Recipient: what})
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
	sent := ": " + last.Queue + ": to=<stranger1@example.net>" // Postfix writes it when the next server has it
	if !keeper.Await(func() bool { return strings.Contains(mta.Log(), sent) }) || last.Address == "" {
		t.Errorf("%+v is not in\n%s", last, mta.Log())
	}
	p.stop()
	cfg, err := config.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	p.log = slog.New(slog.NewTextHandler(&log, nil))
	p.start(cfg)
	for _, what := range []string{before[1], last.Queue, "<" + last.ID + ">"} {
		if again := track(what); again.Attempts[0].Address != "@example.net" {
			t.Errorf("%s: %+v", what, again.Attempts)
		}
	}
	// The lines of the log say the same, with the ids by which Postfix has the message before and after.
	if err := b.send("ann", "stranger2@example.net"); err != nil {
		t.Fatal(err)
	}
	b.waits(1)
	b.runs(time.Minute)
	world.Await(3)
	lines := regexp.MustCompile(`msg=mail .*session=\S+ mail=(\w+) .* user=ann@example\.org .* message_id=(\S+) queue_id=(\w+) [^\n]*
(?:.*\n)*.*msg=mail mail=(\w+) message_id=(\S+) user=ann@example\.org to=@example\.net result=delivered hop=(\S+) queue_id=(\w+) reply="250 `)
	if !keeper.Await(func() bool { return lines.MatchString(log.String()) }) {
		t.Fatal(log.String())
	}
	m := lines.FindStringSubmatch(log.String())
	if m[1] != m[4] || m[2] != m[5] || m[6] != back {
		t.Errorf("%q", m[1:])
	}
	theirs := regexp.MustCompile(`: ` + m[3] + `: to=<stranger2@example\.net>.*queued as ` + m[1] + `\)\n(?:.*\n)*.*: ` + m[7] +
		`: to=<stranger2@example\.net>`)
	if !keeper.Await(func() bool { return theirs.MatchString(mta.Log()) }) {
		t.Errorf("%q are not in\n%s", m[1:], mta.Log())
	}
}
