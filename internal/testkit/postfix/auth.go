package postfix

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"weir/internal/testkit/needs"
)

// An authServer checks passwords for Postfix, in Dovecot's authentication protocol: the part of it that Postfix speaks.
type authServer struct {
	addr    string
	close   func()
	users   map[string]string
	greeted atomic.Int64
}

func newAuthServer(users map[string]string) (s *authServer, err error) {
	s = &authServer{users: users}
	s.addr, s.close, err = needs.Serve(s.serve)
	return s, err
}

func (s *authServer) serve(c net.Conn) {
	fmt.Fprintf(c,
		"VERSION\t1\t1\nMECH\tPLAIN\tplaintext\nMECH\tLOGIN\tplaintext\nSPID\t1\nCUID\t%d\nCOOKIE\t0123456789abcdef0123456789abcdef\nDONE\n", s.greeted.Add(1))
	asked := map[string]string{} // by request: the name that LOGIN gave first
	for lines := bufio.NewScanner(c); lines.Scan(); {
		fields := strings.Split(lines.Text(), "\t")
		switch {
		case fields[0] == "AUTH" && len(fields) > 2:
			s.begin(c, fields[1], fields[2], fields[3:], asked)
		case fields[0] == "CONT" && len(fields) > 2:
			s.goOn(c, fields[1], fields[2], asked)
		}
	}
}

func (s *authServer) begin(c net.Conn, id, mechanism string, more []string, asked map[string]string) {
	for _, field := range more {
		if response, ok := strings.CutPrefix(field, "resp="); ok && mechanism == "PLAIN" {
			s.plain(c, id, response)
			return
		}
	}
	asked[id] = ""
	prompt := ""
	if mechanism == "LOGIN" {
		asked[id] = "?"
		prompt = base64.StdEncoding.EncodeToString([]byte("Username:"))
	}
	fmt.Fprintf(c, "CONT\t%s\t%s\n", id, prompt)
}

func (s *authServer) goOn(c net.Conn, id, response string, asked map[string]string) {
	name, known := asked[id]
	text, err := base64.StdEncoding.DecodeString(response)
	switch {
	case !known || err != nil:
		s.answer(c, id, "", "")
	case name == "": // PLAIN
		s.plain(c, id, response)
	case name == "?":
		asked[id] = "=" + string(text)
		fmt.Fprintf(c, "CONT\t%s\t%s\n", id, base64.StdEncoding.EncodeToString([]byte("Password:")))
		return
	default:
		s.answer(c, id, name[1:], string(text))
	}
	delete(asked, id)
}

// plain reads what PLAIN sends (RFC 4616).
func (s *authServer) plain(c net.Conn, id, response string) {
	text, _ := base64.StdEncoding.DecodeString(response)
	fields := strings.Split(string(text), "\x00")
	if len(fields) != 3 {
		fields = make([]string, 3)
	}
	s.answer(c, id, fields[1], fields[2])
}

func (s *authServer) answer(c net.Conn, id, name, password string) {
	if want, ok := s.users[name]; ok && want == password {
		fmt.Fprintf(c, "OK\t%s\tuser=%s\n", id, name)
	} else {
		fmt.Fprintf(c, "FAIL\t%s\tuser=%s\n", id, name)
	}
}
