package spool

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"weir"
	"weir/internal/clock"
	"weir/internal/words"
	"weir/mail/nexthop"
	"weir/mail/notice"
	"weir/store"
	"weir/throttle/outbreak"
)

// Bounds of what is kept in memory.
const (
	MaxConnections = 1000    // of one gate
	MaxStopped     = 250_000 // stopped users that are known without asking the store
	MaxRecipients  = 10_000  // of one mail, whatever its throttle says
	MaxStamps      = 100_000_000
	maxQueue       = 100_000
	minSecret      = 16
)

// Options say what a spool is made of. Store, Secret and Signer are needed.
type Options struct {
	Store    store.Mail
	Clock    clock.Clock  // nil: the machine's
	Log      *slog.Logger // nil: none
	Observer Observer     // nil: none
	// The key of the hashes of recipients. With another key, throttles forget all recipients.
	Secret []byte
	// Signs the tickets of users.
	Signer *notice.Signer
	// Names this run of the process, unlike any run before: what another run was sending when it ended is ambiguous.
	// Default: random.
	Owner string
	// How many messages of one gate may wait for a worker. Others are found in the store later. Default 4096.
	Queue int
	// How many bytes of waiting messages may be in memory. The texts of others are read again. Default 64 MiB.
	Bytes int64
	// How many spent stamps are remembered. At this number, no recipient is paid for. Default 1000000.
	Stamps int
	// How long the audit log goes back. Default 90 days.
	AuditFor time.Duration
	// The contact of a user who has none in the store; nil or empty: there is none.
	Contact func(user string) string
	// The file that keeps the last steps of messages over a restart; empty: none does.
	Trail string
	// Whether log and trail name only the domains of recipients; nil: never.
	Domains func() bool
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = Nobody{}
	}
	o.Owner = cmp.Or(o.Owner, rand.Text())
	o.Queue = cmp.Or(o.Queue, 4096)
	o.Bytes = cmp.Or(o.Bytes, 64<<20)
	o.Stamps = cmp.Or(o.Stamps, 1_000_000)
	o.AuditFor = cmp.Or(o.AuditFor, 90*24*time.Hour)
	return o
}

func (o Options) validate() error {
	var v weir.Mistakes
	if o.Store == nil {
		v.Add("store", "there is no store", "")
	}
	if len(o.Secret) < minSecret {
		v.Add("secret", fmt.Sprintf("%d bytes are too few", len(o.Secret)), fmt.Sprintf("at least %d", minSecret))
	}
	if o.Signer == nil {
		v.Add("signer", "there is no signer", "")
	}
	v.Within("queue", int64(o.Queue), 1, maxQueue)
	v.Within("stamps", int64(o.Stamps), 1, MaxStamps)
	if o.Bytes < 0 {
		v.Add("bytes", "must not be negative", "")
	}
	if o.AuditFor < 0 {
		v.Add("audit_for", "must not be negative", "")
	}
	return v.Err()
}

// A Carrier hands messages on. *nexthop.Client is one.
type Carrier interface {
	Deliver(ctx context.Context, j *nexthop.Job) []nexthop.Result
}

// An Ambiguous says what is done with a message that the next server may or may not have taken.
type Ambiguous string

// The values of Ambiguous.
const (
	Retry Ambiguous = "retry" // it is sent again, and may arrive twice
	Hold  Ambiguous = "hold"  // it is held until an operator decides
)

// A Gate is what the spool has to know of a gate whose messages it keeps.
type Gate struct {
	// The name that its messages are kept under. Messages of a gate that is gone go out by the first.
	Name string
	// The name of the mail throttle, under which its memory is kept. Gates with the same one share it. Default: the
	// name of the gate.
	Throttle string
	// The mail throttle; nil: nothing waits.
	Mail *outbreak.Options
	// Whether the mail throttle is in shadow: it counts, and everything passes. nil: never.
	Shadow func() bool
	// The reach throttle; nil: there is none.
	Reach *Reach
	// Hands its messages on.
	Carrier Carrier
	// How many messages are handed on at once. Default 20.
	Connections int
	// The name of this server, in Message-IDs.
	Host string
	// The sender of bounces and notices. Default postmaster at Host.
	Postmaster string
	// The address that is told when a user is stopped; empty: none.
	Admin string
	// The address for replies to notices. The ticket is added: weir@example.com becomes weir+TICKET@example.com. Empty:
	// there are no replies.
	Command string
	// What becomes of messages that are too much, where another server keeps them.
	Elsewhere notice.Elsewhere
	// The page of a ticket, which shows the user what is held; nil: there is none.
	PageURL func(ticket string) string
	// The language of notices to users who have not chosen one; nil: English.
	Language *words.Language
	// What is done with a message that may have been delivered. Default retry.
	Ambiguous Ambiguous
	// When a message that was not taken is tried again, by attempt. The last one repeats. Default 1, 5, 15, 30 minutes.
	Retries []time.Duration
	// When it is given up. Default 5 days.
	GiveUp time.Duration
	// When its sender is told that it takes longer; negative: never. Default 4 hours.
	WarnAfter time.Duration
	// How often a user is told of delayed messages, at most. Default 24 hours.
	NoticeEvery time.Duration
	// Only of messages that are delayed for at least this long; negative: of all. Default 5 minutes.
	TellAfter time.Duration
	// How long a message is held before the user is reminded, and how long until the next reminder. That doubles each
	// time, up to 30 days. Negative: never. Default 3 days.
	RemindAfter time.Duration
	// How long a message is held before it is given up, and the sender told. Default: forever.
	HeldFor time.Duration
	// How long a ticket is valid. Default 7 days.
	TicketsFor time.Duration
	// The load below which messages without stamps go on. Default 0.9.
	PoolBelow float64
}

var defaultRetries = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute}

func (g Gate) withDefaults() Gate {
	g.Throttle = cmp.Or(g.Throttle, g.Name)
	g.Connections = cmp.Or(g.Connections, 20)
	g.Host = cmp.Or(g.Host, "localhost")
	g.Postmaster = cmp.Or(g.Postmaster, "postmaster@"+g.Host)
	g.Ambiguous = cmp.Or(g.Ambiguous, Retry)
	if len(g.Retries) == 0 {
		g.Retries = defaultRetries
	}
	g.GiveUp = cmp.Or(g.GiveUp, 5*24*time.Hour)
	g.WarnAfter = cmp.Or(g.WarnAfter, 4*time.Hour)
	g.NoticeEvery = cmp.Or(g.NoticeEvery, 24*time.Hour)
	g.TellAfter = cmp.Or(g.TellAfter, 5*time.Minute)
	g.RemindAfter = cmp.Or(g.RemindAfter, 3*24*time.Hour)
	g.TicketsFor = cmp.Or(g.TicketsFor, 7*24*time.Hour)
	g.PoolBelow = cmp.Or(g.PoolBelow, 0.9)
	return g
}

func (g Gate) validate() error {
	var v weir.Mistakes
	if g.Name == "" {
		v.Add("name", "the gate has no name", "")
	}
	if g.Carrier == nil {
		v.Add("carrier", "nobody hands its mail on", "")
	}
	v.Within("connections", int64(g.Connections), 1, MaxConnections)
	if g.Ambiguous != Retry && g.Ambiguous != Hold {
		v.Add("ambiguous", fmt.Sprintf("unknown %q", g.Ambiguous), "retry or hold")
	}
	if slices.Min(g.Retries) < time.Second {
		v.Add("retries", "a mail is not tried again within a second", "1s is the least")
	}
	if g.GiveUp < 0 || g.NoticeEvery < 0 || g.TicketsFor < 0 || g.PoolBelow < 0 || g.HeldFor < 0 {
		v.Add("", "give_up, notice_every, tickets_for, held_for and pool_below must not be negative", "")
	}
	return v.Err()
}

// params are the limits of a user. Without a throttle there are none, but an operator can still stop the user.
func (g *Gate) params(u *store.User) (outbreak.Params, error) {
	if g.Mail == nil {
		return outbreak.Params{Exempt: true}, nil
	}
	return g.Mail.Params(u.Name, u.Limits)
}

func (g *Gate) inShadow() bool { return g.Shadow != nil && g.Shadow() }
