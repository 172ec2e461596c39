package postfix

import (
	"net/smtp"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit/keeper"
	"weir/internal/testkit/needs"
)

// TestMailGoesThrough: who is logged in, or on the loopback, may send; what is sent arrives; and nothing is left
// afterwards.
func TestMailGoesThrough(t *testing.T) {
	sink := NewSink(t)
	p := Start(t, Options{
		Relay: sink.Addr(),
		Users: map[string]string{"ann": "secret"},
		Main:  map[string]string{"smtpd_relay_restrictions": "permit_sasl_authenticated, reject"},
	})
	text := []byte("Subject: hello\r\n\r\nIt is me.\r\n")
	to := []string{"bob@example.org", "eve@example.org"}
	if err := smtp.SendMail(p.Addr, nil, "ann@example.com", to, text); err == nil ||
		!strings.HasPrefix(err.Error(), "554") {
		t.Errorf("without logging in: %v", err)
	}
	if err := smtp.SendMail(p.Addr, smtp.PlainAuth("", "ann", "wrong", "127.0.0.1"), "ann@example.com", to,
		text); err == nil || !strings.HasPrefix(err.Error(), "535") {
		t.Errorf("with a wrong password: %v", err)
	}
	for i, auth := range []smtp.Auth{smtp.PlainAuth("", "ann", "secret", "127.0.0.1"), &login{"ann", "secret"}} {
		if err := smtp.SendMail(p.Addr, auth, "ann@example.com", to, text); err != nil {
			t.Fatal(err)
		}
		got := sink.Await(i + 1)[i]
		slices.Sort(got.To)
		if got.From != "ann@example.com" || !slices.Equal(got.To, to) ||
			!slices.Equal(got.Header("Subject"), []string{"hello"}) {
			t.Errorf("arrived: %q to %q\n%s", got.From, got.To, got.Text)
		}
	}
	if !strings.Contains(p.Log(), "sasl_username=ann") {
		t.Error("nothing of it stands in the log")
	}
	needs.Wait(t, "the queue is empty", func() bool { return p.Queued("active") == 0 })
	if _, err := p.Command("postqueue", "-j"); err != nil {
		t.Error(err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if keeper.Greets(p.Addr) {
		t.Error("still there after the stop")
	}
	if _, err := os.Stat(p.folder); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
}

func TestWrongConfiguration(t *testing.T) {
	if lacking := Missing(); lacking != "" {
		needs.Skip(t, lacking)
	}
	if _, err := Run(Options{Main: map[string]string{"mail_owner": "nobody-of-that-name"}}); err == nil {
		t.Error("a Postfix without an owner is said to run")
	}
	if _, err := Run(Options{Master: []string{"127.0.0.1:1 inet n - n - - no-such-program"},
		Relay: "nowhere"}); err == nil {
		t.Error("a Postfix with a wrong next hop is said to run")
	}
}

// login is AUTH LOGIN, which net/smtp does not have.
type login struct{ name, password string }

func (l *login) Start(*smtp.ServerInfo) (string, []byte, error) { return "LOGIN", nil, nil }
func (l *login) Next(prompt []byte, more bool) ([]byte, error) {
	switch {
	case !more:
		return nil, nil
	case strings.HasPrefix(string(prompt), "Username"):
		return []byte(l.name), nil
	}
	return []byte(l.password), nil
}
