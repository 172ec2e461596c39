//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"weir/mail/login"
)

// What the mails of M1 are like.
const (
	mailSessions = 20
	mailBytes    = 4096
)

// relayConfig is a weir that relays for this machine. A line for each mail goes to the log, as with Postfix.
const relayConfig = `
data: %s
smtp:
- listen: 127.0.0.1:0
  next_hop: %s
  networks: [127.0.0.0/8]
  throttles: [outgoing]
  admin: postmaster@example.org
  command: weir@example.org
throttles:
  outgoing: {mail: {%s}}
console: {listen: "off"}
`

type relays struct {
	source  string // smtp-source
	sink    *smtpSink
	weir    *running
	postfix *postfix
	failed  error
	close   []func()
}

func (r *relays) stop() {
	for _, f := range r.close {
		defer f()
	}
}

// startRelays starts a sink, a weir that relays to it, and, where it is wanted, a Postfix that does. Both keep their
// mail on the same disk. prepare is given the folder of weir before it is started.
func startRelays(peer bool, prepare func(folder string) error) (_ *relays, err error) {
	r := &relays{}
	defer func() {
		if err != nil {
			r.stop()
		}
	}()
	folder, err := onDisk()
	if err != nil {
		return nil, err
	}
	r.close = append(r.close, func() { os.RemoveAll(folder) })
	if r.source, err = program("smtp-source"); err != nil {
		return nil, err
	}
	if r.sink, err = startSink(); err != nil {
		return nil, err
	}
	r.close = append(r.close, r.sink.Kill)
	if peer {
		if r.postfix, err = startPostfix(folder, r.sink.address, mailSessions); err != nil {
			return nil, err
		}
		r.close = append(r.close, r.postfix.stop)
	}
	binary, err := buildWeir(folder)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	if err := prepare(data); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(folder, "weir.log"))
	if err != nil {
		return nil, err
	}
	r.close = append(r.close, func() { log.Close() })
	if r.weir, err = runWeir(data, fmt.Sprintf(relayConfig, data, r.sink.address, ""), log, binary); err != nil {
		return nil, err
	}
	r.close = append(r.close, r.weir.Stop)
	return r, nil
}

// send returns a round of smtp-source, which ends when the sink has all of it.
func (r *relays) send(address string, mails int, flags ...string) func() {
	return r.round(mails, func() error {
		args := append([]string{"-s", strconv.Itoa(mailSessions), "-l", strconv.Itoa(mailBytes), "-m",
			strconv.Itoa(mails), "-f", "ann@example.com", "-t", "bob@example.org"}, append(flags, address)...)
		if out, err := exec.Command(r.source, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("smtp-source: %w: %s", err, out)
		}
		return nil
	})
}

// round sends so many mails, and waits until the sink has them.
func (r *relays) round(mails int, send func() error) func() {
	return func() {
		if r.failed != nil {
			return
		}
		before := r.sink.count.Load()
		if r.failed = send(); r.failed == nil {
			r.failed = r.sink.await(before + int64(mails))
		}
	}
}

// relaying is M1: mails that get from smtp-source through weir, and through Postfix, to smtp-sink, from 20 sessions at
// once. Both have a mail on the disk before they acknowledge it, and up to 20 connections to the sink. All mails are to
// one recipient, who is in the working set: the throttle looks at each, and lets it pass. A round ends when the sink
// has the last of them.
func relaying(o options) ([]figure, error) {
	rounds, mails := 7, 5000
	if o.quick {
		rounds, mails = 1, 200
	}
	r, err := startRelays(true, func(string) error { return nil })
	if err != nil {
		return nil, err
	}
	defer r.stop()
	sides := []func(){
		r.send(r.weir.address, mails, "-d"), r.send(r.postfix.address, mails, "-d"), r.send(r.weir.address, mails),
		r.send(r.postfix.address, mails),
	}
	interleaved(1, sides...)
	t := interleaved(rounds, sides...)
	if r.failed != nil {
		return nil, r.failed
	}
	rate := func(i int) float64 { return float64(mails) / t[i].Seconds() }
	what := fmt.Sprintf("mails of %d bytes/s from smtp-source to smtp-sink, %d sessions, fsync before 250, throttle "+
		"on, against Postfix", mailBytes, mailSessions)
	kept, single := rate(0)/rate(1), rate(2)/rate(3)
	return []figure{
		{what, "≥ 3 ×", fmt.Sprintf("%.2f × (%.0f/s against %.0f/s)", kept, rate(0), rate(1)), kept >= 3},
		{"for comparison, the same with a connection for each mail", "–",
			fmt.Sprintf("%.2f × (%.0f/s against %.0f/s)", single, rate(2), rate(3)), true},
	}, nil
}

// loggedIn is M1b: the same work done by 1,000 users, who log in and send a few mails each, against M1 itself.
func loggedIn(o options) ([]figure, error) {
	rounds, mails, users := 7, 5000, 1000
	if o.quick {
		rounds, mails, users = 1, 200, 40
	}
	r, err := startRelays(false, func(folder string) error {
		password, err := login.Hash(benchPassword)
		if err != nil {
			return err
		}
		return addUsers(folder, users, func(int) string { return password }, nil)
	})
	if err != nil {
		return nil, err
	}
	defer r.stop()
	d := driver{address: r.weir.address, users: users, mails: mails / users, step: 1, bytes: mailBytes}
	each := d
	each.mails = 1
	first := interleaved(1, r.round(users, each.run))[0] // everybody logs in once; later it is remembered
	sides := []func(){r.send(r.weir.address, mails, "-d"), r.round(mails, d.run)}
	interleaved(1, sides...)
	t := interleaved(rounds, sides...)
	if r.failed != nil {
		return nil, r.failed
	}
	ratio := t[0].Seconds() / t[1].Seconds()
	return []figure{
		{fmt.Sprintf("the same work from %d users, each with AUTH PLAIN and %d mails in a session, against M1 in the "+
			"same run", users, d.mails), "≥ 0.7 ×",
			fmt.Sprintf("%.2f × (%.0f/s against %.0f/s)", ratio, float64(mails)/t[1].Seconds(),
				float64(mails)/t[0].Seconds()), ratio >= 0.7},
		{"for comparison, the first log-in of each, which takes an argon2id", "–",
			fmt.Sprintf("%.0f/s", float64(users)/first.Seconds()), true},
	}, nil
}
