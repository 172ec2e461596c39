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

// A Spool judges mails that Postfix keeps. *spool.Spool is one.
type Spool interface {
	// Decide judges a mail. With commit, what passes is charged; what does not pass is charged, as waiting, only with
	// count too.
	Decide(ctx context.Context, now time.Time, gate, user, sender string, recipients []string, commit,
		count bool) (spool.Verdict, error)
	// Stopped reports whether a user is stopped, from memory.
	Stopped(gate, user string) bool
	// Flagged reports whether a user may be flagged, from memory, and Reaches whether a flagged one may write to a
	// recipient.
	Flagged(gate, user string) bool
	Reaches(ctx context.Context, now time.Time, gate, user, sender, recipient string) error
	// User returns a user, or store.ErrNotFound, and Free whether a recipient is exempt for that user.
	User(ctx context.Context, name string) (store.User, error)
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
	// Secret signs the marks of mails that are diverted. It is asked for with each of them. Default: a random one,
	// which only tests can do with.
	Secret func() []byte
}

// Parts are what a gate is wired with, which may be others after a reload. What is nil admits everything.
type Parts struct {
	Throttles    *policy.Chain // judges each mail, before the spool does
	PerRecipient *policy.Chain // judges each recipient
}

// An Observer is told what happens at a gate. Its methods are called from many goroutines and must not block.
type Observer interface {
	// Connections tells that so many more, or fewer, connections are open.
	Connections(delta int)
	// Answered tells that a request was answered.
	Answered(action Action)
	// Failed tells that a request could not be judged, and was answered as on_error says.
	Failed()
	// Bounded tells that something was turned away at a bound, one of the Bound names.
	Bounded(bound string)
}

// What Observer.Bounded is told.
const (
	BoundConnections = "connections"
	BoundClients     = "clients"    // somebody asked who may not
	BoundMalformed   = "malformed"  // a request that is none; the connection was closed
	BoundRequest     = "request"    // a request that is too long; the connection was closed
	BoundIdle        = "idle"       // a connection that was silent for too long
	BoundMails       = "mails"      // one more mail than can be remembered at a time
	BoundRecipients  = "recipients" // one more recipient than a mail may have
	BoundMemory      = "memory"     // more than the recipients of all mails may take
	BoundUnseen      = "unseen"     // a mail with recipients that the gate was not asked about
	// a mail that should be diverted and could not be marked, or was marked and then not diverted
	BoundUnmarked = "unmarked"
)

// BoundNames lists what Observer.Bounded may be told.
var BoundNames = [...]string{BoundConnections, BoundClients, BoundMalformed, BoundRequest, BoundIdle, BoundMails,
	BoundRecipients, BoundMemory,
	BoundUnseen, BoundUnmarked}

func (e Env) withDefaults() (Env, error) {
	if e.Name == "" || e.Spool == nil {
		return e, errors.New("a policy service needs a name and a spool")
	}
	e.Env = e.Env.WithDefaults()
	if e.Observer == nil {
		e.Observer = nobody{}
	}
	if e.Secret == nil {
		secret := make([]byte, 32)
		rand.Read(secret)
		e.Secret = func() []byte { return secret }
	}
	return e, nil
}

type nobody struct{}

func (nobody) Connections(int) {}
func (nobody) Answered(Action) {}
func (nobody) Failed()         {}
func (nobody) Bounded(string)  {}
