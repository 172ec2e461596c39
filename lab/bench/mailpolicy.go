//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/gate/postfixgate"
	"weir/lab/machine"
	"weir/lab/peers"
	"weir/mail/nexthop"
	"weir/mail/notice"
	"weir/mail/spool"
	"weir/store/sqlite"
	"weir/throttle/outbreak"
)

// policyConnections is how many smtpds ask at once, and policyUsers for how many users.
const (
	policyConnections = 20
	policyUsers       = 1000
)

// policyService is M6: requests of Postfix' policy protocol that are answered, against postfwd with a rule that counts
// recipients per user. Both are asked the same by the same client over TCP, about mails to one recipient each: RCPT,
// DATA, END-OF-MESSAGE. Both decide once per mail: postfwd counts in memory at END-OF-MESSAGE, weir at DATA in its
// store, which is safe on disk before the answer. weir runs in this process, with the real spool and store.
func policyService(t *trial) []figure {
	ctx, folder := t.context(), t.folder()
	peer, ours := t.startPostfwd(ctx, folder), t.startPolicy(ctx, folder)
	rounds, mails := pick(t, 7, 1), pick(t, 3000, 200)
	var figures []figure
	for _, c := range []struct {
		what   string
		stages []string
	}{
		{"a whole mail: RCPT, DATA, END-OF-MESSAGE, one of which decides", []string{"RCPT", "DATA", "END-OF-MESSAGE"}},
		{"RCPT alone: nobody decides", []string{"RCPT"}},
		{"END-OF-MESSAGE alone: each one decides", []string{"END-OF-MESSAGE"}},
	} {
		side := func(addr string, mails int) func() { return func() { askPolicy(ctx, addr, mails, c.stages) } }
		few := mails / 5 // postfwd would take all day
		interleaved(1, side(peer, policyUsers/5), side(ours, policyUsers))
		times := interleaved(rounds, side(peer, few), side(ours, mails))
		rate := func(mails int, d time.Duration) float64 { return float64(mails*len(c.stages)) / d.Seconds() }
		theirs, we := rate(few, times[0]), rate(mails, times[1])
		ratio := beside(we/theirs, "%.1f ×")
		if len(c.stages) == 3 {
			ratio = least(10, we/theirs, "%.1f ×")
		}
		figures = append(figures, figure{fmt.Sprintf("policy service, %d connections, %d users, %s: requests/s against postfwd",
			policyConnections, policyUsers, c.what), []value{ratio}, fmt.Sprintf("%.0f/s against %.0f/s", we, theirs)})
	}
	return figures
}

// askPolicy asks about mails over several connections at once. All of them must pass.
func askPolicy(ctx context.Context, addr string, mails int, stages []string) {
	together(policyConnections, func(n int) error {
		var dialer net.Dialer
		c, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { _ = c.Close() })()
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
		in := bufio.NewReader(c)
		var request bytes.Buffer
		for i := n; i < mails; i += policyConnections {
			for _, stage := range stages {
				user, count := i%policyUsers, 1
				if stage == "RCPT" {
					count = 0
				}
				request.Reset()
				fmt.Fprintf(&request, policyRequest, stage, user, user, count, n, i, user)
				if _, err := c.Write(request.Bytes()); err != nil {
					return err
				}
				answer, err := in.ReadString('\n')
				if _, blank := in.ReadString('\n'); err != nil || blank != nil || answer != "action=DUNNO\n" {
					return fmt.Errorf("%s was answered %q, %w", stage, answer, errors.Join(err, blank))
				}
			}
		}
		return nil
	})
}

// policyRequest is what Postfix 3.7 sends.
const policyRequest = `request=smtpd_access_policy
protocol_state=%s
protocol_name=ESMTP
client_address=192.0.2.7
client_name=client.example.org
client_port=41400
reverse_client_name=client.example.org
server_address=192.0.2.1
server_port=587
helo_name=client.example.org
sender=user%d@example.org
recipient=friend%d@example.net
recipient_count=%d
queue_id=BB3429EEA1C
instance=%x.6af99224.%x.1
size=4096
etrn_domain=
stress=
sasl_method=plain
sasl_username=user%d
sasl_sender=
ccert_subject=
ccert_issuer=
ccert_fingerprint=
ccert_pubkey_fingerprint=
encryption_protocol=TLSv1.3
encryption_cipher=TLS_AES_256_GCM_SHA384
encryption_keysize=256
policy_context=

`

// startPolicy starts weir's policy service on a store in a folder, and returns its address.
func (t *trial) startPolicy(ctx context.Context, folder string) string {
	kept := try(sqlite.Open(ctx, sqlite.Options{Folder: folder}))
	t.cleanup(func() { _ = kept.Close() })
	// nothing is ever delivered
	hop := try(nexthop.New(nexthop.Options{Servers: []string{"127.0.0.1:25"}}, nexthop.Env{}))
	secret := bytes.Repeat([]byte{7}, 32)
	s := try(spool.New(spool.Options{Store: kept.Mail(), Secret: secret, Signer: notice.NewSigner(secret)}))
	check(s.Configure([]spool.Gate{{Name: "postfix", Throttle: "outbreak", Mail: &outbreak.Options{}, Carrier: hop}}))
	check(s.Start(ctx))
	t.cleanup(func() { _ = s.Stop(context.Background()) })
	g := try(postfixgate.New(postfixgate.Options{Listen: "127.0.0.1:0", Throttles: []string{"outbreak"}},
		postfixgate.Parts{}, postfixgate.Env{Name: "postfix", Spool: s}))
	check(g.Listen())
	g.Start()
	t.cleanup(func() { _ = g.Stop(context.Background()) })
	return g.Addr().String()
}

// startPostfwd starts postfwd with as many servers as there are connections, and returns its address.
func (t *trial) startPostfwd(ctx context.Context, folder string) string {
	postfwd := program("postfwd")
	folder = filepath.Join(folder, "postfwd")
	rules, pidFile := filepath.Join(folder, "rules"), filepath.Join(folder, "pid")
	// It gives up root, and then must still find its files.
	check(errors.Join(os.Mkdir(folder, 0o777), os.Chmod(folder, 0o777), os.Chmod(filepath.Dir(folder), 0o755),
		os.WriteFile(rules, []byte(peers.Postfwd), 0o644)))
	addr := try(machine.FreeAddress("127.0.0.1"))
	_, port, _ := net.SplitHostPort(addr)
	servers := strconv.Itoa(policyConnections + 5)
	t.cleanup(func() {
		text, err := os.ReadFile(pidFile)
		pid, wrong := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil && wrong == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	})
	output(exec.CommandContext(ctx, postfwd, "--daemon", "--file", rules, "--interface", "127.0.0.1", "--port", port,
		"--user", "nobody", "--group", "nogroup", "--pidfile", pidFile, "--cache_socket",
		"unix::"+filepath.Join(folder, "cache"), "--nodns", "--no-rulelog", "--min_servers", servers,
		"--max_spare_servers", servers))
	var refused error
	until(func() bool {
		check(ctx.Err())
		var c net.Conn
		if c, refused = net.Dial("tcp", addr); refused == nil {
			_ = c.Close()
		}
		return refused == nil
	}, func() error { return fmt.Errorf("postfwd does not come up: %w", refused) })
	return addr
}
