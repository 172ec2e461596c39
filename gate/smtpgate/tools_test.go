package smtpgate

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
	"weir/mail/nexthop"
)

// run runs a program that must succeed, and returns what it said.
func run(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (r *rig) port() string {
	_, port, _ := net.SplitHostPort(r.Addr().String())
	return port
}

// TestSwaks: a client of somebody else's, with AUTH, STARTTLS, TLS and pipelining.
func TestSwaks(t *testing.T) {
	t.Parallel()
	swaks := needs.Program(t, "swaks", "Debian: swaks")
	for name, c := range map[string]struct {
		mode TLSMode
		args string
		with string
	}{
		"STARTTLS and PLAIN":  {TLSStart, "--tls --auth PLAIN", "ESMTPSA"},
		"STARTTLS and LOGIN":  {TLSStart, "--tls --auth LOGIN --pipeline", "ESMTPSA"},
		"TLS":                 {TLSImplicit, "--tls-on-connect --auth PLAIN --pipeline", "ESMTPSA"},
		"clear text, at home": {TLSNone, "--auth PLAIN --pipeline", "ESMTPA"},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			if c.mode == TLSNone {
				r = newRig(t, nil)
			} else {
				r, _ = overTLS(t, c.mode, nil)
			}
			out := run(t, swaks, append(strings.Fields(c.args), "--server", "127.0.0.1", "--port", r.port(), "--from",
				"ann@example.org", "--to", "bob@example.com,carl@example.com",
				"--auth-user", "ann", "--auth-password", "correct horse", "--header", "Subject: from swaks", "--body",
				"hello\\n.\\nworld")...)
			m := r.the()
			if len(m.to) != 2 || !strings.Contains(m.text, " with "+c.with+" id ") ||
				!strings.Contains(m.text, "\r\n.\r\nworld\r\n") || m.job.Sender != "ann@example.org" {
				t.Errorf("%+v\n%s", m, out)
			}
		})
	}
	t.Run("wrong password", func(t *testing.T) {
		r, _ := overTLS(t, TLSStart, nil)
		out, err := exec.Command(swaks, "--server", "127.0.0.1", "--port", r.port(), "--tls", "--auth", "PLAIN",
			"--auth-user", "ann", "--auth-password", "wrong", "--to", "bob@example.com").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "535 5.7.8") || len(r.sent()) != 0 {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestSMTPSource: Postfix' load generator, with 20 sessions at once.
func TestSMTPSource(t *testing.T) {
	t.Parallel()
	source := needs.Program(t, "smtp-source", "Debian: postfix")
	for name, args := range map[string][]string{
		"a session for each mail": {"-s", "20", "-m", "200"},
		"sessions that stay":      {"-s", "20", "-m", "200", "-d"},
		"several recipients":      {"-s", "20", "-m", "60", "-d", "-r", "5"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.opts.Networks, r.opts.NextHop = prefixes("127.0.0.0/8"),
					nexthop.Options{Servers: []string{"127.0.0.1:1"}}
				r.rules.Exempt = []string{"127.0.0.1"}
			})
			run(t, source, append(args, "-l", "4096", "-f", "ann@example.org", "-t", "bob@example.com",
				"inet:127.0.0.1:"+r.port())...)
			want := 200
			if strings.Contains(name, "several") {
				want = 60
			}
			if all := r.sent(); len(all) != want || r.seen.count("mail accepted") != want {
				t.Errorf("%d mails, %v", len(all), r.seen.counts)
			}
		})
	}
}
