package sqlite

import (
	"fmt"
	"math"
	"strings"
	"time"

	"weir/store"
)

const (
	userColumns   = `name, password, contact, senders, limits, disabled, made, changed, language`
	memoryColumns = `user, throttle, state, due, stopped`
)

func (t *tx) User(name string) (store.User, error) {
	return one(t, errNoUser, readUser, `SELECT `+userColumns+` FROM users WHERE name = ?`, name)
}

// errNoUser is made once: most lookups return it if clients are known by their addresses.
var errNoUser = fmt.Errorf("a user: %w", store.ErrNotFound)

func (t *tx) Users(after string, limit int) ([]store.User, error) {
	return list(t, limit, readUser,
		`SELECT `+userColumns+` FROM users WHERE name > ? ORDER BY name LIMIT ?`, after)
}

func readUser(r row) (store.User, error) {
	u := store.User{Name: r.text(0), Password: r.text(1), Contact: r.text(2), Limits: r.text(4), Disabled: r.bool(5),
		Made: whenever(r.int(6)), Changed: whenever(r.int(7)), Language: r.text(8)}
	if senders := r.text(3); senders != "" {
		u.Senders = strings.Split(senders, "\n")
	}
	return u, corrupt(u.Validate())
}

func (t *tx) PutUser(u store.User) error {
	return t.put(u.Validate(), `INSERT OR REPLACE INTO users (`+userColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		u.Name, u.Password, u.Contact, strings.Join(u.Senders, "\n"), u.Limits, u.Disabled, when(u.Made),
		when(u.Changed), u.Language)
}

func (t *tx) RemoveUser(name string) error {
	// The empty name is not a user: what throttles know of all users together is kept under it.
	if err := t.writes(nil); err != nil || name == "" {
		return err
	}
	if err := t.RemoveTickets(name); err != nil {
		return err
	}
	for _, query := range [...]string{`DELETE FROM memories WHERE user = ?`, `DELETE FROM known WHERE user = ?`,
		`DELETE FROM sketches WHERE user = ?`,
		`DELETE FROM logins WHERE console = 0 AND name = ?`,
		`DELETE FROM users WHERE name = ?`} {
		if _, err := t.run(query, name); err != nil {
			return t.spoil(err)
		}
	}
	return nil
}

func (t *tx) Remembered(throttle, user string) (store.Memory, error) {
	return one(t, errNothing, func(r row) (store.Memory, error) {
		m := store.Memory{Throttle: throttle, User: user, State: r.bytes(0), Due: r.time(1), Stopped: r.bool(2)}
		return m, corrupt(m.Validate())
	}, `SELECT state, due, stopped FROM memories WHERE user = ? AND throttle = ?`, user, throttle)
}

var errNothing = fmt.Errorf("what a throttle remembers: %w", store.ErrNotFound)

func (t *tx) Remember(m store.Memory) error {
	if err := t.writes(m.Validate()); err != nil {
		return err
	}
	if len(m.State) == 0 {
		_, err := t.run(`DELETE FROM memories WHERE user = ? AND throttle = ?`, m.User, m.Throttle)
		return err
	}
	t.session.weigh(len(m.State))
	_, err := t.run(`INSERT INTO memories (`+memoryColumns+
		`) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET state = excluded.state, due = excluded.due, stopped = excluded.stopped`,
		m.User, m.Throttle, m.State, optional(m.Due), m.Stopped)
	return err
}

func (t *tx) Memories(user string, limit int) ([]store.Memory, error) {
	return list(t, limit, readMemory,
		`SELECT `+memoryColumns+` FROM memories WHERE user = ? ORDER BY throttle LIMIT ?`, user)
}

func (t *tx) Due(now time.Time, limit int) ([]store.Memory, error) {
	return list(t, limit, readMemory, `SELECT `+memoryColumns+
		` FROM memories WHERE due <= ? ORDER BY due, user, throttle LIMIT ?`, bound(now))
}

func (t *tx) Stopped(afterThrottle, afterUser string, limit int) ([]store.Memory, error) {
	return list(t, limit, readMemory, `SELECT `+memoryColumns+
		` FROM memories WHERE stopped = 1 AND (throttle, user) > (?, ?) ORDER BY throttle, user LIMIT ?`,
		afterThrottle, afterUser)
}

func readMemory(r row) (store.Memory, error) {
	m := store.Memory{User: r.text(0), Throttle: r.text(1), State: r.bytes(2), Due: r.time(3), Stopped: r.bool(4)}
	return m, corrupt(m.Validate())
}

// bound is how a time is written that others are compared with. It may be one that cannot be stored.
func bound(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, 0)):
		return -1
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return nanos(t)
}

const sketchColumns = `user, throttle, state, flagged`

func (t *tx) Sketch(throttle, user string) (store.Sketch, error) {
	return one(t, errNoSketch, func(r row) (store.Sketch, error) {
		k := store.Sketch{Throttle: throttle, User: user, State: r.bytes(0), Flagged: r.bool(1)}
		return k, corrupt(k.Validate())
	}, `SELECT state, flagged FROM sketches WHERE user = ? AND throttle = ?`, user, throttle)
}

// They are made once: most lookups of new users return errNoSketch, and of users who write to few errNoKnown.
var (
	errNoSketch = fmt.Errorf("what a throttle knows of a user: %w", store.ErrNotFound)
	errNoKnown  = fmt.Errorf("the known part of a sketch: %w", store.ErrNotFound)
)

func (t *tx) Known(throttle, user string) ([]byte, error) {
	return one(t, errNoKnown, func(r row) ([]byte, error) {
		known := r.bytes(0)
		return known, corrupt(store.CheckKnown(throttle, user, known))
	}, `SELECT data FROM known WHERE user = ? AND throttle = ?`, user, throttle)
}

func (t *tx) PutSketch(k store.Sketch) error {
	if err := t.writes(k.Validate()); err != nil {
		return err
	}
	if len(k.State) == 0 {
		return t.removeSketch(k.Throttle, k.User)
	}
	t.session.weigh(len(k.State))
	_, err := t.run(`INSERT INTO sketches (`+sketchColumns+
		`) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET state = excluded.state, flagged = excluded.flagged`,
		k.User, k.Throttle, k.State, k.Flagged)
	return err
}

// removeSketch takes a sketch away, with its known part.
func (t *tx) removeSketch(throttle, user string) error {
	for _, query := range [...]string{`DELETE FROM known WHERE user = ? AND throttle = ?`,
		`DELETE FROM sketches WHERE user = ? AND throttle = ?`} {
		if _, err := t.run(query, user, throttle); err != nil {
			return t.spoil(err)
		}
	}
	return nil
}

func (t *tx) PutKnown(throttle, user string, known []byte) error {
	if err := t.writes(store.CheckKnown(throttle, user, known)); err != nil {
		return err
	}
	if len(known) == 0 {
		_, err := t.run(`DELETE FROM known WHERE user = ? AND throttle = ?`, user, throttle)
		return err
	}
	t.session.weigh(len(known))
	n, err := t.run(`INSERT INTO known (throttle, user, data) SELECT throttle, user, ? FROM sketches
		WHERE user = ? AND throttle = ? ON CONFLICT DO UPDATE SET data = excluded.data`, known, user, throttle)
	if err == nil && n == 0 {
		err = errNoSketch
	}
	return err
}

func (t *tx) Flagged(afterThrottle, afterUser string, limit int) ([]store.Sketch, error) {
	return list(t, limit, readSketch, `SELECT `+sketchColumns+
		` FROM sketches WHERE flagged = 1 AND (throttle, user) > (?, ?) ORDER BY throttle, user LIMIT ?`,
		afterThrottle, afterUser)
}

func readSketch(r row) (store.Sketch, error) {
	k := store.Sketch{User: r.text(0), Throttle: r.text(1), State: r.bytes(2), Flagged: r.bool(3)}
	return k, corrupt(k.Validate())
}
