//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"text/template"
	"time"

	"weir/internal/testkit/postfix"
	"weir/lab/machine"
	"weir/lab/peers"
	"weir/mail/login"
)

// The mails of M1.
const (
	mailSessions = 20
	mailBytes    = 4096
)

// relayConfig is a weir that relays for this machine. It logs a line for each mail, as Postfix does.
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

// relays are a sink, a weir that relays to it and, unless it is "", the address of a Postfix that does.
type relays struct {
	source  string // smtp-source
	sink    *smtpSink
	weir    *running
	postfix string
}

// startRelays starts a weir, and a Postfix where peer is set. Both keep their mail on the same disk. prepare is given
// the folder of weir before weir is started.
func (t *trial) startRelays(peer bool, prepare func(folder string)) *relays {
	folder := t.folderOnDisk()
	r := &relays{source: program("smtp-source"), sink: t.startSink()}
	if peer {
		r.postfix = t.startPostfix(folder, r.sink.address, mailSessions)
	}
	binary, data := buildWeir(folder), subfolder(folder, "data")
	prepare(data)
	log := try(os.Create(filepath.Join(folder, "weir.log")))
	t.cleanup(func() { log.Close() })
	r.weir = t.runWeir(data, fmt.Sprintf(relayConfig, data, r.sink.address, ""), log, binary)
	return r
}

// send returns a round of smtp-source, which ends when the sink has all of it.
func (r *relays) send(address string, mails int, flags ...string) func() {
	args := append([]string{"-s", strconv.Itoa(mailSessions), "-l", strconv.Itoa(mailBytes), "-m", strconv.Itoa(mails),
		"-f", "ann@example.com", "-t", "bob@example.org"}, append(flags, address)...)
	return r.round(mails, func() { output(exec.Command(r.source, args...)) })
}

// round sends so many mails, and waits until the sink has them.
func (r *relays) round(mails int, send func()) func() {
	return func() {
		before := r.sink.count.Load()
		send()
		arrived(&r.sink.count, before+int64(mails))
	}
}

// against says how many mails a second two rounds of the same number of mails are.
func against(mails int, ours, theirs time.Duration) string {
	return fmt.Sprintf("%.0f/s against %.0f/s", float64(mails)/ours.Seconds(), float64(mails)/theirs.Seconds())
}

// relaying is M1: mails from smtp-source through weir, and through Postfix, to smtp-sink, from 20 sessions at once.
// Both have a mail on the disk before they acknowledge it, and up to 20 connections to the sink. All mails are to one
// recipient, who is in the working set: the throttle looks at each mail and lets it pass. A round ends when the sink
// has the last of them.
func relaying(t *trial) []figure {
	rounds, mails := pick(t, 7, 1), pick(t, 5000, 200)
	r := t.startRelays(true, func(string) {})
	sides := []func(){
		r.send(r.weir.address, mails, "-d"), r.send(r.postfix, mails, "-d"), r.send(r.weir.address, mails),
		r.send(r.postfix, mails),
	}
	interleaved(1, sides...)
	times := interleaved(rounds, sides...)
	return []figure{
		{fmt.Sprintf("mails of %d bytes/s from smtp-source to smtp-sink, %d sessions, fsync before 250, throttle on, "+
			"against Postfix", mailBytes, mailSessions), []value{least(5, times[1].Seconds()/times[0].Seconds(), "%.2f ×")},
			against(mails, times[0], times[1])},
		{"… with a connection for each mail", []value{beside(times[3].Seconds()/times[2].Seconds(), "%.2f ×")},
			against(mails, times[2], times[3])},
	}
}

// loggedIn is M1b: the same work by 1,000 users, who log in and send a few mails each, against M1 itself.
func loggedIn(t *trial) []figure {
	rounds, mails, users := pick(t, 7, 1), pick(t, 5000, 200), pick(t, 1000, 40)
	r := t.startRelays(false, func(folder string) {
		password := try(login.Hash(benchPassword))
		addUsers(folder, users, func(int) string { return password }, nil)
	})
	d := driver{address: r.weir.address, users: users, mails: mails / users, step: 1, bytes: mailBytes}
	each := d
	each.mails = 1
	first := interleaved(1, r.round(users, each.run))[0] // everybody logs in once; later it is remembered
	sides := []func(){r.send(r.weir.address, mails, "-d"), r.round(mails, d.run)}
	interleaved(1, sides...)
	times := interleaved(rounds, sides...)
	return []figure{
		{fmt.Sprintf("the same work from %d users, each with AUTH PLAIN and %d mails in a session, against M1 in the "+
			"same run", users, d.mails), []value{least(0.7, times[0].Seconds()/times[1].Seconds(), "%.2f ×")},
			against(mails, times[1], times[0])},
		{"… the first login of each, which takes an argon2id",
			[]value{beside(float64(users)/first.Seconds(), "%.0f/s")}, ""},
	}
}

// filled executes the template of a peer's configuration.
func filled(text string, values any) string {
	var b strings.Builder
	check(try(template.New("").Option("missingkey=error").Parse(text)).Execute(&b, values))
	return b.String()
}

// startPostfix starts a Postfix that relays to a sink, and returns its address. Its queue is in the folder.
func (t *trial) startPostfix(folder, sink string, sessions int) string {
	host, port, err := net.SplitHostPort(sink)
	check(err)
	main := map[string]string{}
	for line := range strings.Lines(filled(peers.PostfixMain,
		map[string]any{"Server": fmt.Sprintf("[%s]:%s", host, port), "Sessions": sessions})) {
		if name, value, found := strings.Cut(line, " = "); found && !strings.HasPrefix(line, "#") {
			main[name] = strings.TrimSpace(value)
		}
	}
	p := try(postfix.Run(postfix.Options{Main: main, Relay: sink, Folder: folder}))
	t.cleanup(func() { _ = p.Stop() })
	return p.Addr
}

// An smtpSink is Postfix' smtp-sink, which takes every mail and counts.
type smtpSink struct {
	address string
	count   atomic.Int64
}

func (t *trial) startSink() *smtpSink {
	s := &smtpSink{address: try(machine.FreeAddress("127.0.0.1"))}
	args := []string{"-c", "-m", "1000", s.address, "1000"}
	if os.Geteuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...)
	}
	p := t.launch(machine.Task{Program: program("smtp-sink"), Args: args, Talks: true, Quit: syscall.SIGKILL}, "tcp",
		s.address)
	go s.read(p.Out)
	return s
}

// read reads what smtp-sink prints after every mail, which ends with a carriage return: sess=12 quit=3 mesg=456.
func (s *smtpSink) read(out io.Reader) {
	buf, rest := make([]byte, 64<<10), ""
	for {
		n, err := out.Read(buf)
		text := rest + string(buf[:n])
		last := strings.LastIndexByte(text, '\r')
		rest = text[last+1:]
		if i := strings.LastIndex(text[:last+1], "mesg="); i >= 0 {
			count, _ := strconv.ParseInt(strings.TrimSpace(text[i+len("mesg="):last]), 10, 64)
			s.count.Store(count)
		}
		if err != nil {
			return
		}
	}
}

// arrived waits until so many mails have arrived.
func arrived(count *atomic.Int64, n int64) {
	until(func() bool { return count.Load() >= n },
		func() error { return fmt.Errorf("%d mails have arrived, and not %d", count.Load(), n) })
}
