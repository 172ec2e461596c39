package postfixgate

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"weir/gate"
	"weir/mail/spool"
	"weir/policy"
	"weir/store"
)

// A Spool judges messages that Postfix keeps. *spool.Spool is one.
type Spool interface {
	// Decide judges a message. With commit, one that passes is charged, and with count too, one that does not.
	Decide(ctx context.Context, now time.Time, gate, user, sender string, recipients []string, commit,
		count bool) (spool.Verdict, error)
	// Stopped reports whether a user is stopped, from memory.
	Stopped(gate, user string) bool
	// Flagged reports whether a user may be flagged, from memory, and Reaches whether a flagged one may write to a
	// recipient.
	Flagged(gate, user string) bool
	Reaches(ctx context.Context, now time.Time, gate, user, sender, recipient string) error
	// Account returns a user; Made is zero of one that the store does not have. Free reports whether a recipient is
	// exempt for that user.
	Account(ctx context.Context, name string) (store.User, error)
	Free(gate string, user *store.User, recipient string) bool
}

var _ Spool = (*spool.Spool)(nil)

// An Env is what a gate needs of its surroundings, for as long as it lives. Name and Spool are needed. The zero value
// of the others keeps the machine's time, and neither logs nor observes.
type Env struct {
	gate.Env
	Name     string // by which the spool knows the gate
	Observer Observer
	Spool    Spool
	// Secret returns the secret that signs the marks of diverted messages. It is called for each of them. Default: a
	// random one, for tests.
	Secret func() []byte
}

// Parts are what a gate is wired with. A reload may replace them. A nil chain admits everything.
type Parts struct {
	Throttles    *policy.Chain // judges each message, before the spool does
	PerRecipient *policy.Chain // judges each recipient
}

// An Observer is told what happens at a gate. Its methods are called from many goroutines and must not block.
type Observer interface {
	// Connections: so many more, or fewer, are open.
	Connections(delta int)
	// Answered: a request was answered.
	Answered(action Action)
	// Failed: a request could not be judged, and was answered as on_error says.
	Failed()
	// Bounded: something was turned away at a bound, one of the Bound names.
	Bounded(bound string)
}

// The bounds.
const (
	BoundConnections = "connections"
	BoundClients     = "clients"    // a client that is not allowed to ask
	BoundMalformed   = "malformed"  // a malformed request; the connection was closed
	BoundRequest     = "request"    // a request that is too long; the connection was closed
	BoundIdle        = "idle"       // a connection that was silent for too long
	BoundMails       = "mails"      // one more message than can be remembered at a time
	BoundRecipients  = "recipients" // one more recipient than a message may have
	BoundMemory      = "memory"     // more than the recipients of all messages may take
	BoundUnseen      = "unseen"     // a message with recipients that the gate was not asked about
	BoundUnmarked    = "unmarked"   // a message to divert that could not be marked, or was marked and not diverted
)

// BoundNames lists the bounds.
var BoundNames = [...]string{BoundConnections, BoundClients, BoundMalformed, BoundRequest, BoundIdle, BoundMails,
	BoundRecipients, BoundMemory, BoundUnseen, BoundUnmarked}

func (e Env) withDefaults() (Env, error) {
	if e.Name == "" || e.Spool == nil {
		return e, errors.New("a policy service needs a name and a spool")
	}
	e.Env = e.Env.WithDefaults()
	if e.Observer == nil {
		e.Observer = nobody{}
	}
	if e.Secret == nil {
		secret := []byte(rand.Text())
		e.Secret = func() []byte { return secret }
	}
	return e, nil
}

type nobody struct{}

func (nobody) Connections(int) {}
func (nobody) Answered(Action) {}
func (nobody) Failed()         {}
func (nobody) Bounded(string)  {}
