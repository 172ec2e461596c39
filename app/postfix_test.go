package app_test

import (
	"fmt"
	gosmtp "net/smtp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/config"
	"weir/console"
	"weir/identify"
	"weir/internal/clock"
	"weir/internal/postfix"
	"weir/store"
)

// TestBesidePostfix has weir as the policy service of a real Postfix, and as the relay to which it diverts what must wait: a bulk sender is
// held while another user's mail passes.
func TestBesidePostfix(t *testing.T) {
	if postfix.Missing() != "" {
		postfix.Start(t, postfix.Options{}) // skips, or fails
	}
	world := postfix.NewSink(t)
	asks, diverts, back := postfix.FreeAddr(), postfix.FreeAddr(), postfix.FreeAddr()
	host, port, _ := strings.Cut(diverts, ":")
	cfg, err := config.Parse("weir.yaml", []byte(fmt.Sprintf(`
data: %s
console: {listen: "off"}
postfix:
- {listen: %q, filter: "weir:[%s]:%s", throttles: [outgoing], next_hop: %q}
smtp:
- {listen: %q, networks: [127.0.0.0/8], auth: none, marks: true, next_hop: %q, throttles: [outgoing], admin: admin@example.org, hostname: mail.example.org}
throttles:
  outgoing: {mail: {rate: 1/m}}
`, t.TempDir(), asks, host, port, back, diverts, back)))
	if err != nil {
		t.Fatal(err)
	}
	p := &post{t: t, clock: clock.NewFake(noon)}
	p.start(cfg)
	service := "check_policy_service inet:" + asks
	mta := postfix.Start(t, postfix.Options{
		Relay: world.Addr(),
		Users: map[string]string{"ann": "secret", "bob": "secret"},
		Main: map[string]string{
			"smtpd_relay_restrictions":         "permit_sasl_authenticated, reject",
			"smtpd_recipient_restrictions":     service,
			"smtpd_data_restrictions":          service,
			"smtpd_end_of_data_restrictions":   service,
			"weir_destination_recipient_limit": "100",
		},
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
	send := func(user string, to ...string) error {
		text := fmt.Sprintf("From: %s@example.org\r\nSubject: x\r\n%s: forged\r\n\r\nhello\r\n", user, identify.MarkHeader)
		return gosmtp.SendMail(mta.Addr, gosmtp.PlainAuth("", user, "secret", "127.0.0.1"), user+"@example.org", to, []byte(text))
	}
	waits := func(n int) {
		t.Helper()
		if !postfix.Await(func() bool {
			s := p.status()
			return s.Recipients[store.Delayed]+s.Recipients[store.Held] == n
		}) {
			t.Fatalf("%+v, want %d to wait\n%s", p.status(), n, mta.Log())
		}
	}
	reached := func(n int) (all []string) {
		t.Helper()
		for _, m := range world.Await(n) {
			all = append(all, m.To...)
		}
		slices.Sort(all)
		return all
	}
	for _, to := range []string{"one@example.net", "two@example.net", "three@example.net"} {
		if err := send("ann", to); err != nil {
			t.Fatal(err)
		}
	}
	waits(2)
	if err := send("bob", "friend@example.net"); err != nil {
		t.Fatal(err)
	}
	if got := reached(2); !slices.Equal(got, []string{"friend@example.net", "one@example.net"}) {
		t.Errorf("%v", got)
	}
	p.runs(time.Minute)
	p.runs(time.Minute)
	reached(4)
	for _, m := range world.Mails()[2:] {
		if marks := m.Header(identify.MarkHeader); len(marks) != 0 {
			t.Errorf("marks went on: %v", marks)
		}
	}
	// Now she is a virus.
	var refused error
	for i := range 30 {
		if refused = send("ann", fmt.Sprintf("victim%d@example.net", i)); refused != nil {
			break
		}
		waits(i + 1)
	}
	if refused == nil || !strings.HasPrefix(refused.Error(), "554") && !strings.HasPrefix(refused.Error(), "550") {
		t.Errorf("she is not stopped: %v", refused)
	}
	if err := send("bob", "friend@example.net"); err != nil {
		t.Errorf("his mail passes: %v", err)
	}
	if r, err := p.control.Release(t.Context(), console.MailOrder{User: "ann", All: true}); err != nil || r.Recipients != 21 {
		t.Errorf("%+v %v", r, err)
	}
	p.runs(0)
	all := reached(4 + 1 + 1 + 21) // bob's, the admin's notice, and what was released
	if once := slices.Compact(slices.Clone(all)); len(all)-len(once) != 1 {
		t.Errorf("somebody has it twice: %v", all)
	}
}
