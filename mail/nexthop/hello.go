package nexthop

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"strconv"
	"strings"
)

type extensions struct {
	pipelining, eightBit, utf8, dsn, startTLS bool

	plain, login bool  // mechanisms of AUTH
	size         int64 // largest message; 0: unknown
	sized        bool  // MAIL may have SIZE
	recipients   int   // most recipients of a message (RFC 9422); 0: unknown
}

func (e *extensions) add(line []byte) {
	// Old servers write AUTH=LOGIN.
	fields := bytes.Fields(bytes.ToUpper(bytes.Replace(line, []byte("AUTH="), []byte("AUTH "), 1)))
	if len(fields) == 0 {
		return
	}
	flags := map[string]*bool{"PIPELINING": &e.pipelining, "8BITMIME": &e.eightBit, "SMTPUTF8": &e.utf8, "DSN": &e.dsn,
		"STARTTLS": &e.startTLS}
	if flag := flags[string(fields[0])]; flag != nil {
		*flag = true
	}
	switch string(fields[0]) {
	case "AUTH":
		for _, f := range fields[1:] {
			e.plain = e.plain || string(f) == "PLAIN"
			e.login = e.login || string(f) == "LOGIN"
		}
	case "SIZE":
		e.sized = true
		if len(fields) > 1 {
			if n, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil && n > 0 {
				e.size = n
			}
		}
	case "LIMITS":
		for _, f := range fields[1:] {
			if text, found := strings.CutPrefix(string(f), "RCPTMAX="); found {
				if n, err := strconv.Atoi(text); err == nil && n > 0 {
					e.recipients = n
				}
			}
		}
	}
}

// open greets the server, and encrypts the connection as the mode says.
func (c *conn) open(ctx context.Context, hello string, s safety) *trouble {
	if c.server.implicit {
		if t := c.encrypt(ctx, s); t != nil {
			return t
		}
	}
	r, err := c.read(c.limits.Command.Std(), nil)
	if err != nil {
		return c.lost("waiting for the greeting", err)
	}
	if r.class() != 2 {
		t := c.declined("the server takes no connections", r)
		t.busy = r.class() == 4
		return t
	}
	if t := c.hello(hello); t != nil {
		return t
	}
	if s.mode == TLSOff {
		return nil
	}
	return c.startTLS(ctx, hello, s)
}

func (c *conn) hello(name string) *trouble {
	word := "EHLO "
	if c.server.lmtp {
		word = "LHLO "
	}
	c.ext = extensions{}
	r, err := c.ask(c.ext.add, word, name)
	if err == nil && r.class() == 5 && !c.server.lmtp {
		// It may be too old for EHLO.
		c.ext = extensions{}
		r, err = c.ask(nil, "HELO ", name)
	}
	if err != nil {
		return c.lost("greeting the server", err)
	}
	if r.class() != 2 {
		return c.declined("the server refuses the greeting", r)
	}
	return nil
}

func (c *conn) startTLS(ctx context.Context, hello string, s safety) *trouble {
	if !c.ext.startTLS {
		if s.mode == TLSRequire {
			return c.insecure("the server offers no TLS")
		}
		return nil
	}
	r, err := c.ask(nil, "STARTTLS")
	if err != nil {
		return c.lost("beginning TLS", err)
	}
	if r.class() != 2 {
		if s.mode == TLSRequire || r.code == 421 {
			return c.declined("the server begins no TLS", r)
		}
		return nil
	}
	if c.in.Buffered() > 0 {
		// Somebody in between may have inserted what would be taken for an answer under TLS.
		return c.insecure("the server says more before TLS begins than it should")
	}
	if t := c.encrypt(ctx, s); t != nil {
		return t
	}
	return c.hello(hello)
}

func (c *conn) encrypt(ctx context.Context, s safety) *trouble {
	c.within(c.limits.Connect.Std())
	encrypted := tls.Client(c.Conn, s.config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return c.insecure("TLS: " + plainly(err))
	}
	c.wrap(encrypted)
	c.secure = true
	return nil
}

// logIn sends a name and a password (RFC 4954).
func (c *conn) logIn(user, password string) *trouble {
	if !c.secure {
		return c.insecure("no TLS, and the password is sent only over TLS")
	}
	encoded := base64.StdEncoding.EncodeToString
	var r reply
	var err error
	switch {
	case c.ext.plain:
		r, err = c.ask(nil, "AUTH PLAIN ", encoded([]byte("\x00"+user+"\x00"+password)))
	case c.ext.login:
		r, err = c.ask(nil, "AUTH LOGIN")
		for _, answer := range [...]string{user, password} {
			if err == nil && r.code == 334 {
				r, err = c.ask(nil, encoded([]byte(answer)))
			}
		}
	default:
		return c.insecure("the server offers neither AUTH PLAIN nor AUTH LOGIN")
	}
	if err != nil {
		return c.lost("logging in", err)
	}
	if r.class() != 2 {
		return c.declined("the server refuses the login", r)
	}
	return nil
}
