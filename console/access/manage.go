package access

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/store"
)

// An OperatorView is an operator as others may see them.
type OperatorView struct {
	Name     string    `json:"name"`
	Role     Role      `json:"role"`
	Made     time.Time `json:"made"`
	Changed  time.Time `json:"changed"`
	Sessions int       `json:"sessions"` // that are open
}

// detail writes a value for the audit log.
func detail(v any) store.Detail {
	text, err := json.Marshal(v)
	if err != nil || len(text) > store.MaxDetail {
		return ""
	}
	return store.Detail(text)
}

// hash hashes a new password. One is hashed at a time.
func (d *Operators) hash(ctx context.Context, password string) (string, error) {
	if err := CheckPassword(password); err != nil {
		return "", err
	}
	select {
	case d.hashing <- struct{}{}:
		defer func() { <-d.hashing }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return d.passwords.Hash(password)
}

// First is the operator that the first start makes.
const First = "admin"

// MakeFirst makes the first operator, if there is none at all, and reports whether it did. keep is given the password,
// and sees to it that somebody learns it; if it fails, no operator is made.
func (d *Operators) MakeFirst(ctx context.Context, keep func(name, password string) error) (bool, error) {
	empty := false
	if err := d.o.Store.View(ctx, func(tx store.AccessTx) error {
		some, err := tx.Operators("", 1)
		empty = len(some) == 0
		return err
	}); err != nil || !empty {
		return false, err
	}
	const name = First
	password := NewPassword()
	hash, err := d.hash(ctx, password)
	if err != nil {
		return false, err
	}
	if err := keep(name, password); err != nil {
		return false, err
	}
	now := d.o.Clock.Now()
	return true, d.o.Store.Update(ctx, func(tx store.AccessTx) error {
		return cmp.Or(tx.PutOperator(store.Operator{Name: name, Role: string(Admin), Password: hash, Made: now,
			Changed: now}), tx.Log(store.Entry{At: now, By: "weir", What: "operator-add", User: name,
			Text: "the first operator"}))
	})
}

// List returns all operators.
func (d *Operators) List(ctx context.Context) (all []OperatorView, err error) {
	all = []OperatorView{}
	err = d.o.Store.View(ctx, func(tx store.AccessTx) error {
		found, err := tx.Operators("", MaxOperators)
		for _, o := range found {
			open, err := tx.Sessions(o.Name, MaxSessions)
			if err != nil {
				return err
			}
			all = append(all, d.view(o, open))
		}
		return err
	})
	return all, err
}

func (d *Operators) view(o store.Operator, open []store.Session) OperatorView {
	v := OperatorView{Name: o.Name, Role: Role(o.Role), Made: o.Made, Changed: o.Changed}
	for _, s := range open {
		if d.open(s) {
			v.Sessions++
		}
	}
	return v
}

// AddOperator adds an operator. Its errors are ErrName, ErrRole, ErrTooMany, store.ErrExists, those of a password, and
// those of the store.
func (d *Operators) AddOperator(ctx context.Context, by Identity, name string, role Role, password string) (
	v OperatorView, err error) {
	if err := CheckName(name); err != nil {
		return v, err
	}
	if !role.Valid() {
		return v, ErrRole
	}
	hash, err := d.hash(ctx, password)
	if err != nil {
		return v, err
	}
	now := d.o.Clock.Now()
	o := store.Operator{Name: name, Role: string(role), Password: hash, Made: now, Changed: now}
	v = d.view(o, nil)
	return v, d.o.Store.Update(ctx, func(tx store.AccessTx) error {
		switch _, err := tx.Operator(name); {
		case err == nil:
			return fmt.Errorf("the operator %s: %w", name, store.ErrExists)
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		all, err := tx.Operators("", MaxOperators)
		if err != nil {
			return err
		}
		if len(all) >= MaxOperators {
			return fmt.Errorf("%w: %d operators", ErrTooMany, MaxOperators)
		}
		return cmp.Or(tx.PutOperator(o), tx.Log(store.Entry{At: now, By: by.Name, What: "operator-add", User: name,
			After: detail(map[string]any{"role": role})}))
	})
}

// RemoveOperator removes an operator, whose sessions and tokens end at once. The last one with the role admin stays:
// ErrLastAdmin.
func (d *Operators) RemoveOperator(ctx context.Context, by Identity, name string) error {
	now := d.o.Clock.Now()
	err := d.o.Store.Update(ctx, func(tx store.AccessTx) error {
		o, err := tx.Operator(name)
		if err != nil {
			return err
		}
		if err := needsNot(tx, name); err != nil {
			return err
		}
		return cmp.Or(tx.RemoveOperator(name), tx.Log(store.Entry{At: now, By: by.Name, What: "operator-remove",
			User: name, Before: detail(map[string]any{"role": o.Role})}))
	})
	if err == nil {
		d.o.Changed(name)
	}
	return err
}

// needsNot returns ErrLastAdmin if nobody else has the role admin.
func needsNot(tx store.AccessTx, name string) error {
	all, err := tx.Operators("", MaxOperators)
	if err != nil {
		return err
	}
	for _, other := range all {
		if Role(other.Role) == Admin && other.Name != name {
			return nil
		}
	}
	return ErrLastAdmin
}

// SetRole gives an operator another role, at once: in open sessions, too. The last one with the role admin keeps it:
// ErrLastAdmin. Its other errors are ErrRole, store.ErrNotFound and those of the store.
func (d *Operators) SetRole(ctx context.Context, by Identity, name string, role Role) (v OperatorView, err error) {
	if !role.Valid() {
		return v, ErrRole
	}
	now := d.o.Clock.Now()
	err = d.o.Store.Update(ctx, func(tx store.AccessTx) error {
		o, err := tx.Operator(name)
		if err != nil {
			return err
		}
		if Role(o.Role) == Admin && role != Admin {
			if err := needsNot(tx, name); err != nil {
				return err
			}
		}
		before := o.Role
		o.Role, o.Changed = string(role), now
		open, err := tx.Sessions(name, MaxSessions)
		if err != nil {
			return err
		}
		v = d.view(o, open)
		return cmp.Or(tx.PutOperator(o), tx.Log(store.Entry{At: now, By: by.Name, What: "operator-role", User: name,
			Before: detail(map[string]any{"role": before}), After: detail(map[string]any{"role": role})}))
	})
	return v, err
}

// A SessionView is an open session as others may see it.
type SessionView struct {
	ID     string    `json:"id"`
	Source string    `json:"source"` // the address of the login
	Made   time.Time `json:"made"`   // when the operator logged in
	Seen   time.Time `json:"seen"`   // when it was last used, to the minute
	Until  time.Time `json:"until"`  // when it ends in any case
	Here   bool      `json:"here"`   // it is the one that asks
}

// sessionID is how a session is named. Nobody can make a session of it: it is a part of the sum of the secret.
func sessionID(s store.Session) string { return hex.EncodeToString(s.Sum[:sessionIDBytes]) }

// is reports whether somebody came with this session.
func (who Identity) is(s store.Session) bool { return who.bound == sessionBound(s) }

// Sessions returns the open sessions of an operator, the latest used first, or store.ErrNotFound.
func (d *Operators) Sessions(ctx context.Context, who Identity, name string) (all []SessionView, err error) {
	all = []SessionView{}
	err = d.o.Store.View(ctx, func(tx store.AccessTx) error {
		if _, err := tx.Operator(name); err != nil {
			return err
		}
		found, err := tx.Sessions(name, MaxSessions)
		for _, s := range slices.Backward(found) {
			if d.open(s) {
				all = append(all, SessionView{sessionID(s), s.Source, s.Made, s.Seen, s.Until, who.is(s)})
			}
		}
		return err
	})
	return all, err
}

// EndSessions ends sessions of an operator at once, and returns how many: all, or the one with an id, or all but the
// one of whoever asks. Its errors are store.ErrNotFound, for an operator or an id that is not there, and those of the
// store.
func (d *Operators) EndSessions(ctx context.Context, by Identity, name, id string, others bool) (n int, err error) {
	now := d.o.Clock.Now()
	err = d.o.Store.Update(ctx, func(tx store.AccessTx) error {
		n = 0
		if _, err := tx.Operator(name); err != nil {
			return err
		}
		found, err := tx.Sessions(name, MaxSessions)
		if err != nil {
			return err
		}
		for _, s := range found {
			if !d.open(s) || id != "" && sessionID(s) != id || others && by.is(s) {
				continue
			}
			if err := tx.RemoveSession(s.Sum); err != nil {
				return err
			}
			n++
		}
		if id != "" && n == 0 {
			return fmt.Errorf("the session %s: %w", id, store.ErrNotFound)
		}
		return tx.Log(store.Entry{At: now, By: by.Name, What: "operator-logout", User: name, Text: id,
			After: detail(map[string]any{"ended": n})})
	})
	return n, err
}

// SetPassword changes the password of an operator and ends all their sessions.
func (d *Operators) SetPassword(ctx context.Context, by Identity, name, password string) (v OperatorView, err error) {
	hash, err := d.hash(ctx, password)
	if err != nil {
		return v, err
	}
	now := d.o.Clock.Now()
	err = d.o.Store.Update(ctx, func(tx store.AccessTx) error {
		o, err := tx.Operator(name)
		if err != nil {
			return err
		}
		o.Password, o.Changed = hash, now
		v = d.view(o, nil)
		return cmp.Or(tx.PutOperator(o), tx.RemoveSessions(name),
			tx.Log(store.Entry{At: now, By: by.Name, What: "operator-password", User: name}))
	})
	if err == nil {
		d.o.Changed(name)
	}
	return v, err
}

// Confirm returns nil if a password is that of an operator. Its errors are those of LogIn.
func (d *Operators) Confirm(ctx context.Context, a Attempt) error {
	_, err := d.check(ctx, a)
	return err
}

// Tokens returns all tokens, without their secrets.
func (d *Operators) Tokens(ctx context.Context) (all []store.Token, err error) {
	err = d.o.Store.View(ctx, func(tx store.AccessTx) (err error) {
		all, err = tx.Tokens("", MaxTokens)
		return err
	})
	if all == nil {
		all = []store.Token{}
	}
	return all, err
}

// AddToken makes a token and returns its secret, which nobody can find out later. For life 0 it does not expire. Its
// errors are ErrName, ErrRole, ErrLife, ErrTooMany, store.ErrExists, and those of the store.
func (d *Operators) AddToken(ctx context.Context, by Identity, name string, role Role, life time.Duration) (
	k store.Token, secret string, err error) {
	switch err := CheckName(name); {
	case err != nil:
		return k, "", err
	case !role.Valid():
		return k, "", ErrRole
	case life != 0 && (life < time.Minute || life > MaxTokenLife):
		return k, "", ErrLife
	}
	secret, sum := newSecret(tokenMark)
	now := d.o.Clock.Now()
	k = store.Token{Sum: sum, Name: name, Role: string(role), Operator: by.Operator, By: by.Name, Made: now}
	if life != 0 {
		k.Until = now.Add(life)
	}
	return k, secret, d.o.Store.Update(ctx, func(tx store.AccessTx) error {
		all, err := tx.Tokens("", MaxTokens)
		if err != nil {
			return err
		}
		for _, old := range all {
			if old.Name == name {
				return fmt.Errorf("the token %s: %w", name, store.ErrExists)
			}
		}
		if len(all) >= MaxTokens {
			return fmt.Errorf("%w: %d tokens", ErrTooMany, MaxTokens)
		}
		return cmp.Or(tx.PutToken(k), tx.Log(store.Entry{At: now, By: by.Name, What: "token-add", Text: name,
			After: detail(k)}))
	})
}

// RevokeToken ends a token at once, or returns store.ErrNotFound.
func (d *Operators) RevokeToken(ctx context.Context, by Identity, name string) error {
	return d.o.Store.Update(ctx, func(tx store.AccessTx) error {
		gone, err := tx.RemoveToken(name)
		if err == nil && !gone {
			err = fmt.Errorf("the token %s: %w", name, store.ErrNotFound)
		}
		return cmp.Or(err, tx.Log(store.Entry{At: d.o.Clock.Now(), By: by.Name, What: "token-revoke", Text: name}))
	})
}
