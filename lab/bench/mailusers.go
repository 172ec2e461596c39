//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/argon2"

	"weir/mail/login"
	"weir/store"
	"weir/store/sqlite"
)

// benchPassword is the password of every user.
const benchPassword = "correct horse"

func userName(n int) string { return fmt.Sprintf("user%06d", n) }

// addUsers makes users in a store that no process has open, with the passwords as they are stored. state is what the
// throttle remembers of each user, or nil.
func addUsers(folder string, n int, passwords func(int) string, state []byte) {
	ctx := context.Background()
	s := try(sqlite.Open(ctx, sqlite.Options{Folder: folder}))
	defer func() { check(s.Close()) }()
	const batch = 5000
	for at := 0; at < n; at += batch {
		check(s.Mail().Update(ctx, func(tx store.MailTx) error {
			for i := at; i < min(at+batch, n); i++ {
				name := userName(i)
				err := tx.PutUser(store.User{Name: name, Password: passwords(i), Contact: name + "@example.com",
					Senders: []string{name + "@example.com"}, Made: when, Changed: when})
				if err == nil && state != nil {
					err = tx.Remember(store.Memory{Throttle: "outgoing", User: name, State: state})
				}
				if err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// A driver is a crowd of users who log in and send a few mails each to a friend, some of them at once.
type driver struct {
	address      string
	users, mails int // mails of each
	step         int // from one user to the next
	bytes        int
}

func (d *driver) run() {
	text := mailText(d.bytes)
	var next atomic.Int64
	together(mailSessions, func(int) error {
		for {
			n := int(next.Add(1) - 1)
			if n >= d.users {
				return nil
			}
			if err := d.session(n*d.step, text); err != nil {
				next.Store(int64(d.users)) // the others end, too
				return fmt.Errorf("%s: %w", userName(n*d.step), err)
			}
		}
	})
}

// together runs so many goroutines, waits for them, and fails if one of them did.
func together(n int, work func(n int) error) {
	errs := make(chan error, n)
	var working sync.WaitGroup
	for i := range n {
		working.Go(func() {
			if err := work(i); err != nil {
				errs <- err
			}
		})
	}
	working.Wait()
	close(errs)
	check(<-errs)
}

// session is one user's. Like smtp-source it waits for each answer.
func (d *driver) session(n int, text []byte) error {
	c, err := dialMail(d.address, "")
	if err != nil {
		return err
	}
	defer c.Close()
	name := userName(n)
	err = c.say("235", "AUTH PLAIN ", base64.StdEncoding.EncodeToString([]byte("\x00"+name+"\x00"+benchPassword)),
		"\r\n")
	sender, friend := name+"@example.com", fmt.Sprintf("friend%d@example.org", n)
	for i := 0; i < d.mails && err == nil; i++ {
		err = c.send(sender, friend, text)
	}
	if err != nil {
		return err
	}
	return c.say("221", "QUIT\r\n")
}

// mailText is the text of a mail, up to and with its final dot. It has so many bytes as smtp-source counts them:
// without the header.
func mailText(n int) []byte {
	var b bytes.Buffer
	b.WriteString("From: <ann@example.com>\r\nTo: <bob@example.org>\r\nSubject: test\r\nDate: Mon, 02 Mar 2026 " +
		"12:00:00 +0000\r\nMessage-Id: <1@example.com>\r\n\r\n")
	line := strings.Repeat("X", 78) + "\r\n"
	for ; n > 0; n -= len(line) {
		b.WriteString(line[max(0, len(line)-n):])
	}
	b.WriteString(".\r\n")
	return b.Bytes()
}

// A mailConn is a session of a client.
type mailConn struct {
	net.Conn
	in   *bufio.Reader
	out  []byte // reused
	last []byte // what the server said last; valid until the next answer
}

// dialMail connects, from an address of this machine if one is given, and greets.
func dialMail(address, from string) (*mailConn, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	nc, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	_ = nc.SetDeadline(time.Now().Add(patience))
	c := &mailConn{Conn: nc, in: bufio.NewReader(nc)}
	if err = c.answer("220"); err == nil {
		err = c.say("250", "EHLO client.example.com\r\n")
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// send sends a mail whose text ends with its final dot.
func (c *mailConn) send(sender, recipient string, text []byte) error {
	err := c.say("250", "MAIL FROM:<", sender, ">\r\n")
	if err == nil {
		err = c.say("250", "RCPT TO:<", recipient, ">\r\n")
	}
	if err == nil {
		err = c.say("354", "DATA\r\n")
	}
	if err == nil {
		_, err = c.Write(text)
	}
	if err != nil {
		return err
	}
	return c.answer("250")
}

func (c *mailConn) say(want string, words ...string) error {
	c.out = c.out[:0]
	for _, word := range words {
		c.out = append(c.out, word...)
	}
	if _, err := c.Write(c.out); err != nil {
		return err
	}
	return c.answer(want)
}

// answer reads an answer to its last line.
func (c *mailConn) answer(want string) error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) > 3 && line[3] == '-' {
			continue
		}
		if c.last = bytes.TrimSpace(line); string(line[:min(len(want), len(line))]) != want {
			return fmt.Errorf("the server says %q", c.last)
		}
		return nil
	}
}

// manyUsers is M3: the memory of a weir that knows a million mail users, with what the throttle remembers of each,
// while 10,000 of them log in and send mail. Most passwords are hashed with less work than weir would take, or it would
// take all day. A few are hashed as weir does, since that is what takes memory.
func manyUsers(t *trial) []figure {
	known, active, dear := pick(t, 1_000_000, 10_000), pick(t, 10_000, 100), pick(t, 20, 2)
	folder := t.folderOnDisk()
	binary, data, end := buildWeir(folder), subfolder(folder, "data"), t.startEnd()
	full, cheap := try(login.Hash(benchPassword)), cheapPassword()
	passwords := func(n int) string {
		if n/(known/active) < dear {
			return full
		}
		return cheap
	}
	start := func() *running {
		// Credit is back at once: every user gets the memory of one who has just sent a mail.
		return t.runWeir(data, fmt.Sprintf(relayConfig, data, end.address, "rate: 100/s")+"log: {level: warn}\n",
			os.Stderr, binary)
	}

	// What the throttle remembers of one user who has sent a mail is written for all of them.
	addUsers(data, 1, passwords, nil)
	w := start()
	(&driver{address: w.address, users: 1, mails: 1, step: 1, bytes: mailBytes}).run()
	arrived(&end.count, 1)
	w.Stop()
	addUsers(data, known, passwords, remembered(data, userName(0)))

	w = start()
	before := memoryKB(w.Pid, "VmRSS")
	crowd := driver{address: w.address, users: active, mails: 2, step: known / active, bytes: mailBytes}
	crowd.run()
	arrived(&end.count, int64(1+active*crowd.mails))
	return []figure{{fmt.Sprintf("memory of a weir that knows %d mail users, while %d of them log in and send (the "+
		"most that was resident)", known, active),
		[]value{most(500, float64(memoryKB(w.Pid, "VmHWM"))/1024, "%.0f MB")},
		fmt.Sprintf("%d MB at the start", before>>10)}}
}

// cheapPassword is the password of the benchmarks, hashed with next to no work.
func cheapPassword() string {
	salt := []byte("only a benchmark")
	hash := argon2.IDKey([]byte(benchPassword), salt, 1, 8, 1, 16)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=8,t=1,p=1$%s$%s", argon2.Version, encode(salt), encode(hash))
}

// remembered is what the throttle remembers of a user, in a store that no process has open.
func remembered(folder, user string) []byte {
	ctx := context.Background()
	s := try(sqlite.Open(ctx, sqlite.Options{Folder: folder}))
	defer s.Close()
	var m store.Memory
	check(s.Mail().View(ctx, func(tx store.MailTx) (err error) {
		m, err = tx.Remembered("outgoing", user)
		return err
	}))
	return m.State
}
