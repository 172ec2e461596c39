//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-smtp"

	"weir/console"
	"weir/lab/machine"
	"weir/store"
	"weir/store/sqlite"
)

// killConfig is a weir whose throttle delays some mail for a moment, and stops no user.
const killConfig = `
data: %s
smtp:
- listen: %s
  next_hop: %s
  networks: [127.0.0.0/8]
  throttles: [outgoing]
  admin: postmaster@example.org
  command: weir@example.org
throttles:
  outgoing: {mail: {rate: 50/s, stop: 10000}}
console: {listen: "off"}
log: {level: error}
`

// killing is M2: weir is killed again and again while it takes and delivers mail. Every acknowledged mail must arrive,
// and a mail that arrives twice must be in the audit log. A kill does not empty the page cache: so a test of cmd/weir
// traces what is written and synced, and cuts the power anywhere in it.
func killing(t *trial) []figure {
	kills := pick(t, 200, 2)
	folder := t.folderOnDisk()
	k := t.kill(buildWeir(folder), folder, kills)
	var figures []figure
	add := func(what string, wrong []string) {
		figures = append(figures, figure{what, []value{none(len(wrong))}, ""})
		for _, one := range wrong[:min(len(wrong), 10)] {
			fmt.Fprintln(os.Stderr, "M2:", one)
		}
	}
	add(fmt.Sprintf("killed %d times under load: mails acknowledged and lost, of %d", kills, k.acknowledged), k.lost)
	add(fmt.Sprintf("… delivered twice without an entry in the audit log (%d with one, of %d entries)", k.explained,
		k.entries), k.unexplained)
	add("… that arrived damaged", k.damaged)
	t.long()
	cut := t.logged("./cmd/weir", "^TestPowerCut$",
		`(\d+) mails acknowledged, (\d+) power cuts: a mail was due (\d+) times, and lost (\d+) times`)
	return append(figures, figure{fmt.Sprintf("power cut %.0f times in a trace of the system calls for %.0f mails, where all "+
		"that was not synced may be lost or torn: acknowledged mails missing, of %.0f", cut[1], cut[0], cut[2]),
		[]value{none(int(cut[3]))}, ""})
}

// killed is the result of some kills.
type killed struct {
	acknowledged       int
	lost               []string // acknowledged, and never arrived
	unexplained        []string // arrived more often than the audit log explains
	damaged            []string
	explained, entries int
}

// kill runs weir, lets a crowd send mail, and kills weir in the middle, so many times. Then it waits until all mail is
// delivered.
func (t *trial) kill(binary, folder string, times int) *killed {
	k, data, end := &killed{}, subfolder(folder, "killed"), t.startEnd()
	// The crowd tries again until weir answers there. No other process takes a port of that address meanwhile.
	address := try(machine.FreeAddress("127.0.1.200"))
	config := fmt.Sprintf(killConfig, data, address, end.address)
	people := &crowd{address: address, acknowledged: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	leave := sync.OnceFunc(func() {
		cancel()
		people.sending.Wait()
	})
	t.cleanup(leave)
	chance := rand.New(rand.NewPCG(uint64(times), 7))
	for n := range times {
		w := t.runWeir(data, config, os.Stderr, binary)
		if n == 0 {
			people.start(ctx)
		}
		want := people.count() + chance.IntN(150) // or at once
		until(func() bool { return people.count() >= want },
			func() error { return fmt.Errorf("%d mails are acknowledged, and no more", people.count()) })
		w.Kill()
	}
	leave()
	w := t.runWeir(data, config, os.Stderr, binary)
	w.emptied()
	w.Stop()
	k.judge(data, people, end)
	return k
}

// emptied waits until all mail is delivered.
func (r *running) emptied() {
	var left console.MailPage
	until(func() bool {
		left = try(console.QueueListCall.Ask(context.Background(), r.control, console.MailQuery{Limit: 1}))
		return len(left.Mails) == 0
	}, func() error { return fmt.Errorf("mail is still there: %+v", left.Mails[0]) })
}

// judge compares what was acknowledged with what has arrived, and with the audit log.
func (k *killed) judge(data string, people *crowd, end *end) {
	ctx := context.Background()
	s := try(sqlite.Open(ctx, sqlite.Options{Folder: data}))
	defer s.Close()
	doubted := map[string]int{} // by mail
	check(s.Mail().View(ctx, func(tx store.MailTx) error {
		for before := int64(0); ; {
			page, err := tx.Entries(store.EntryQuery{Before: before}, 1000)
			if err != nil || len(page) == 0 {
				return err
			}
			for _, e := range page {
				if e.What == "ambiguous" {
					doubted[e.Mail.String()]++
					k.entries++
				}
				before = e.ID
			}
		}
	}))
	end.mu.Lock()
	defer end.mu.Unlock()
	k.acknowledged, k.damaged = len(people.acknowledged), end.damaged
	for subject := range people.acknowledged {
		if len(end.arrived[subject]) == 0 {
			k.lost = append(k.lost, subject+" was acknowledged, and never arrived")
		}
	}
	for subject, ids := range end.arrived {
		switch again := len(ids) - 1; {
		case again == 0:
		case again <= doubted[ids[0]]:
			k.explained++
		default:
			k.unexplained = append(k.unexplained,
				fmt.Sprintf("%s arrived %d times, as %v; the audit log doubts it %d times", subject, len(ids), ids,
					doubted[ids[0]]))
		}
	}
}

// A crowd sends mail from several addresses of this machine, each of which is a user, whether the server runs or not.
type crowd struct {
	address string
	sending sync.WaitGroup

	mu           sync.Mutex
	acknowledged map[string]bool // by subject
}

const crowdSize = 8

func (c *crowd) start(ctx context.Context) {
	for n := range crowdSize {
		c.sending.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(n), 3))
			for i := 0; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) { // the server is down for the moment
				c.session(ctx, chance, n, &i)
			}
		})
	}
}

func (c *crowd) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.acknowledged)
}

// session sends mails over one connection until it breaks.
func (c *crowd) session(ctx context.Context, chance *rand.Rand, n int, i *int) {
	conn, err := dialMail(c.address, fmt.Sprintf("127.0.1.%d", n+1))
	if err != nil {
		return
	}
	defer conn.Close()
	for ctx.Err() == nil {
		*i++
		subject := fmt.Sprintf("mail-%d-%d", n, *i)
		size := 200 + chance.IntN(4000)
		if chance.IntN(10) == 0 {
			size = store.MaxInline + chance.IntN(100_000)
		}
		to := fmt.Sprintf("friend%d@example.org", n)
		if chance.IntN(6) == 0 {
			to = fmt.Sprintf("new%d-%d@example.org", n, *i)
		}
		if conn.send(fmt.Sprintf("user%d@example.com", n), to, signedText(subject, size, chance)) != nil {
			return
		}
		c.mu.Lock()
		c.acknowledged[subject] = true
		c.mu.Unlock()
	}
}

// signedText is a mail with a checksum of its body in the header, up to and with the final dot.
func signedText(subject string, n int, chance *rand.Rand) []byte {
	var body bytes.Buffer
	for body.Len() < n {
		fmt.Fprintf(&body, "%064x\r\n", chance.Uint64())
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "From: <ann@example.com>\r\nSubject: %s\r\nX-Sum: %08x\r\n\r\n%s.\r\n", subject,
		crc32.ChecksumIEEE(body.Bytes()), body.Bytes())
	return b.Bytes()
}

// whole returns the subject of a text, and whether the text is as signedText made it.
func whole(text []byte) (subject string, is bool) {
	head, body, _ := bytes.Cut(text, []byte("\r\n\r\n"))
	sum := ""
	for line := range strings.SplitSeq(string(head), "\r\n") {
		if value, ok := strings.CutPrefix(line, "Subject: "); ok {
			subject = value
		}
		if value, ok := strings.CutPrefix(line, "X-Sum: "); ok {
			sum = value
		}
	}
	return subject, sum == fmt.Sprintf("%08x", crc32.ChecksumIEEE(body))
}

// An end is a mail server that notes every mail before it acknowledges it, after a short delay.
type end struct {
	address string

	mu      sync.Mutex
	arrived map[string][]string // by subject: the ids that weir gave it
	damaged []string
	count   atomic.Int64
}

func (t *trial) startEnd() *end {
	l := try(net.Listen("tcp", "127.0.0.1:0"))
	e := &end{address: l.Addr().String(), arrived: map[string][]string{}}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return arriving{e}, nil }))
	server.Domain = "end.example.org"
	server.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // connections are meant to break
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	t.cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return e
}

type arriving struct{ *end }

func (arriving) Reset()                               {}
func (arriving) Logout() error                        { return nil }
func (arriving) Mail(string, *smtp.MailOptions) error { return nil }
func (arriving) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (a arriving) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	a.take(text)
	time.Sleep(2 * time.Millisecond) // some kills come just then
	return nil
}

func (e *end) take(text []byte) {
	subject, intact := whole(text)
	_, id, _ := strings.Cut(string(text), " id ")
	id = id[:min(len(id), len(store.MailID(0).String()))]
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count.Add(1)
	e.arrived[subject] = append(e.arrived[subject], id)
	if !intact {
		e.damaged = append(e.damaged, subject+" arrived damaged")
	}
}
