package apigate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir"
)

// Options configure one decision API: services ask it over HTTP, in JSON, what a policy says.
type Options struct {
	// The address to listen on: "127.0.0.1:9100". The API speaks no TLS: on a network that others can listen to, put a
	// proxy that does in front of it.
	Listen string `yaml:"listen"`
	// The bearer tokens that clients must show one of. Each has at least 16 letters, digits and punctuation marks; take
	// them from a file or the environment: ${file:/etc/weir/token}.
	Tokens []string `yaml:"tokens"`
	// What clients may ask for: under each name the throttles that judge the event, in order.
	Policies map[string][]string `yaml:"policies"`
	// What is held for clients between a decision and its end.
	Holds Holds `yaml:"holds"`
	// Bounds on what clients may take of the gate.
	Bounds Bounds `yaml:"bounds"`
	// How long the gate waits for clients, and lets them wait.
	Timeouts Timeouts `yaml:"timeouts"`
}

// Holds say how many decisions may be open at a time, and for how long.
type Holds struct {
	// How many holds may be open. One more decision that needs one is given back and gets 503. One account, user or
	// source gets few of the last tenth. Default 100000.
	Max int `yaml:"max"`
	// How long a hold is kept for a client that does not settle it. For a wait it counts from the expected turn, or
	// from the last time that somebody awaited it. Default 1m.
	TTL weir.Duration `yaml:"ttl"`
	// What happens to a hold that nobody settled in time: done (what it took stays charged; the default) or undone (it
	// is given back).
	Expired Expired `yaml:"expired"`
}

// An Expired says what becomes of a hold that nobody settled.
type Expired string

// What may become of it.
const (
	ExpiredDone   Expired = "done"
	ExpiredUndone Expired = "undone"
)

// Bounds keep clients from filling the server up.
type Bounds struct {
	// Open connections. For one more, the address with the most loses its newest. If that is the newcomer's own, or has
	// no more than others, the newcomer is closed at once. Default 10000.
	Connections int `yaml:"connections"`
	// Requests under way, those that await a turn included. One more gets 503. One address gets few of the last tenth.
	// Default 10000.
	Requests int `yaml:"requests"`
	// The body of a request. More gets 413. Default 1MiB.
	Body weir.Size `yaml:"-"`
	// Questions in one batch. More gets 413. Default 1000.
	Batch int `yaml:"-"`
	// Recipients of one message. More gets 400. Default 1000.
	Recipients int `yaml:"-"`
}

// Timeouts for clients.
type Timeouts struct {
	// For request line and headers, and once more for the body. Default 10s.
	Header weir.Duration `yaml:"header"`
	// Between two requests on a connection. Default 2m.
	Idle weir.Duration `yaml:"idle"`
	// The longest time that one request may await a turn; then it is told to come again. Default 30s.
	Wait weir.Duration `yaml:"wait"`
}

// Bounds of the bounds.
const (
	minToken    = 16
	maxToken    = 1024
	maxTokens   = 1000
	maxPolicies = 1000
	maxCount    = 10_000_000
	minBody     = 1 << 10
	maxBody     = 64 << 20
	minTTL      = weir.Duration(time.Second)
	maxTTL      = weir.Duration(24 * time.Hour)
	maxWait     = weir.Duration(time.Hour)
)

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.Holds.Max = cmp.Or(o.Holds.Max, 100_000)
	o.Holds.TTL = cmp.Or(o.Holds.TTL, weir.Duration(time.Minute))
	o.Holds.Expired = cmp.Or(o.Holds.Expired, ExpiredDone)
	o.Bounds.Connections = cmp.Or(o.Bounds.Connections, 10_000)
	o.Bounds.Requests = cmp.Or(o.Bounds.Requests, 10_000)
	o.Bounds.Body = cmp.Or(o.Bounds.Body, 1<<20)
	o.Bounds.Batch = cmp.Or(o.Bounds.Batch, 1000)
	o.Bounds.Recipients = cmp.Or(o.Bounds.Recipients, 1000)
	o.Timeouts.Header = cmp.Or(o.Timeouts.Header, weir.Duration(10*time.Second))
	o.Timeouts.Idle = cmp.Or(o.Timeouts.Idle, weir.Duration(2*time.Minute))
	o.Timeouts.Wait = cmp.Or(o.Timeouts.Wait, weir.Duration(30*time.Second))
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors. It does not know whether the throttles
// exist.
func (o Options) Validate() error {
	var v mistakes
	if o.Listen == "" {
		v.Add("listen", "the gate has no address to listen on", `write listen: "127.0.0.1:9100"`)
	} else if _, _, err := weir.HostPort(o.Listen); err != nil {
		v.Add("listen", err.Error(), `write "127.0.0.1:9100"`)
	}
	v.tokens(o.Tokens)
	v.policies(o.Policies)
	o = o.WithDefaults()
	v.Count("holds.max", o.Holds.Max, maxCount)
	v.duration("holds.ttl", o.Holds.TTL, minTTL, maxTTL)
	if o.Holds.Expired != ExpiredDone && o.Holds.Expired != ExpiredUndone {
		v.Add("holds.expired", fmt.Sprintf("%q is not a way to end a hold", o.Holds.Expired),
			"one of done, undone")
	}
	v.Count("bounds.connections", o.Bounds.Connections, maxCount)
	v.Count("bounds.requests", o.Bounds.Requests, maxCount)
	v.Size("bounds.body", o.Bounds.Body, minBody, maxBody)
	v.Count("bounds.batch", o.Bounds.Batch, maxCount)
	v.Count("bounds.recipients", o.Bounds.Recipients, maxCount)
	v.duration("timeouts.header", o.Timeouts.Header, 1, maxWait)
	v.duration("timeouts.idle", o.Timeouts.Idle, 1, maxTTL)
	v.duration("timeouts.wait", o.Timeouts.Wait, 1, maxWait)
	return v.Err()
}

// mistakes collects field errors, with checks of this gate's own.
type mistakes struct{ weir.Mistakes }

func (v *mistakes) duration(path string, d, least, most weir.Duration) {
	if d < least || d > most {
		v.Add(path, fmt.Sprintf("%s is out of bounds", d), fmt.Sprintf("at least %s, at most %s", least, most))
	}
}

// tokens checks the secrets. No message repeats one of them.
func (v *mistakes) tokens(tokens []string) {
	if len(tokens) == 0 {
		v.Add("tokens", "without a token nobody may ask", "write tokens: [\"${file:/etc/weir/token}\"]")
	}
	v.AtMost("tokens", "tokens", len(tokens), maxTokens)
	for i, token := range tokens {
		at := fmt.Sprintf("tokens[%d]", i)
		switch {
		case len(token) < minToken:
			v.Add(at, fmt.Sprintf("the token has %d characters", len(token)),
				fmt.Sprintf("at least %d: openssl rand -hex 16", minToken))
		case len(token) > maxToken:
			v.Add(at, fmt.Sprintf("the token has %d characters", len(token)), fmt.Sprintf("at most %d", maxToken))
		case strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }):
			v.Add(at, "the token has characters that do not go into a header",
				"letters, digits and punctuation marks, without spaces")
		case slices.Contains(tokens[:i], token):
			v.Add(at, "the token is listed twice", "leave one out")
		}
	}
}

func (v *mistakes) policies(policies map[string][]string) {
	if len(policies) == 0 {
		v.Add("policies", "there is nothing to ask for", "name throttles: policies: {web: [plans]}")
	}
	v.AtMost("policies", "policies", len(policies), maxPolicies)
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		if len(name) == 0 || len(name) > maxWord || strings.ContainsFunc(name, notInWord) {
			v.Add("policies."+name, fmt.Sprintf("%q is not a name", name),
				fmt.Sprintf("letters, digits, '-', '_' and '.', at most %d", maxWord))
		}
	}
}

// maxWord is how long the name of a policy may be.
const maxWord = 64

// notInWord reports whether a letter is not allowed in names.
func notInWord(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
}
