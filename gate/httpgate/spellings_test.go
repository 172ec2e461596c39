package httpgate

import (
	"bufio"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir"
	"weir/internal/testkit/readers"
	taker "weir/internal/testkit/recorder"
)

// A judged is a throttle that admits everything and keeps the last event.
type judged struct {
	*throttle
	mu   sync.Mutex
	last *weir.Event
}

func newJudged() *judged {
	j := &judged{throttle: newThrottle(nil)}
	j.Answer = func(ev *weir.Event, _ *weir.Answer) error {
		j.mu.Lock()
		defer j.mu.Unlock()
		seen := *ev
		j.last = &seen
		return nil
	}
	return j
}

func (j *judged) Settle(weir.Hold, weir.Outcome) {}

func (j *judged) take() *weir.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := j.last
	j.last = nil
	return last
}

// A speller is a gate for each kind of account, before one service.
type speller struct {
	gates  map[string]*rig
	judges map[string]*judged
}

func newSpeller(t *testing.T, url string) *speller {
	s := &speller{gates: map[string]*rig{}, judges: map[string]*judged{}}
	for i := range readers.Positions {
		account := readers.Positions[i].Account
		if s.gates[account] != nil {
			continue
		}
		o := Options{Upstream: to(url)}
		if account != "" {
			o.Account = []string{account}
		}
		s.judges[account] = newJudged()
		s.gates[account] = start(t, o, s.judges[account])
	}
	return s
}

// ask sends a request with a word that is spelled in some way. It returns what weir made of the word, as in
// readers.Spelling, and the service's answer.
func (s *speller) ask(p *readers.Position, text string) (weirs byte, body string) {
	r := s.gates[p.Account]
	c := r.dial()
	defer c.Close()
	r.send(c, p.Head(text))
	res, body := r.answer(bufio.NewReader(c))
	ev := s.judges[p.Account].take()
	if ev == nil {
		if res.StatusCode != http.StatusBadRequest {
			r.t.Errorf("%s %q: not judged, and %d", p.Name, text, res.StatusCode)
		}
		return '-', ""
	}
	reads, also := "", []string(nil)
	switch p.Key {
	case "path":
		reads, also = ev.Route.Path, ev.Route.Also
	case "method":
		reads = strings.ToUpper(ev.Route.Method)
	case "override":
		for _, method := range ev.Route.AlsoMethods {
			also = append(also, strings.ToUpper(method))
		}
	case "host":
		reads = ev.Route.Host
	default:
		reads = ev.Account
	}
	switch {
	case reads == p.Means:
		return '=', body
	case slices.Contains(also, p.Means) || slices.Contains(also, weir.Any):
		return '+', body
	}
	return '.', body
}

// TestSpellings: what weir makes of every spelling of what limits depend on. What goes on is what came.
func TestSpellings(t *testing.T) {
	t.Parallel()
	up := taker.Start(t)
	s := newSpeller(t, up.URL())
	for _, row := range readers.Spellings {
		all := ""
		for i := range readers.Positions {
			p := &readers.Positions[i]
			weirs, _ := s.ask(p, row.Text)
			all += string(weirs)
			got := up.Take()
			if (weirs == '-') != (len(got) == 0) {
				t.Fatalf("%s %q: %q, and the service got %d requests", p.Name, row.Text, weirs, len(got))
			}
			if len(got) == 1 {
				goesOnAsItCame(t, p.Name, taker.Request{Head: []byte(p.Head(row.Text))}, got[0])
			}
		}
		if all != row.Weir {
			t.Errorf("{%q, %q}, the table has %q", row.Text, all, row.Weir)
		}
	}
}

// goesOnAsItCame checks that what the service got was not repaired. Headers may be left out, and cookies be put in
// order, but nothing is written anew.
func goesOnAsItCame(t *testing.T, place string, sent, got taker.Request) {
	t.Helper()
	line := sent.Line()
	if place == "path" {
		line = strings.Replace(line, "#", "%23", 1) // or else it would end there
	}
	if line != got.Line() {
		t.Errorf("%s: the service got %q, sent was %q", place, got.Line(), sent.Line())
	}
	for _, name := range []string{"X-Api-Key", "X-HTTP-Method-Override", "Host"} {
		if got, sent := got.Values(name), sent.Values(name); !slices.Equal(got, sent) {
			t.Errorf("%s: the service got %s %q, sent was %q", place, name, got, sent)
		}
	}
	before := strings.Join(sent.Values("Cookie"), "; ")
	for _, line := range got.Values("Cookie") {
		for pair := range strings.SplitSeq(line, ";") {
			if !strings.Contains(before, strings.Trim(pair, " \t")) {
				t.Errorf("%s: the service got the cookie %q, sent was %q", place, pair, before)
			}
		}
	}
}
