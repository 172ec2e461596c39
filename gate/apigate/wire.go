package apigate

import (
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"time"
	"unicode"

	"weir"
	"weir/gate/refusal"
	"weir/identify"
)

// A question is the body of a request to decide.
type question struct {
	Policy     string   `json:"policy"`
	Source     string   `json:"source"`
	Account    string   `json:"account"`
	Plan       string   `json:"plan"`
	User       string   `json:"user"`
	Kind       string   `json:"kind"`
	Recipients []string `json:"recipients"`
	Name       string   `json:"name"`
	Phone      string   `json:"phone"`
	Route      route    `json:"route"`
	Cost       int64    `json:"cost"`
	Bytes      int64    `json:"bytes"`
	Parts      parts    `json:"parts"` // what keys of limits are made of, besides the other fields
	Stamp      string   `json:"stamp"`
	// who pays with a stamp, as the asking service knows them; the default is the source
	Client  string  `json:"client"`
	Message string  `json:"message"` // what a stamp pays for, where a stamp covers one request
	Load    float64 `json:"load"`    // of the asking service, 1 being all that it can do
	ID      string  `json:"id"`
	Hold    bool    `json:"hold"` // keep the hold of an admission open until it is settled
}

// A route is what a question is about. In JSON it is an object, or a text as in "GET example.com/path".
type route struct {
	Method string `json:"method"`
	Host   string `json:"host"`
	Path   string `json:"path"`
}

func (r *route) UnmarshalJSON(value []byte) error {
	*r = route{}
	switch value[0] {
	case 'n': // null is as good as left out
		return nil
	case '"':
		r.parse(text(value))
		return nil
	case '{':
		if wrong := decodeFields(value, reflect.ValueOf(r).Elem(), "route."); wrong != nil {
			return &fieldProblem{wrong}
		}
		return nil
	}
	return &fieldProblem{invalid("route", "neither an object nor text",
		`write {"method":"GET","host":"example.com","path":"/"} or "GET example.com/"`)}
}

// parse reads the text form: a method if a space follows it, a host up to the first slash, and a path.
func (r *route) parse(line string) {
	target := strings.TrimSpace(line)
	if method, rest, found := strings.Cut(target, " "); found {
		r.Method, target = method, strings.TrimLeft(rest, " ")
	}
	if slash := strings.IndexByte(target, '/'); slash >= 0 {
		r.Host, r.Path = target[:slash], target[slash:]
	} else {
		r.Host = target
	}
}

// A waiting is the body of a request to await.
type waiting struct {
	Hold string `json:"hold"`
	For  string `json:"for"` // how long; the longest wait when it is left out
}

// A settlement is the body of a request to settle.
type settlement struct {
	Hold  string `json:"hold"`
	Done  *bool  `json:"done"` // true when it is left out
	Bytes int64  `json:"bytes"`
	// Status is of the answer that the request got, in the words of HTTP; 0 when it is left out.
	Status int `json:"status"`
	// Cost is what the request turned out to cost, for throttles that charge what answers say; as decided without it.
	Cost *int64 `json:"cost"`
}

// A settled is the answer to it.
type settled struct {
	Settled bool `json:"settled"`
}

// A decision is the answer to a question, and to a request to await.
type decision struct {
	Verdict   weir.Verdict `json:"verdict"`
	By        string       `json:"by,omitempty"`
	Rule      string       `json:"rule,omitempty"`
	Reason    weir.Reason  `json:"reason,omitempty"`
	Unit      string       `json:"unit,omitempty"` // of limit and remaining
	Limit     *int64       `json:"limit,omitempty"`
	Remaining *int64       `json:"remaining,omitempty"`
	Window    float64      `json:"window,omitempty"` // seconds
	// day, week, month or year, where the window is one of the calendar
	Per        string    `json:"per,omitempty"`
	RetryAfter float64   `json:"retry_after,omitempty"` // seconds
	Challenge  string    `json:"challenge,omitempty"`   // the puzzle to be solved
	Algorithm  string    `json:"algorithm,omitempty"`
	Work       int64     `json:"work,omitempty"` // of the puzzle, in operations
	Hold       string    `json:"hold,omitempty"`
	Expires    time.Time `json:"expires,omitzero"`
}

// An itemFailure replaces an answer in a batch.
type itemFailure struct {
	Error *problem `json:"error"`
}

// A policyList is what GET /v1/policies answers.
type policyList struct {
	Policies []policyEntry `json:"policies"`
}

type policyEntry struct {
	Name      string   `json:"name"`
	Throttles []string `json:"throttles"`
}

// Bounds on single fields, in bytes.
const (
	maxKind      = 32
	maxPlan      = 64
	maxAddress   = 320 // of a mail user or a recipient: 64 before the @ and 255 behind it
	maxName      = 256
	maxPhone     = 64
	maxStamp     = 8192
	maxID        = 128
	maxClient    = 60 // of whoever pays, and of what for
	maxLoad      = 1000
	maxMethod    = 32
	maxHost      = 255
	maxPath      = 8192
	maxAmount    = 1 << 53 // programs that read JSON as floating point see larger numbers wrongly
	defaultKind  = "api"
	sourceHint   = "write 192.0.2.1 or 2001:db8::1"
	noWordHint   = "letters, digits, '-', '_' and '.'"
	controlsHint = "leave them out"
)

// event fills in the event of a question. recipients is how many recipients a message may have.
func (q *question) event(ev *weir.Event, msg *weir.Message, recipients int) *problem {
	for _, text := range [...]struct {
		field, value string
		most         int
	}{
		{"account", q.Account, identify.MaxAccount}, {"plan", q.Plan, maxPlan}, {"user", q.User, maxAddress},
		{"kind", q.Kind, maxKind},
		{"name", q.Name, maxName}, {"phone", q.Phone, maxPhone}, {"stamp", q.Stamp, maxStamp}, {"id", q.ID, maxID},
		{"client", q.Client, maxClient}, {"message", q.Message, maxClient},
		{"route.method", q.Route.Method, maxMethod}, {"route.host", q.Route.Host, maxHost},
		{"route.path", q.Route.Path, maxPath},
	} {
		if wrong := checkText(text.field, text.value, text.most); wrong != nil {
			return wrong
		}
	}
	if strings.TrimFunc(q.Account, identify.IsBlank) != q.Account {
		return invalid("account", "white space around the id",
			"leave it out: some services trim it, and it would be another account here")
	}
	if strings.HasPrefix(q.Account, identify.SourcePrefix) {
		// A service passes on names that its users choose. None of them may be charged as another's address.
		return invalid("account", fmt.Sprintf("an account does not begin with %q", identify.SourcePrefix),
			"name the address as source")
	}
	if strings.ContainsFunc(q.Kind, notInWord) {
		return invalid("kind", fmt.Sprintf("%s is not a word", quoted(q.Kind)), noWordHint)
	}
	for _, amount := range [...]struct {
		field string
		n     int64
	}{{"cost", q.Cost}, {"bytes", q.Bytes}} {
		if wrong := checkAmount(amount.field, amount.n); wrong != nil {
			return wrong
		}
	}
	if !(q.Load >= 0 && q.Load <= maxLoad) {
		return invalid("load", fmt.Sprintf("%g is out of bounds", q.Load),
			fmt.Sprintf("a share: 0.9 for 90 %%, at most %d", maxLoad))
	}
	*ev = weir.Event{Account: q.Account, Plan: q.Plan, Kind: q.Kind, ID: q.ID, Cost: q.Cost, Bytes: q.Bytes,
		Route: q.Route.event(), Parts: q.Parts}
	if ev.Kind == "" {
		ev.Kind = defaultKind
	}
	if q.Client != "" {
		ev.Client = clientMark + q.Client
	}
	if q.Source != "" {
		addr, err := netip.ParseAddr(q.Source)
		if err != nil {
			return invalid("source", fmt.Sprintf("%s is not an IP address", quoted(q.Source)), sourceHint)
		}
		ev.Source = identify.Plain(addr)
	}
	return q.message(ev, msg, recipients)
}

// clientMark keeps the clients that services name apart from those that weir itself has given an id.
const clientMark = "api:"

// message fills in what only messages have.
func (q *question) message(ev *weir.Event, msg *weir.Message, recipients int) *problem {
	if n := len(q.Recipients); n > recipients {
		wrong := invalid("recipients", fmt.Sprintf("%d are too many", n),
			fmt.Sprintf("at most %d; ask for the others in another request", recipients))
		wrong.bound = BoundRecipients
		return wrong
	}
	for i, r := range q.Recipients {
		at := fmt.Sprintf("recipients[%d]", i)
		if r == "" {
			return invalid(at, "the recipient is empty", "leave it out")
		}
		if wrong := checkText(at, r, maxAddress); wrong != nil {
			return wrong
		}
	}
	*msg = weir.Message{User: q.User, Recipients: q.Recipients, Name: q.Name, Phone: q.Phone, Stamp: q.Stamp}
	if q.User != "" || len(q.Recipients) > 0 || q.Name != "" || q.Phone != "" || q.Stamp != "" {
		ev.Message = msg
	}
	return nil
}

// event is the route as throttles know it. What was left out stays empty.
func (r *route) event() weir.Route {
	path, _, _ := strings.Cut(r.Path, "?")
	if path == "" {
		return weir.Route{Method: r.Method, Host: identify.Host(r.Host)}
	}
	return identify.Route(r.Method, r.Host, path, nil)
}

func checkText(field, value string, most int) *problem {
	if len(value) > most {
		return invalid(field, fmt.Sprintf("%d bytes are too long", len(value)), fmt.Sprintf("at most %d", most))
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		return invalid(field, "control characters", controlsHint)
	}
	return nil
}

func checkAmount(field string, n int64) *problem {
	if n < 0 || n > maxAmount {
		return invalid(field, fmt.Sprintf("%d is out of bounds", n), fmt.Sprintf("between 0 and %d", int64(maxAmount)))
	}
	return nil
}

// newDecision returns what a client is told of an answer. It keeps no part of the answer.
func newDecision(a *weir.Answer, now time.Time) decision {
	d := decision{Verdict: a.Verdict, By: a.By, Rule: a.Rule, Reason: a.Reason, RetryAfter: seconds(retryAfter(a, now))}
	figure := a.Figure
	if a.Verdict == weir.Admit {
		figure = closest(a.Figures)
		d.By, d.Rule = figure.By, figure.Rule
	}
	if figure.Unit != "" || figure.Limit > 0 { // otherwise the rule does not count anything
		d.Unit, d.Limit, d.Remaining, d.Window = figure.Unit, &figure.Limit, &figure.Remaining,
			seconds(figure.Window.Length())
		if figure.Window.Calendar() != weir.NoCalendar {
			d.Per = figure.Window.String()
		}
	}
	return d
}

// closest returns the figure of the rule that has the smallest share of its limit left.
func closest(figures []weir.Figure) (f weir.Figure) {
	least := math.Inf(1)
	for i := range figures {
		if left := float64(figures[i].Remaining) / float64(max(figures[i].Limit, 1)); left < least {
			f, least = figures[i], left
		}
	}
	return f
}

// retryAfter returns after how long a client should come again. For a wait, that is when the turn is expected; zero
// means that this is not known, and the client awaits it. For a refusal, zero means that it is of no use to come again.
func retryAfter(a *weir.Answer, now time.Time) time.Duration {
	switch a.Verdict {
	case weir.Admit:
		return 0
	case weir.Wait:
		return max(a.Until.Sub(now), 0)
	}
	return refusal.Again(a, now)
}

// seconds returns a duration in seconds with three decimals, rounded up, so that no client comes too early.
func seconds(d time.Duration) float64 { return float64((d+time.Millisecond-1)/time.Millisecond) / 1000 }
