package spool

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"weir"
	"weir/internal/clock"
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
	// What the hashes of recipients are made with. It has to stay the same, or throttles forget all recipients.
	Secret []byte
	// Signs what users answer with.
	Signer *notice.Signer
	// Names this run of the process, unlike any before: what another one was sending when it ended is ambiguous.
	// Default: by chance.
	Owner string
	// How many mails of one gate may wait for a worker; others are found in the store later. Default 4096.
	Queue int
	// How many bytes of mails that wait may be in memory; the texts of others are read again. Default 64 MiB.
	Bytes int64
	// How many spent stamps are remembered. While there are so many, no recipient is paid for. Default 1000000.
	Stamps int
	// How long the audit log goes back. Default 90 days.
	AuditFor time.Duration
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
	o.Owner = cmp.Or(o.Owner, newOwner())
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
	if o.Queue < 0 || o.Queue > maxQueue {
		v.Add("queue", fmt.Sprintf("%d is out of bounds", o.Queue), fmt.Sprintf("1 to %d", maxQueue))
	}
	if o.Stamps < 0 || o.Stamps > MaxStamps {
		v.Add("stamps", fmt.Sprintf("%d is out of bounds", o.Stamps), fmt.Sprintf("1 to %d", MaxStamps))
	}
	if o.Bytes < 0 {
		v.Add("bytes", "must not be negative", "")
	}
	if o.AuditFor < 0 {
		v.Add("audit_for", "must not be negative", "")
	}
	return v.Err()
}

// A Carrier hands mails on. *nexthop.Client is one.
type Carrier interface {
	Deliver(ctx context.Context, j *nexthop.Job) []nexthop.Result
}

// An Ambiguous says what is done with a mail that the next server may or may not have taken.
type Ambiguous string

// What may be done.
const (
	Retry Ambiguous = "retry" // it is sent again, and may arrive twice
	Hold  Ambiguous = "hold"  // it is held until an operator decides
)

// A Gate is what the spool has to know of a gate whose mail it keeps.
type Gate struct {
	// The name that its letters are kept under. Mail of a gate that is gone goes out by the first.
	Name string
	// The name of the mail throttle, under which its memory is kept: gates that name the same one share it. Default:
	// the gate's.
	Throttle string
	// What the throttle lets each user do; nil: nothing waits.
	Mail *outbreak.Options
	// Whether the throttle is in shadow: it counts, and everything passes. nil: it never is.
	Shadow func() bool
	// The reach throttle; nil: there is none.
	Reach *Reach
	// Hands its mails on.
	Carrier Carrier
	// How many mails are handed on at once. Default 20.
	Connections int
	// The name of this server, in Message-IDs.
	Host string
	// The sender of bounces and notices. Default postmaster at Host.
	Postmaster string
	// The address that is told when a user is stopped; empty: none.
	Admin string
	// Where users answer notices to; the ticket is added to it: weir@example.com becomes weir+TICKET@example.com.
	// Empty: they cannot.
	Command string
	// The address of the page on which a user sees what is held, for a ticket; nil: there is none.
	PageURL func(ticket string) string
	// What is done with mail that may have been delivered. Default retry.
	Ambiguous Ambiguous
	// After how long a mail that was not taken is tried again, by attempt; the last one repeats. Default 1, 5, 15, 30
	// minutes.
	Retries []time.Duration
	// After how long it is given up. Default 5 days.
	GiveUp time.Duration
	// After how long its sender is told that it takes longer; negative: never. Default 4 hours.
	WarnAfter time.Duration
	// A user whose mail is merely delayed is told no more often than that. Default 24 hours.
	NoticeEvery time.Duration
	// … and only when the mail takes that long. Negative: always. Default 5 minutes.
	TellAfter time.Duration
	// How long a user can answer. Default 7 days.
	TicketsFor time.Duration
	// Below which load mail without stamps goes on. Default 0.9.
	PoolBelow float64
}

// defaultRetries are after how long a mail is tried again.
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
	if g.Connections < 1 || g.Connections > MaxConnections {
		v.Add("connections", fmt.Sprintf("%d is out of bounds", g.Connections), fmt.Sprintf("1 to %d", MaxConnections))
	}
	if g.Ambiguous != Retry && g.Ambiguous != Hold {
		v.Add("ambiguous", fmt.Sprintf("unknown %q", g.Ambiguous), "retry or hold")
	}
	if slices.Min(g.Retries) < time.Second {
		v.Add("retries", "a mail is not tried again within a second", "1s is the least")
	}
	if g.GiveUp < 0 || g.NoticeEvery < 0 || g.TicketsFor < 0 || g.PoolBelow < 0 {
		v.Add("", "give_up, notice_every, tickets_for and pool_below must not be negative", "")
	}
	return v.Err()
}

// params are what holds for a user. Without a throttle there is no limit, and an operator can stop a user all the same.
func (g *Gate) params(u *store.User) (outbreak.Params, error) {
	if g.Mail == nil {
		return outbreak.Params{Exempt: true}, nil
	}
	return g.Mail.Params(u.Name, u.Limits)
}

func (g *Gate) inShadow() bool { return g.Shadow != nil && g.Shadow() }
