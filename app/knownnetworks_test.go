package app_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"weir/console"
	"weir/console/access"
)

// dialer dials from an address of loopback.
func dialer(address string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: patience}
}

// A lobby is a running weir, and one of the ways in.
type lobby struct {
	*post
	gate            string // its options
	at              func(address, name, password string) int
	in, wrong, late int // the codes of at
	makes           func(name string)
	right           string // the password
	home            string // an address
	elsewhere       func(i int) string
}

// atGate logs in by SMTP.
func (p *post) atGate(address, name, password string) int {
	p.t.Helper()
	conn, err := dialer(address).Dial("tcp", p.app.Addr("smtp", 0).String())
	if err != nil {
		p.t.Error(err)
		return 0
	}
	c := smtp.NewClient(conn)
	defer c.Close()
	return code(c.Auth(sasl.NewPlainClient("", name, password)))
}

// atConsole logs in with a new browser.
func (p *post) atConsole(address, name, password string) int {
	p.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	transport := &http.Transport{DialContext: dialer(address).DialContext}
	defer transport.CloseIdleConnections()
	v := &pageUser{p.t, "http://" + p.app.ConsoleAddr().String(), &http.Client{Jar: jar, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	_, body := v.page("/login")
	code, _ := v.post("/login", body, "name", name, "password", password)
	return code
}

// lobbies are all ways in with a password.
func lobbies(t *testing.T) map[string]*lobby {
	gate := func(options, right string) *lobby {
		l := &lobby{post: newPost(t, "rate: 1/m", options, ""), gate: options, right: right, in: 250, wrong: 535,
			late: 454, home: "127.0.0.1", elsewhere: func(i int) string { return fmt.Sprintf("127.0.%d.1", i+1) }}
		l.at, l.makes = l.atGate, func(name string) { l.user(name) }
		return l
	}
	site := gate("", password)
	site.at, site.in, site.wrong, site.late = site.atConsole, 303, 403, 429
	site.makes = func(name string) {
		if _, err := console.OperatorAddCall.Ask(t.Context(), site.control,
			console.NewOperator{Name: name, Role: access.View, Password: password}); err != nil {
			t.Fatal(err)
		}
	}
	p, v := newPages(t, "", ", trusted_proxies: [127.0.0.1/32]")
	page := &lobby{post: p, right: password, in: 303, wrong: 403, late: 429, home: "192.0.2.1",
		elsewhere: func(i int) string { return fmt.Sprintf("198.51.100.%d", i+1) }}
	page.makes = func(name string) { p.user(name) }
	page.at = func(address, name, password string) int {
		c := &http.Client{Transport: through(address), CheckRedirect: v.client.CheckRedirect}
		code, _ := (&pageUser{t, v.site, c}).logIn(name, password)
		return code
	}
	hop := gate("auth: next_hop\n  realm: example.org", "next hop knows")
	return map[string]*lobby{"gate": gate("", password), "gate, by the next hop": hop, "console": site, "page": page}
}

// again stops weir and starts it with the same folder.
func (l *lobby) again() {
	l.stop()
	l.start(l.config("rate: 1/m", l.gate))
}

// gets wants the code of a login.
func (l *lobby) gets(want int, address, name, password string) {
	l.t.Helper()
	if got := l.at(address, name, password); got != want {
		l.t.Fatalf("%s from %s: %d, want %d", name, address, got, want)
	}
}

// TestOwnerIsNotLockedOut: whatever somebody guesses elsewhere, in whatever spelling of the name, the owner logs in at
// once from a network that they have used within thirty days, also after a restart in between. Elsewhere they can a
// minute after the guesses have ended.
func TestOwnerIsNotLockedOut(t *testing.T) {
	t.Parallel()
	for name, l := range lobbies(t) {
		t.Run(name, func(t *testing.T) {
			l.makes("ann")
			l.gets(l.in, l.home, "ann", l.right)
			l.again()
			l.clock.Leap(29 * 24 * time.Hour)
			late := 0
			for i := range 120 {
				switch got := l.at(l.elsewhere(i), []string{"ann", "ANN", " ann"}[i%3], "guess"); got {
				case l.wrong:
				case l.late:
					late++
				default:
					t.Fatalf("guess %d: %d", i, got)
				}
			}
			if late < 20 {
				t.Errorf("%d guesses were not looked at", late)
			}
			l.gets(l.late, l.elsewhere(199), "ann", l.right)
			l.gets(l.in, l.home, "ann", l.right)
			l.clock.Advance(time.Minute)
			l.gets(l.in, l.elsewhere(199), "ann", l.right)
		})
	}
}

// TestCampus: behind one address somebody guesses, of whatever names. All who have logged in from there log in, also
// after a restart; and so does everybody else a minute after the guesses have ended.
func TestCampus(t *testing.T) {
	t.Parallel()
	for name, l := range lobbies(t) {
		t.Run(name, func(t *testing.T) {
			people := 20
			if l.right != password {
				people = 1 // the next hop knows one
			}
			who := func(i int) string {
				if people == 1 {
					return "ann"
				}
				return fmt.Sprint("user", i)
			}
			for i := range people {
				l.makes(who(i))
				l.gets(l.in, l.home, who(i), l.right)
			}
			l.again()
			late := 0
			for i := range 80 {
				if l.at(l.home, fmt.Sprint("nobody", i%50), "guess") == l.late {
					late++
				}
			}
			if late < 10 {
				t.Errorf("%d guesses were not looked at", late)
			}
			for i := range people {
				l.gets(l.in, l.home, who(i), l.right)
			}
			if people > 1 {
				l.makes("newcomer")
				l.gets(l.late, l.home, "newcomer", l.right)
				l.clock.Advance(time.Minute)
				l.gets(l.in, l.home, "newcomer", l.right)
			}
		})
	}
}

// TestThiefAtHome: whoever guesses in a user's own network has a bound there, for that user alone, and gets the answers
// that they get for a user who does not exist.
func TestThiefAtHome(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann")
	p.user("bob")
	for _, name := range []string{"ann", "bob"} {
		if got := p.atGate("127.0.0.1", name, password); got != 250 {
			t.Fatal(got)
		}
	}
	if got := p.atGate("127.0.9.1", "ann", password); got != 250 {
		t.Fatal(got)
	}
	p.clock.Advance(time.Hour) // no password is remembered
	codes := map[string]map[int]int{}
	for _, name := range []string{"ann", "nobody"} {
		codes[name] = map[int]int{}
		for i := range 30 {
			codes[name][p.atGate("127.0.0.1", name, fmt.Sprint("guess ", i))]++
		}
		if got := p.atGate("127.0.0.1", "bob", password); got != 250 {
			t.Errorf("bob, beside them: %d", got)
		}
		p.clock.Advance(10 * time.Minute) // for the limit of the network
	}
	if fmt.Sprint(codes["ann"]) != fmt.Sprint(codes["nobody"]) || codes["ann"][535] != 20 {
		t.Errorf("%v", codes)
	}
	for range 20 {
		p.atGate("127.0.0.1", "ann", "guess")
	}
	if got := p.atGate("127.0.0.1", "ann", password); got != 454 {
		t.Errorf("ann, beside them: %d", got)
	}
	if got := p.atGate("127.0.9.1", "ann", password); got != 250 {
		t.Errorf("ann elsewhere: %d", got)
	}
}

// TestGuessesAndTheLink: guesses on the page for logins do not keep the holder of a link from changing the contact.
func TestGuessesAndTheLink(t *testing.T) {
	t.Parallel()
	p, v := newPages(t, "", "")
	_, notice := p.stopped()
	at := strings.TrimPrefix(link.FindString(strings.ReplaceAll(notice.text, "=\r\n", "")), v.site)
	p.clock.Advance(time.Hour) // no password is remembered
	codes := map[int]int{}
	for range 15 {
		code, _ := v.logIn("ann", "guess")
		codes[code]++
	}
	if codes[403] != 10 || codes[429] != 5 {
		t.Errorf("%v", codes)
	}
	_, body := v.page(at)
	code, said := v.post(at, body, "do", "contact", "password", password, "contact", "ann@new.example")
	if u, err := console.UserShowCall.Ask(t.Context(), p.control, console.Name{Name: "ann"}); err != nil ||
		u.Contact != "ann@new.example" {
		t.Errorf("%d %s: %+v, %v", code, said, u, err)
	}
}

// TestAFloodOfPasswords: so many strangers guess at once that their passwords find no place in the line. Owners log in
// at once, although their passwords are not remembered.
func TestAFloodOfPasswords(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	const owners = 5
	for i := range owners {
		p.user(fmt.Sprint("owner", i))
		if got := p.atGate("127.0.0.1", fmt.Sprint("owner", i), password); got != 250 {
			t.Fatal(got)
		}
	}
	p.clock.Advance(time.Hour)
	var flood sync.WaitGroup
	busy, over := make(chan struct{}), make(chan struct{})
	full := sync.OnceFunc(func() { close(busy) })
	for i := range 200 {
		flood.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-over:
					return
				default:
				}
				if p.atGate(fmt.Sprintf("127.%d.%d.1", 1+k%100, i), fmt.Sprint("nobody", i, ".", k), "guess") == 454 {
					full()
				}
			}
		})
	}
	<-busy
	for i := range owners {
		if got := p.atGate("127.0.0.1", fmt.Sprint("owner", i), password); got != 250 {
			t.Errorf("owner %d: %d", i, got)
		}
	}
	close(over)
	flood.Wait()
}
