package simulate

import (
	"net/smtp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
	"weir/internal/testkit/postfix"
)

// TestPostfixItself reads a log that Postfix has written, with a filter behind it that hands every mail in again.
func TestPostfixItself(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel() // it waits for Postfix most of the time
	sink, behind := postfix.NewSink(t), needs.FreeAddress()
	p := postfix.Start(t, postfix.Options{
		Relay: sink.Addr(),
		Users: map[string]string{"Ann": "secret"},
		Main:  map[string]string{"content_filter": "smtp:[127.0.0.1]:" + behind[strings.LastIndexByte(behind, ':')+1:]},
		Master: []string{
			behind +
				" inet n - n - - smtpd -o content_filter= -o myhostname=filter.test -o " +
				"smtpd_authorized_xforward_hosts=127.0.0.0/8",
		},
	})
	text := []byte("Subject: hello\r\n\r\nIt is me.\r\n")
	auth := smtp.PlainAuth("", "Ann", "secret", "127.0.0.1")
	for _, to := range [][]string{{"bob@example.org"}, {"eve@example.net", "Bob@Example.org", "\"d, e\"@example.net"}} {
		if err := smtp.SendMail(p.Addr, auth, "ann@example.com", to, text); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []string{"server@example.com", ""} {
		if err := smtp.SendMail(p.Addr, nil, from, []string{"guest@example.org"}, text); err != nil {
			t.Fatal(err)
		}
	}
	sink.Await(4)
	needs.Wait(t, "the queue is empty", func() bool { return strings.Count(p.Log(), ": removed") == 8 })
	path := filepath.Join(t.TempDir(), "maillog")
	if err := os.WriteFile(path, []byte(p.Log()), 0o600); err != nil {
		t.Fatal(err)
	}
	got, info := readLog(t, LogOptions{}, path)
	same(t, got, "ann: bob@example.org", "ann: \"d, e\"@example.net bob@example.org eve@example.net")
	if info.Mails != 2 || info.Users != 1 {
		t.Errorf("%+v", info)
	}
	got, _ = readLog(t, LogOptions{Clients: networks("127.0.0.0/8")}, path)
	same(t, got, "ann: bob@example.org", "ann: \"d, e\"@example.net bob@example.org eve@example.net",
		"127.0.0.1: guest@example.org")
}
