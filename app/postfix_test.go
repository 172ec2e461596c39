package app_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/config"
	"weir/console"
	"weir/internal/clock"
	"weir/internal/testkit/keeper"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/postfix"
	"weir/store"
)

// besidePostfix makes weir the policy service of a real Postfix, and the relay to which it diverts what must wait. main
// is added to main.cf.
func besidePostfix(t *testing.T, main map[string]string) (p *post, mta *postfix.Instance, world *postfix.Sink) {
	t.Helper()
	asks, diverts, back := needs.FreeAddress(), needs.FreeAddress(), needs.FreeAddress()
	host, port, _ := strings.Cut(diverts, ":")
	return besidePostfixAs(t, main, asks, back, fmt.Sprintf(`
data: %s
console: {listen: "off"}
postfix:
- {listen: %q, realm: example.org, filter: "weir:[%s]:%s", throttles: [outgoing], next_hop: %q}
smtp:
- {listen: %q, networks: [127.0.0.0/8], auth: none, marks: true, next_hop: %q, throttles: [outgoing], admin: admin@example.org, hostname: mail.example.org}
throttles:
  outgoing: {mail: {rate: 1/m, stop: 8}}
`, t.TempDir(), asks, host, port, back, diverts, back))
}

// besidePostfixAs does so with a configuration, which listens at asks and hands mail back at another address.
func besidePostfixAs(t *testing.T, main map[string]string, asks, back, text string) (p *post, mta *postfix.Instance,
	world *postfix.Sink) {
	t.Helper()
	if postfix.Missing() != "" {
		postfix.Start(t, postfix.Options{}) // skips, or fails
	}
	world = postfix.NewSink(t)
	cfg, err := config.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p = &post{t: t, clock: clock.NewFake(noon)}
	p.start(cfg)
	service := "check_policy_service inet:" + asks
	settings := map[string]string{
		"smtpd_relay_restrictions":         "permit_sasl_authenticated, reject",
		"smtpd_recipient_restrictions":     service,
		"smtpd_data_restrictions":          service,
		"smtpd_end_of_data_restrictions":   service,
		"weir_destination_recipient_limit": "100",
	}
	maps.Copy(settings, main)
	mta = postfix.Start(t, postfix.Options{
		Relay: world.Addr(),
		Users: map[string]string{"ann": "secret", "bob": "secret", "ann@example.org": "secret", "ann+news": "secret"},
		Main:  settings,
		Master: []string{
			"weir unix - - n - 20 smtp",
			back + " inet n - n - - smtpd",
			"  -o smtpd_relay_restrictions=permit_mynetworks,reject",
			"  -o smtpd_recipient_restrictions=",
			"  -o smtpd_data_restrictions=",
			"  -o smtpd_end_of_data_restrictions=",
			"  -o smtpd_sasl_auth_enable=no",
			"  -o receive_override_options=no_address_mappings,no_unknown_recipient_checks,no_header_body_checks,no_milters",
		},
	})
	return p, mta, world
}

// TestBesidePostfix: a bulk sender is held while another user's mail passes.
func TestBesidePostfix(t *testing.T) {
	t.Parallel()
	p, mta, world := besidePostfix(t, nil)
	b := &beside{post: p, submission: mta.Addr, world: world, log: mta.Log}
	refused := b.isAVirus()
	if refused == nil || !strings.HasPrefix(refused.Error(), "554") && !strings.HasPrefix(refused.Error(), "550") {
		t.Errorf("she is not stopped: %v", refused)
	}
	if err := b.send("bob", "friend@example.net"); err != nil {
		t.Errorf("his mail passes: %v", err)
	}
	if r, err := console.QueueReleaseCall.Ask(t.Context(), p.control, console.MailOrder{User: "ann",
		All: true}); err != nil ||
		r.Recipients != 9 {
		t.Errorf("%+v %v", r, err)
	}
	p.runs(0)
	all := b.reached(4 + 1 + 1 + 9) // bob's, the admin's notice, and what was released
	if once := slices.Compact(slices.Clone(all)); len(all)-len(once) != 1 {
		t.Errorf("somebody has it twice: %v", all)
	}
}

// TestStoppedBesidePostfix: mail that Postfix has taken and diverted when its user is stopped is held in weir, all of
// it. Once the user has deleted it and sends again, nothing of it leaves: Postfix has nothing left.
func TestStoppedBesidePostfix(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	// At first Postfix keeps what it diverts, as though all of it were under way at once. It does not look
	// through the queue again until it reloads: what it tries meanwhile would be left behind.
	p, mta, world := besidePostfix(t, map[string]string{
		"defer_transports": "weir", "queue_run_delay": "1h", "minimal_backoff_time": "1s", "maximal_backoff_time": "1s",
	})
	const sent = 16
	for i := range sent {
		if err := submit(mta.Addr, "ann", fmt.Sprintf("victim%d@example.net", i)); err != nil {
			t.Fatalf("mail %d: %v", i, err)
		}
	}
	world.Await(1) // her credit
	left := func() (n int) {
		for _, queue := range []string{"incoming", "active", "deferred"} {
			n += mta.Queued(queue)
		}
		return n
	}
	if !keeper.Await(func() bool { return mta.Queued("deferred") == sent-1 }) {
		t.Fatalf("Postfix keeps %d\n%s", left(), mta.Log())
	}
	for _, args := range [][]string{{"postconf", "-e", "defer_transports=", "queue_run_delay=1s"},
		{"postfix", "reload"}} {
		if _, err := mta.Command(args[0], args[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	if !keeper.Await(func() bool { return p.status().Recipients[store.Held] == sent-1 && left() == 0 }) {
		t.Fatalf("%+v, and Postfix keeps %d\n%s", p.status(), left(), mta.Log())
	}
	if err := submit(mta.Addr, "ann", "more@example.net"); err == nil || !strings.Contains(err.Error(), "5.7.1") {
		t.Errorf("she is not stopped: %v", err)
	}
	if r, err := console.QueueDeleteCall.Ask(t.Context(), p.control, console.MailOrder{User: "ann",
		All: true}); err != nil ||
		r.Recipients != sent-1 {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := console.UserResumeCall.Ask(t.Context(), p.control, console.UserResume{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	p.sleeps(24 * time.Hour)
	if err := submit(mta.Addr, "ann", "friend@example.net"); err != nil {
		t.Errorf("resumed: %v", err)
	}
	var got []string
	for _, m := range world.Await(3) { // her first, the admin's notice, and the one after
		got = append(got, m.To...)
	}
	slices.Sort(got)
	if want := []string{"admin@example.org", "friend@example.net", "victim0@example.net"}; !slices.Equal(got, want) {
		t.Errorf("arrived at %v", got)
	}
	if !keeper.Await(func() bool { return left() == 0 }) || len(world.Mails()) != len(got) {
		t.Errorf("Postfix keeps %d, %d messages arrived", left(), len(world.Mails()))
	}
}

// TestLocalMailBesidePostfix: mail of local programs is not judged, and it is with what docs/postfix.md adds. Notices
// arrive while the user for all of these programs is stopped.
func TestLocalMailBesidePostfix(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/postfix.md")
	if err != nil {
		t.Fatal(err)
	}
	_, services, found := strings.Cut(string(page), "```text\npickup ")
	services, _, _ = strings.Cut("pickup "+services, "```")
	if !found || !strings.Contains(string(page), "write `networks: [127.0.0.0/8]` and `next_hop: 127.0.0.1:10025`") {
		t.Fatal("the page says something else")
	}
	local, asks, diverts, back := needs.FreeAddress(), needs.FreeAddress(), needs.FreeAddress(), needs.FreeAddress()
	bracketed := func(address string) string { return "[" + strings.Replace(address, ":", "]:", 1) }
	services = strings.NewReplacer("127.0.0.1:10030", local, "[127.0.0.1]:10030", bracketed(local)).Replace(services)
	p, mta, world := besidePostfixAs(t, nil, asks, back, fmt.Sprintf(`
data: %s
console: {listen: "off"}
postfix:
- {listen: %q, realm: example.org, filter: "weir:%s", throttles: [outgoing], networks: [127.0.0.0/8], next_hop: %q}
smtp:
- {listen: %q, networks: [127.0.0.0/8], auth: none, marks: true, next_hop: %q, throttles: [outgoing],
   admin: admin@example.org, hostname: mail.example.org}
throttles:
  outgoing: {mail: {rate: 1/m, stop: 8}}
`, t.TempDir(), asks, bracketed(diverts), back, diverts, back))
	b := &beside{post: p, world: world, log: mta.Log}
	send := func(to ...string) {
		t.Helper()
		for _, to := range to {
			cmd := exec.Command("sendmail", "-C", mta.Config, "-f", "cron@example.org", to)
			cmd.Stdin = strings.NewReader("Subject: x\n\nhello\n")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	send("one@example.net", "two@example.net", "three@example.net")
	b.reached(3)
	file, err := os.OpenFile(filepath.Join(mta.Config, "master.cf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(services) // of two lines for pickup, the last is used
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := mta.Command("postfix", "reload"); err != nil {
		t.Fatal(err)
	}
	needs.Wait(t, "the service for local mail", func() bool { return keeper.Greets(local) })
	send("four@example.net", "five@example.net")
	b.waits(1)
	b.reached(4)
	queue, err := console.QueueListCall.Ask(t.Context(), p.control,
		console.MailQuery{MailFilter: console.MailFilter{User: "127.0.0.1"}})
	if err != nil || len(queue.Mails) != 1 {
		t.Fatalf("%+v %v", queue, err)
	}
	ann := console.NewUser{Name: "ann", Contact: "ann@home.example"}
	if _, err := console.UserAddCall.Ask(t.Context(), p.control, ann); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"127.0.0.1", "ann"} {
		if _, err := console.UserStopCall.Ask(t.Context(), p.control, console.UserStop{Name: user}); err != nil {
			t.Fatal(err)
		}
	}
	if all := b.reached(6); !slices.Contains(all, "ann@home.example") {
		t.Errorf("arrived at %v", all)
	}
}
