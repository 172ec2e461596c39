//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/lab/machine"
	"weir/store"
	"weir/store/sqlite"
)

// killConfig is a weir whose throttle delays some of the mail for a moment, and stops nobody.
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

// killing is M2: weir is killed again and again while it takes and delivers mail. What it has acknowledged arrives, and
// what arrives twice is in the audit log. Since a kill does not empty the page cache, a trace shows that nothing is
// acknowledged before it is on the disk, and logs that end in the middle of something are opened.
func killing(o options) ([]figure, error) {
	kills, traced := 50, 40
	if o.quick {
		kills, traced = 2, 10
	}
	folder, err := onDisk()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	binary, err := buildWeir(folder)
	if err != nil {
		return nil, err
	}
	k, err := kill(binary, folder, kills)
	if err != nil {
		return nil, err
	}
	figures := []figure{
		{fmt.Sprintf("killed %d times under load: mails acknowledged and lost, of %d", kills, k.acknowledged), "0",
			fmt.Sprint(len(k.lost)), len(k.lost) == 0},
		{fmt.Sprintf("… delivered twice without an entry in the audit log (%d with one, of %d entries)", k.explained,
			k.entries), "0", fmt.Sprint(len(k.unexplained)), len(k.unexplained) == 0},
		{"… that arrived damaged", "0", fmt.Sprint(len(k.damaged)), len(k.damaged) == 0},
		{fmt.Sprintf("… logs torn, opened again, and found wanting, of %d", k.torn), "0", fmt.Sprint(len(k.wanting)),
			len(k.wanting) == 0},
	}
	for _, what := range [][]string{k.lost, k.unexplained, k.damaged, k.wanting} {
		for _, one := range what[:min(len(what), 10)] {
			fmt.Fprintln(os.Stderr, "M2:", one)
		}
	}
	early, err := traceAcknowledged(binary, folder, traced)
	if errors.Is(err, errors.ErrUnsupported) {
		fmt.Fprintln(os.Stderr, "M2: the trace is left out:", err)
		return figures, nil
	}
	if err != nil {
		return nil, err
	}
	for _, one := range early {
		fmt.Fprintln(os.Stderr, "M2:", one)
	}
	return append(figures,
		figure{fmt.Sprintf("mails acknowledged before an fsync of what has them was complete, of %d (a trace of "+
			"system calls; one in five in a file)", traced),
			"0", fmt.Sprint(len(early)), len(early) == 0}), nil
}

// killed is what came of kills.
type killed struct {
	acknowledged       int
	lost               []string // acknowledged, and never arrived
	unexplained        []string // arrived more often than the audit log says it may have
	damaged            []string
	explained, entries int
	torn               int
	wanting            []string
}

// kill runs weir, lets a crowd send mail, and kills it in the middle, so many times. Then it waits until all mail is
// delivered.
func kill(binary, folder string, times int) (*killed, error) {
	k := &killed{}
	data := filepath.Join(folder, "killed")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	end, err := startEnd()
	if err != nil {
		return nil, err
	}
	defer end.stop()
	// The crowd tries again until somebody answers there. Nobody else takes a port of that address meanwhile.
	address, err := machine.FreeAddress("127.0.1.200")
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(killConfig, data, address, end.address)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	people := &crowd{address: address, acknowledged: map[string]bool{}}
	people.more.L = &people.mu
	chance := rand.New(rand.NewPCG(uint64(times), 7))
	for n := range times {
		w, err := runWeir(data, config, os.Stderr, binary)
		if err != nil {
			return nil, fmt.Errorf("after %d kills: %w", n, err)
		}
		if n == 0 {
			people.start(ctx)
		}
		err = people.await(chance.IntN(150)) // or at once
		w.Kill()
		if err != nil {
			return nil, err
		}
		if n%10 == 1 {
			if err := k.tear(data, folder, chance); err != nil {
				return nil, err
			}
		}
	}
	cancel()
	people.wait()
	w, err := runWeir(data, config, os.Stderr, binary)
	if err != nil {
		return nil, err
	}
	err = w.emptied()
	w.Stop()
	if err != nil {
		return nil, err
	}
	return k, k.judge(data, people, end)
}

// emptied waits until everything is delivered.
func (r *running) emptied() error {
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		p, err := r.control.Queue(context.Background(), store.LetterQuery{}, 1)
		if err != nil {
			return err
		}
		if len(p.Mails) == 0 {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("mail is still there: %+v", p.Mails[0])
		}
	}
}

// judge compares what was acknowledged with what has arrived, and with the audit log.
func (k *killed) judge(data string, people *crowd, end *end) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Options{Folder: data})
	if err != nil {
		return err
	}
	defer s.Close()
	doubted := map[string]int{} // by mail
	err = s.Mail().View(ctx, func(tx store.MailTx) error {
		for before := int64(0); ; {
			page, err := tx.Entries(before, 1000)
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
	})
	if err != nil {
		return err
	}
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
	return nil
}

// A crowd sends mail from several addresses of this machine, each of which is a user, and goes on whatever becomes of
// the server.
type crowd struct {
	address string
	sending sync.WaitGroup

	mu           sync.Mutex
	more         sync.Cond
	acknowledged map[string]bool // by subject
}

const crowdSize = 8

func (c *crowd) start(ctx context.Context) {
	for n := range crowdSize {
		c.sending.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(n), 3))
			for i := 0; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) { // nobody answers, for the moment
				c.session(ctx, chance, n, &i)
			}
		})
	}
}

func (c *crowd) wait() { c.sending.Wait() }

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
		c.more.Broadcast()
		c.mu.Unlock()
	}
}

// await waits until so many more mails were acknowledged.
func (c *crowd) await(n int) error {
	late := time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.more.Broadcast()
	})
	defer late.Stop()
	end := time.Now().Add(patience)
	c.mu.Lock()
	defer c.mu.Unlock()
	for want := len(c.acknowledged) + n; len(c.acknowledged) < want; c.more.Wait() {
		if time.Now().After(end) {
			return fmt.Errorf("%d mails are acknowledged, and no more", len(c.acknowledged))
		}
	}
	return nil
}
