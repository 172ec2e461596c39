package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"
)

// Bounds of what is stored about operators, in bytes.
const (
	MaxOperatorName = 64 // of an operator, and of a token
	MaxRole         = 16
	MaxSource       = 128     // where an act came from
	MaxDetail       = 8 << 10 // what was there before an act, or after it
)

// Access is who may use the console: operators, their sessions, and the tokens of programs; and from which networks
// they and mail users have logged in. Secrets are never stored, only what they are recognised by.
type Access interface {
	// Update runs f in a transaction, under the conditions of Mail.Update.
	Update(ctx context.Context, f func(AccessTx) error) error
	// View runs f over what is committed, all of one moment. What f writes is refused with ErrInvalid.
	View(ctx context.Context, f func(AccessTx) error) error
}

// An AccessTx is a transaction. It ends with the function that it was given to, and is for one goroutine. Lists are in
// the order of names. A limit is MaxBatch at most.
type AccessTx interface {
	// Operator returns an operator, or ErrNotFound.
	Operator(name string) (Operator, error)
	// Operators returns up to limit operators whose names come after one.
	Operators(after string, limit int) ([]Operator, error)
	// PutOperator adds or replaces an operator.
	PutOperator(Operator) error
	// RemoveOperator removes an operator, with the sessions, the tokens and the networks, if there is one.
	RemoveOperator(name string) error

	// Session returns a session, or ErrNotFound.
	Session(sum Sum) (Session, error)
	// Sessions returns up to limit sessions of an operator, the one that was seen longest ago first.
	Sessions(operator string, limit int) ([]Session, error)
	// PutSession adds or replaces a session.
	PutSession(Session) error
	// RemoveSession removes a session, if it is there.
	RemoveSession(sum Sum) error
	// RemoveSessions removes all sessions of an operator.
	RemoveSessions(operator string) error
	// PruneSessions forgets up to limit sessions that are over at now, or were last seen before idle.
	PruneSessions(now, idle time.Time, limit int) error

	// Token returns a token, or ErrNotFound.
	Token(sum Sum) (Token, error)
	// Tokens returns up to limit tokens whose names come after one.
	Tokens(after string, limit int) ([]Token, error)
	// PutToken adds a token, or replaces the one with the same sum. A name that another one has gets ErrExists.
	PutToken(Token) error
	// RemoveToken removes the token of a name, and reports whether there was one.
	RemoveToken(name string) (bool, error)

	// LogIn returns a network from which somebody has logged in, or ErrNotFound.
	LogIn(console bool, name string, network netip.Prefix) (LogIn, error)
	// PutLogIn adds or replaces a network. Of one name there are up to each. One more pushes out the one that was used
	// longest ago, if possible of those that were noted once. One more than most of all names is ErrCrowded.
	PutLogIn(l LogIn, each, most int) error
	// PruneLogIns forgets up to limit networks that were last used before a time.
	PruneLogIns(before time.Time, limit int) error

	// Log adds to the audit log, at its end, and gives the entry its ID.
	Log(Entry) error
}

// A Sum is the SHA-256 of a secret: of a session or a token.
type Sum [32]byte

// An Operator may use the console.
type Operator struct {
	Name     string    `json:"name"`
	Role     string    `json:"role"`
	Password string    `json:"-"` // as package login writes it; empty: no log-in
	Made     time.Time `json:"made"`
	Changed  time.Time `json:"changed"` // the password or the role
}

// Validate returns what is wrong with the operator: ErrInvalid or ErrTooLarge.
func (o *Operator) Validate() error {
	return cmp.Or(checkTexts(bounded{"the name of an operator", o.Name, MaxOperatorName, true},
		bounded{"the role of an operator", o.Role, MaxRole, true},
		bounded{"the password of an operator", o.Password, MaxPassword, false}),
		checkTime("made", o.Made), checkTime("changed", o.Changed))
}

// A Session is an operator who has logged in.
type Session struct {
	Sum      Sum
	Operator string
	Source   string    // the address of the log-in
	Made     time.Time // when the operator logged in
	Seen     time.Time // when the session was last used, about
	Until    time.Time // when it ends in any case
}

// Validate returns what is wrong with the session: ErrInvalid or ErrTooLarge.
func (s *Session) Validate() error {
	return cmp.Or(checkTexts(bounded{"the operator of a session", s.Operator, MaxOperatorName, true},
		bounded{"the source of a session", s.Source, MaxSource, false}),
		checkTime("made", s.Made), checkTime("seen", s.Seen), checkTime("until", s.Until))
}

// A Token lets a program use the console.
type Token struct {
	Sum      Sum       `json:"-"`
	Name     string    `json:"name"`
	Role     string    `json:"role"`
	Operator string    `json:"operator,omitempty"` // who made it on the console; it ends with the operator
	By       string    `json:"by,omitempty"`       // who made it
	Made     time.Time `json:"made"`
	Until    time.Time `json:"until,omitzero"` // zero: it does not expire
	Used     time.Time `json:"used,omitzero"`  // when it was last used, to the hour; zero: never
}

// Validate returns what is wrong with the token: ErrInvalid or ErrTooLarge.
func (t *Token) Validate() error {
	return cmp.Or(checkTexts(bounded{"the name of a token", t.Name, MaxOperatorName, true},
		bounded{"the role of a token", t.Role, MaxRole, true},
		bounded{"the operator of a token", t.Operator, MaxOperatorName, false},
		bounded{"who made a token", t.By, MaxUser, false}),
		checkTime("made", t.Made), checkMaybe("until", t.Until), checkMaybe("used", t.Used))
}

// A LogIn is a network from which somebody has logged in.
type LogIn struct {
	Console bool         // an operator; otherwise a mail user
	Name    string       // as package identify makes it of what was typed
	Network netip.Prefix // without host bits; an IPv4 network is never written as one of IPv6
	Since   time.Time    // the first time
	At      time.Time    // the last time, about
}

// Validate returns what is wrong with it: ErrInvalid or ErrTooLarge.
func (l *LogIn) Validate() error {
	if !l.Network.IsValid() || l.Network != l.Network.Masked() || l.Network.Addr().Is4In6() {
		return fmt.Errorf("the network of a login, %q: %w", l.Network, ErrInvalid)
	}
	return cmp.Or(checkTexts(bounded{"the name of a login", l.Name, MaxUser, true}), checkTime("since", l.Since),
		checkTime("at", l.At))
}

// A Detail is a JSON value as text; empty for none.
type Detail string

// MarshalJSON returns the value itself.
func (d Detail) MarshalJSON() ([]byte, error) {
	if d == "" {
		return []byte("null"), nil
	}
	return []byte(d), nil
}

// UnmarshalJSON keeps the value as it is written.
func (d *Detail) UnmarshalJSON(text []byte) error {
	*d = Detail(text)
	if *d == "null" {
		*d = ""
	}
	return nil
}

func (d Detail) validate(what string) error {
	if err := checkText(what, string(d), MaxDetail); err != nil {
		return err
	}
	if d != "" && !json.Valid([]byte(d)) {
		return fmt.Errorf("%s is not JSON: %w", what, ErrInvalid)
	}
	return nil
}

type sourceKey struct{}

// WithSource notes in a context where an act comes from. Entries of the audit log that are written under it get this
// source.
func WithSource(ctx context.Context, source string) context.Context {
	return context.WithValue(ctx, sourceKey{}, source)
}

// SourceOf returns what WithSource has noted, or "".
func SourceOf(ctx context.Context) string {
	source, _ := ctx.Value(sourceKey{}).(string)
	return source
}
