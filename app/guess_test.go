package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"weir/console"
	"weir/internal/testkit/needs"
)

// logInsAtOnce logs in over a connection for each, all at the same time, and counts the answers by their code.
func (p *post) logInsAtOnce(n int, as func(i int) (name, password string)) map[int]int {
	p.t.Helper()
	codes := make([]int, n)
	var ready, all sync.WaitGroup
	ready.Add(n)
	for i := range n {
		all.Go(func() {
			c, err := smtp.Dial(p.app.Addr("smtp", 0).String())
			if err == nil {
				defer c.Close()
				err = c.Hello("client.example")
			}
			ready.Done()
			if err != nil {
				p.t.Error(err)
				return
			}
			ready.Wait()
			name, password := as(i)
			codes[i] = code(c.Auth(sasl.NewPlainClient("", name, password)))
		})
	}
	all.Wait()
	counts := map[int]int{}
	for _, c := range codes {
		counts[c]++
	}
	return counts
}

// Ninety guesses over ninety connections at once: twenty are looked at, as if they came one after the other. Whoever
// was here before, and uses ten connections, does not notice.
func TestGuessesAtOnce(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann")
	p.user("bob")
	if codes := p.logInsAtOnce(10, func(int) (string, string) { return "ann", password }); codes[250] != 10 {
		t.Errorf("ann, for the first time, over ten connections: %v", codes)
	}
	codes := p.logInsAtOnce(90, func(i int) (string, string) { return "bob", fmt.Sprint("guess ", i) })
	if codes[535] > 20 || codes[535] < 10 || codes[535]+codes[454] != 90 {
		t.Errorf("90 guesses: %v", codes)
	}
	if codes := p.logInsAtOnce(10, func(int) (string, string) { return "ann", password }); codes[250] != 10 {
		t.Errorf("ann, who was here before: %v", codes)
	}
	if codes := p.logInsAtOnce(1, func(int) (string, string) { return "bob", password }); codes[454] != 1 {
		t.Errorf("bob, who was not: %v", codes)
	}
}

// Two dozen users of one network come to work and log in at the same time, some of them twice: more than the network
// may guess.
func TestManyUsersOfANetwork(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	for i := range 24 {
		p.user(fmt.Sprint("user", i))
	}
	if codes := p.logInsAtOnce(30, func(i int) (string, string) {
		return fmt.Sprint("user", i%24),
			password
	}); codes[250] != 30 {
		t.Errorf("%v", codes)
	}
	// Nothing was charged for it.
	if codes := p.logInsAtOnce(5, func(i int) (string, string) {
		return fmt.Sprint("user", i),
			"guess"
	}); codes[535] != 5 {
		t.Errorf("%v", codes)
	}
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(form|token)" value="([^"]*)">`)

// Forty guesses at once on the page of a user: ten are looked at.
func TestGuessesAtOnceOnThePage(t *testing.T) {
	t.Parallel()
	address := needs.FreeAddress()
	p := newPost(t, "rate: 1/m", "", fmt.Sprintf("self_service: {listen: %q, url: %q}\n", address, "http://"+address))
	_, notice := p.stopped()
	at := link.FindString(strings.ReplaceAll(notice.text, "=\r\n", ""))
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(client.CloseIdleConnections)
	res, err := client.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	html, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"do": {"contact"}}
	for _, m := range hidden.FindAllStringSubmatch(string(html), -1) {
		form.Set(m[1], m[2])
	}
	// tell sends the form with a password, and returns what the user is told.
	tell := func(password string) string {
		own := url.Values{"password": {password}, "contact": {"eve@elsewhere.example"}}
		for k, v := range form {
			own[k] = v
		}
		res, err := client.PostForm(at, own)
		if err != nil {
			t.Error(err)
			return ""
		}
		res.Body.Close()
		said, _, _ := strings.Cut(strings.TrimPrefix(res.Header.Get("Location"), "?said="), ".")
		return said
	}
	said := make([]string, 40)
	var all sync.WaitGroup
	for i := range said {
		all.Go(func() { said[i] = tell(fmt.Sprint("guess ", i)) })
	}
	all.Wait()
	counts := map[string]int{}
	for _, s := range said {
		counts[s]++
	}
	if counts["wrong"] != 10 || counts["late"] != 30 {
		t.Errorf("%v", counts)
	}
	// Her own password is remembered, as she has logged in; the form takes it.
	if got := tell(password); got != "" {
		t.Errorf("the owner is told %q", got)
	}
	u, err := console.UserShowCall.Ask(t.Context(), p.control, console.Name{Name: "ann"})
	if err != nil || u.Contact != "eve@elsewhere.example" {
		t.Errorf("%+v, %v", u, err)
	}
}
