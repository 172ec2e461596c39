package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"weir/throttle/stamp/payer"
)

const (
	soakUsers    = 8  // of mail
	soakFriends  = 40 // people that each of them writes to
	soakAccounts = 1000
	soakPassword = "correct horse"
)

func soakUser(n int) string { return fmt.Sprintf("user%d", n) }

// A driver makes one kind of load, so many times a second.
type driver struct {
	name  string
	rate  int
	begin func() (step func(n int) error, end func())
}

// allDrivers is the whole mixture, about 200 a second.
func (s *soak) allDrivers() []driver {
	return []driver{
		{"http", 50, s.driveHTTP},
		{"http, hurried", 10, s.driveHurried},
		{"http/2", 30, s.driveSecure},
		{"stamps", 20, s.drivePaid},
		{"extra gate", 5, s.driveExtra},
		{"tcp", 10, s.driveTCP},
		{"udp", 10, s.driveUDP},
		{"mail", 5, s.driveMail},
		{"api", 20, s.driveAPI},
		{"forward-auth", 20, s.driveAuth},
		{"policy service", 20, s.drivePolicy},
	}
}

// serveHello is the service behind the gates.
func serveHello(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Write(bytes.Repeat([]byte("hello "), rand.IntN(1000)))
}

// fetch sends a request as some account from some source, and wants one of these answers.
func fetch(client *http.Client, r *http.Request, want ...int) error {
	r.Header.Set("X-Api-Key", fmt.Sprint("account", rand.IntN(soakAccounts)))
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.18.%d.%d", rand.IntN(256), rand.IntN(256)))
	resp, err := client.Do(r)
	if err != nil {
		return errors.Unwrap(err) // without its URL
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	for _, code := range want {
		if resp.StatusCode == code {
			return nil
		}
	}
	return fmt.Errorf("status %d", resp.StatusCode)
}

func request(method, url string, body string) *http.Request {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	return r
}

func (s *soak) driveHTTP() (func(int) error, func()) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	return func(n int) error {
		switch path := "http://" + s.at["plain"] + "/v1"; n % 10 {
		case 0:
			return fetch(client, request("POST", path, strings.Repeat("x", rand.IntN(100_000))), 200)
		case 1:
			return fetch(client, request("GET", "http://"+s.at["plain"]+"/few", ""), 200, 429)
		default:
			return fetch(client, request("GET", path, ""), 200)
		}
	}, client.CloseIdleConnections
}

// driveHurried are those who leave before they are answered.
func (s *soak) driveHurried() (func(int) error, func()) {
	return func(n int) error {
		c, err := net.Dial("tcp", s.at["plain"])
		if err != nil {
			return err
		}
		defer c.Close()
		head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nX-Api-Key: account%d\r\nContent-Length: 50\r\n\r\n",
			n%soakAccounts)
		_, err = io.WriteString(c, head+strings.Repeat("x", n%51))
		return err
	}, func() {}
}

func (s *soak) driveSecure() (func(int) error, func()) {
	transport := s.secure.Client().Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = true
	transport.TLSClientConfig = &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs, ServerName: "example.com"}
	client := &http.Client{Timeout: time.Minute, Transport: transport}
	return func(n int) error {
		if n%300 == 299 {
			client.CloseIdleConnections()
		}
		return fetch(client, request("GET", "https://"+s.at["secure"]+"/v1", ""), 200)
	}, client.CloseIdleConnections
}

func (s *soak) drivePaid() (func(int) error, func()) {
	base := &http.Transport{}
	client := &http.Client{Timeout: time.Minute, Transport: &payer.Transport{Base: base, Workers: 1}}
	return func(int) error {
		return fetch(client, request("GET", "http://"+s.at["paid"]+"/", ""), 200)
	}, base.CloseIdleConnections
}

// driveExtra asks the gate that comes and goes, over connections that a reload finds open.
func (s *soak) driveExtra() (func(int) error, func()) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	return func(int) error {
		_ = fetch(client, request("GET", "http://"+s.at["extra"]+"/", ""))
		return nil
	}, client.CloseIdleConnections
}

func (s *soak) driveTCP() (func(int) error, func()) {
	return func(int) error {
		c, err := net.Dial("tcp", s.at["tcp"])
		if err != nil {
			return err
		}
		defer c.Close()
		return echoed(c, time.Minute)
	}, func() {}
}

// driveUDP asks again when no answer comes, as clients of UDP do: the gate forgets a client after a second.
func (s *soak) driveUDP() (func(int) error, func()) {
	return func(int) (err error) {
		for range 10 {
			if err = s.packet(); err == nil {
				break
			}
		}
		return err
	}, func() {}
}

func (s *soak) packet() error {
	c, err := net.Dial("udp", s.at["udp"])
	if err != nil {
		return err
	}
	defer c.Close()
	return echoed(c, 5*time.Second)
}

func echoed(c net.Conn, patience time.Duration) error {
	c.SetDeadline(time.Now().Add(patience))
	said, heard := []byte("hello"), make([]byte, 5)
	if _, err := c.Write(said); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, heard); err != nil || !bytes.Equal(said, heard) {
		return fmt.Errorf("%q, %w", heard, err)
	}
	return nil
}

// driveMail sends messages, some to several people, a few in a session.
func (s *soak) driveMail() (func(int) error, func()) {
	var c *smtp.Client
	var user string
	end := func() {
		if c != nil {
			c.Quit()
			c.Close()
			c = nil
		}
	}
	return func(n int) (err error) {
		if c == nil {
			user = soakUser(rand.IntN(soakUsers))
			if c, err = smtp.Dial(s.at["mail"]); err != nil {
				return err
			}
			if err := c.Auth(sasl.NewPlainClient("", user, soakPassword)); err != nil {
				return err
			}
		}
		to := []string{friend(user)}
		if n%10 == 0 {
			to = append(to, "another."+friend(user))
		}
		text := "Subject: soak\r\n\r\n" + strings.Repeat("hello\r\n", rand.IntN(3000))
		if n%100 == 0 {
			text += strings.Repeat("a large message\r\n", 20_000)
		}
		if err := c.SendMail(user+"@example.org", to, strings.NewReader(text)); err != nil {
			return err
		}
		s.accepted.Add(int64(len(to)))
		if n%7 == 6 {
			end()
		}
		return nil
	}, end
}

func friend(user string) string {
	return fmt.Sprintf("%s.friend%d@example.net", user, rand.IntN(soakFriends))
}

func (s *soak) driveAPI() (func(int) error, func()) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	return func(n int) error {
		question := `{"policy": "edge", "source": "192.0.2.1"}`
		if n%2 == 0 { // a hold that nobody settles
			question = fmt.Sprintf(`{"policy": "plans", "account": "account%d", "hold": true}`, n%soakAccounts)
		}
		r := request("POST", "http://"+s.at["api"]+"/v1/decide", question)
		r.Header.Set("Authorization", "Bearer change-me-0123456789")
		return fetch(client, r, 200)
	}, client.CloseIdleConnections
}

func (s *soak) driveAuth() (func(int) error, func()) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	return func(int) error {
		r := request("GET", "http://"+s.at["auth"]+"/", "")
		r.Header.Set("X-Original-URI", "/v1/things")
		r.Header.Set("X-Original-Method", "GET")
		return fetch(client, r, 200, 204)
	}, client.CloseIdleConnections
}

// drivePolicy asks as Postfix does: about a recipient, and at the end of the message.
func (s *soak) drivePolicy() (func(int) error, func()) {
	var c net.Conn
	end := func() {
		if c != nil {
			c.Close()
			c = nil
		}
	}
	return func(n int) (err error) {
		if c == nil {
			if c, err = net.Dial("tcp", s.at["policy"]); err != nil {
				return err
			}
		}
		c.SetDeadline(time.Now().Add(2 * time.Minute))
		answers := bufio.NewReader(c)
		user := soakUser(n % soakUsers)
		for _, state := range []string{"RCPT", "END-OF-MESSAGE"} {
			fmt.Fprintf(c,
				"request=smtpd_access_policy\nprotocol_state=%s\nprotocol_name=ESMTP\ninstance=%x.%d\nsender=%s@example.org\n"+
					"recipient=%s\nrecipient_count=1\nsasl_username=%s\nclient_address=127.0.0.1\n\n", state, n, n,
				user, friend(user), user)
			line, err := answers.ReadString('\n')
			if err != nil {
				return err
			}
			if !strings.HasPrefix(line, "action=DUNNO") && !strings.HasPrefix(line, "action=DEFER") {
				return errors.New(line)
			}
			answers.ReadString('\n')
		}
		if n%50 == 49 {
			end()
		}
		return nil
	}, end
}

func echoTCP(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func echoUDP(t *testing.T) string {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		for packet := make([]byte, 2048); ; {
			n, from, err := c.ReadFrom(packet)
			if err != nil {
				return
			}
			c.WriteTo(packet[:n], from)
		}
	}()
	return c.LocalAddr().String()
}
