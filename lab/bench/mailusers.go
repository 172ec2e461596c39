//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"weir/store"
	"weir/store/sqlite"
)

// benchPassword is everybody's.
const benchPassword = "correct horse"

func userName(n int) string { return fmt.Sprintf("user%06d", n) }

// addUsers makes users in a store that nobody has open, with the passwords as they are stored. state, where it is not
// nil, is what the throttle remembers of each.
func addUsers(folder string, n int, passwords func(int) string, state []byte) (err error) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Options{Folder: folder})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	const batch = 5000
	for at := 0; at < n; at += batch {
		err := s.Mail().Update(ctx, func(tx store.MailTx) error {
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
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A driver is a crowd of users who log in and send a few mails each to a friend, some of them at once.
type driver struct {
	address      string
	users, mails int // mails of each
	step         int // from one user to the next
	bytes        int
}

func (d *driver) run() error {
	text := mailText(d.bytes)
	users := make(chan int)
	errs := make(chan error, mailSessions)
	var sending sync.WaitGroup
	for range mailSessions {
		sending.Go(func() {
			for n := range users {
				if err := d.session(n*d.step, text); err != nil {
					errs <- fmt.Errorf("%s: %w", userName(n*d.step), err)
					return
				}
			}
		})
	}
	var failed error
	for n := 0; n < d.users && failed == nil; n++ {
		select {
		case users <- n:
		case failed = <-errs:
		}
	}
	close(users)
	sending.Wait()
	close(errs)
	return errors.Join(failed, <-errs)
}

// session is one user's. Like smtp-source it waits for each answer.
func (d *driver) session(n int, text []byte) error {
	c, err := dialMail(d.address, "")
	if err != nil {
		return err
	}
	defer c.Close()
	name := userName(n)
	sender, friend := name+"@example.com", fmt.Sprintf("friend%d@example.org", n)
	if err := c.logIn(name, benchPassword); err != nil {
		return err
	}
	for range d.mails {
		if err := c.send(sender, friend, text); err != nil {
			return err
		}
	}
	return c.say("221", "QUIT\r\n")
}

// mailText is the text of a mail, up to and with its final dot, of so many bytes as smtp-source counts them: without
// the header.
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
	last []byte // what the server said last; until it says something else
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

func (c *mailConn) logIn(name, password string) error {
	return c.say("235", "AUTH PLAIN "+base64.StdEncoding.EncodeToString([]byte("\x00"+name+"\x00"+password))+"\r\n")
}

// send sends a mail whose text ends with its final dot.
func (c *mailConn) send(sender, recipient string, text []byte) error {
	if err := c.say("250", "MAIL FROM:<", sender, ">\r\n"); err != nil {
		return err
	}
	if err := c.say("250", "RCPT TO:<", recipient, ">\r\n"); err != nil {
		return err
	}
	if err := c.say("354", "DATA\r\n"); err != nil {
		return err
	}
	if _, err := c.Write(text); err != nil {
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
