package smtpgate

import (
	"context"
	"strings"
	"testing"

	"weir/internal/testkit/postfix"
	"weir/mail/nexthop"
	"weir/store"
)

// TestSenderIsAlwaysTold: mail that needs SMTPUTF8, for a next hop that does not know it. Who can be told in ASCII is
// told in ASCII; where nobody can, the mail is held, in the audit log, and goes on when the next hop has learnt it.
func TestSenderIsAlwaysTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		user, from, to, header string
		told                   string // empty: it is held
	}{
		"a recipient":           {"", "a@example.org", "ü@example.com", "Subject: x", "a@example.org"},
		"a header":              {"", "a@example.org", "b@example.com", "Subject: Grüße", "a@example.org"},
		"a sender with contact": {"ann", "ä@example.org", "b@example.com", "Subject: x", "ann@home.example"},
		"a sender":              {"", "ä@example.org", "b@example.com", "Subject: x", ""},
		"a user's sender":       {"bound", "ä@team.example", "ü@example.com", "Subject: Grüße", ""},
		"no sender":             {"", "", "ü@example.com", "Subject: x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sink := postfix.NewPlainSink(t)
			r := newRig(t, func(r *rig) {
				hop, err := nexthop.New(nexthop.Options{Servers: []string{sink.Addr()}}, nexthop.Env{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = hop.Close(context.Background()) })
				r.behind = hop
				r.opts.Networks = prefixes("127.0.0.0/8")
			})
			client := r.greeted()
			if c.user != "" {
				client.cmd("AUTH PLAIN "+plain(c.user, "correct horse"), "235 ")
			}
			client.cmd("MAIL FROM:<"+c.from+"> SMTPUTF8 RET=FULL", "250 ")
			client.cmd("RCPT TO:<"+c.to+">", "250 ")
			client.cmd("DATA", "354 ")
			client.cmd(c.header+"\r\n\r\nhello\r\n.", "250 ")
			if err := r.spool.Idle(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, states, err := r.spool.Count(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			audit, err := r.spool.Audit(t.Context(), 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			held, why := 0, c.from+" needs it too"
			if c.from == "" {
				why = "it has no sender"
			}
			for _, e := range audit {
				if e.What == "held" && strings.Contains(e.Text, c.to+": 5.6.7") && strings.HasSuffix(e.Text, why) {
					held++
				}
			}
			mails := sink.Mails()
			if c.told == "" {
				if len(mails) != 0 || states[store.Held] != 1 || held != 1 {
					t.Errorf("%d mails, %v, %+v", len(mails), states, audit)
				}
				return
			}
			if len(mails) != 1 || states[store.Held] != 0 || held != 0 {
				t.Fatalf("%d mails, %v, %+v", len(mails), states, audit)
			}
			m := mails[0]
			coded := strings.NewReplacer("ü", `\x{FC}`).Replace(c.to)
			if m.From != "" || m.To[0] != c.told ||
				!strings.Contains(string(m.Text), "; "+coded+"\r\nAction: failed\r\nStatus: 5.6.7") ||
				beyondASCII(m.Text) {
				t.Errorf("%v is told\n%s", m.To, m.Text)
			}
		})
	}
}
